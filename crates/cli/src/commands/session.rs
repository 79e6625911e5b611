//! `windlass session`: the sessions of coding agents in their own terminals.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};
use windlass_hooks::{Client, Tokens};
use windlass_kernel::artifact::DecidedBy;
use windlass_kernel::grant::{EVERY_TOOL, TIMES_MAX, Terms};
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::{Call, Code, State, Timestamp};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_sessions::core::StepStatus;
use windlass_sessions::{SessionHistory, SessionNote, Sessions, Unguarded, requested_at};
use windlass_store::Store;

use crate::args::{AllowAll, SessionCommand, StepArg};
use crate::commands::hook::sessions_of;
use crate::commands::session_found::{find, newest};
use crate::commands::{cell, session_core, session_insights, session_rewind};
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::part::Part;
use crate::people::AccountPeople;
use crate::project::Project;
use crate::session_surroundings::{text_of as text_of_path, watched_since};
use crate::session_transcripts::{self, Histories, TranscriptCheck};

/// The most characters of a line that are shown.
const LINE_CHARS_MAX: usize = 160;

/// Runs a subcommand of `session`.
pub fn run(named: Option<&Path>, command: &SessionCommand, output: &Output) -> CommandResult {
    let project = Project::find(named)?;
    match command {
        SessionCommand::List { open, limit } => list(&project, *open, *limit, output),
        SessionCommand::Show { session } => show(&project, session.as_deref(), output),
        SessionCommand::Transcript { session, said: true } => {
            session_insights::said(&project, session.as_deref(), output)
        }
        SessionCommand::Transcript { session, said: false } => {
            transcript(&project, session.as_deref(), output)
        }
        SessionCommand::End { session, reason } => end(&project, session, reason, output),
        SessionCommand::Check { session } => check(&project, session.as_deref(), output),
        SessionCommand::Rewind(options) => session_rewind::run(&project, options, output),
        SessionCommand::AllowAll(options) => allow_all(&project, options, output),
        SessionCommand::Step { step, status, session } => {
            let status = match status {
                StepArg::Pending => StepStatus::Pending,
                StepArg::InProgress => StepStatus::InProgress,
                StepArg::Completed => StepStatus::Completed,
            };
            session_core::step(&project, session.as_deref(), step, status, output)
        }
        SessionCommand::ClearBlock(options) => session_core::clear_block(&project, options, output),
        SessionCommand::Close { session } => {
            session_core::close(&project, session.as_deref(), output)
        }
        SessionCommand::Insights(options) => session_insights::insights(&project, options, output),
        SessionCommand::Trends => session_insights::trends(output),
    }
}

fn list(project: &Project, open: bool, limit: usize, output: &Output) -> CommandResult {
    let runs = project.runs()?;
    let found = newest(&runs, open, limit)?;
    let mut rows = Vec::new();
    let mut values = Vec::new();
    for summary in &found {
        let state = if summary.ended.is_some() { "ended" } else { "open" };
        let folder = summary.task.get("folder").and_then(Value::as_str).unwrap_or_default();
        let client = summary.client.clone().unwrap_or_default();
        let began = summary.started_at.map(|at| at.to_string()).unwrap_or_default();
        values.push(json!({
            "run_id": summary.run_id,
            "trace_id": summary.head.trace_id,
            "client": client,
            "state": state,
            "started_at": summary.started_at,
            "folder": folder,
        }));
        let style = if summary.ended.is_some() { Style::Faint } else { Style::Good };
        rows.push(vec![
            (summary.run_id.clone(), None),
            (client, None),
            (state.to_owned(), Some(style)),
            (began, Some(Style::Faint)),
            (sanitize(folder), None),
        ]);
    }
    if output.json {
        output.value(&values)?;
    } else if rows.is_empty() {
        output.line("no sessions");
        output.note("guard one: windlass install claude");
    } else {
        output.table(&["SESSION", "CLIENT", "STATE", "BEGAN", "FOLDER"], &rows);
    }
    Ok(0)
}

fn show(project: &Project, named: Option<&str>, output: &Output) -> CommandResult {
    let runs = project.runs()?;
    let found = find(project, &runs, named)?;
    let history = SessionHistory::read(runs.store(), found.trace_id())?;
    let unreported: Vec<Value> = history.unreported().map(describe).collect();
    let root = Project::of_session(Some(&project.root), Path::new(&found.folder));
    let root = root.and_then(|project| text_of_path(project.real_workspace()?))?;
    let records = session_transcripts::find(found.client, Path::new(&root), SystemTime::UNIX_EPOCH);
    let tokens = records.found.get(&found.id).map(|one| one.transcript.tokens);
    let tokens = tokens.filter(|tokens| *tokens != Tokens::default());
    let ended = found.run.ended.as_ref();
    let state = if ended.is_some() { "ended" } else { "open" };
    if output.json {
        let notes = history.notes.iter().map(|(at, note)| json!({ "at": at, "note": note }));
        output.value(&json!({
            "run_id": found.name(),
            "trace_id": found.trace_id(),
            "client": found.client.as_str(),
            "session": found.id,
            "folder": found.folder,
            "state": state,
            "tokens": tokens.map(|one| json!({ "input": one.input, "output": one.output })),
            "calls": history.calls.iter().map(describe).collect::<Vec<_>>(),
            "unreported": unreported,
            "notes": notes.collect::<Vec<_>>(),
        }))?;
        return Ok(0);
    }
    let line = |name: &str, text: &str| output.line(&format!("  {name:<10} {}", sanitize(text)));
    output.line(&output.paint(&found.name(), Style::Bold));
    line("client", found.client.as_str());
    line("session", &found.id);
    line("folder", &found.folder);
    line("state", state);
    let count =
        |state: State| history.calls.iter().filter(|call| call.head.state == Some(state)).count();
    let counts = [State::Completed, State::Failed, State::Denied, State::Pending, State::Executing];
    let counts: Vec<String> = counts
        .into_iter()
        .map(|state| (state, count(state)))
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count} {}", state.as_str()))
        .collect();
    line("calls", &if counts.is_empty() { "none".to_owned() } else { counts.join(", ") });
    if let Some(tokens) = tokens {
        line(
            "tokens",
            &format!("{} in, {} out, as the client counts", tokens.input, tokens.output),
        );
    }
    for (at, note) in &history.notes {
        if let SessionNote::Prompt { number, text, tree, .. } = note {
            let kept = if tree.is_some() { "" } else { " (files not kept)" };
            line(&format!("prompt {number}"), &format!("{at} {}{kept}", shortened(text)));
        }
    }
    for call in history.unreported() {
        line("unreported", &format!("{} {}", call.head.trace_id, summary_of(call)));
    }
    for (_, note) in &history.notes {
        if let SessionNote::Unguarded(one) = note {
            line("UNGUARDED", &use_of(one));
        }
    }
    Ok(0)
}

fn transcript(project: &Project, named: Option<&str>, output: &Output) -> CommandResult {
    let runs = project.runs()?;
    let found = find(project, &runs, named)?;
    let history = SessionHistory::read(runs.store(), found.trace_id())?;
    let notes =
        history.notes.iter().map(|(at, note)| (*at, text_of(note), json!({ "note": note })));
    let calls = history.calls.iter().filter_map(|call| {
        Some((requested_at(call)?, summary_of(call), json!({ "call": describe(call) })))
    });
    let mut all: Vec<(Timestamp, String, Value)> = notes.chain(calls).collect();
    all.sort_by_key(|(at, _, _)| *at);
    if output.json {
        let values = all.into_iter().map(|(at, _, mut value)| {
            if let Some(object) = value.as_object_mut() {
                object.insert("at".to_owned(), json!(at));
            }
            value
        });
        output.value(&values.collect::<Vec<_>>())?;
        return Ok(0);
    }
    for (at, text, _) in all {
        output.line(&format!(
            "{} {}",
            output.paint(&at.to_string(), Style::Faint),
            sanitize(&text)
        ));
    }
    Ok(0)
}

fn end(project: &Project, named: &str, reason: &str, output: &Output) -> CommandResult {
    let runs = project.runs()?;
    let found = find(project, &runs, Some(named))?;
    let sessions = open_sessions(project)?;
    // Work that was not verified and pushed is no success.
    let outcome = match session_core::open_ends(project, &runs, &found)?.is_empty() {
        true => RunOutcome::Pass,
        false => RunOutcome::Blocked,
    };
    sessions
        .of_run(found.session_name(), found.trace_id())
        .end(outcome, reason)
        .map_err(|error| Failure::of(error.code(), &error))?;
    if output.json {
        output.value(&json!({ "run_id": found.name(), "state": "ended" }))?;
    } else {
        output.line(&format!("ended {}", found.name()));
    }
    Ok(0)
}

/// The sessions of a project, to record something about one.
pub fn open_sessions(project: &Project) -> Result<Sessions, Failure> {
    let store: Arc<dyn Store> = Arc::new(project.store(&project.settings()?)?);
    sessions_of(project, store)
}

/// Compares the clients' own records with the journal.
fn check(project: &Project, named: Option<&str>, output: &Output) -> CommandResult {
    let runs = project.runs()?;
    let only = named.map(|name| find(project, &runs, Some(name))).transpose()?;
    let project = match &only {
        Some(found) => &Project::of_session(Some(&project.root), Path::new(&found.folder))?,
        None => project,
    };
    let supervisor = project.supervisor(Part::Whole, &project.files()?)?;
    let root = text_of_path(project.real_workspace()?)?;
    let check = TranscriptCheck { supervisor: &supervisor, root: &root, state: project.state()? };
    let histories = Histories::new(&runs, None);
    let mut values = Vec::new();
    let mut rows = Vec::new();
    for client in Client::ALL {
        let since = watched_since(project, client, &runs)?;
        let search = match &only {
            Some(only) if only.client != client => continue,
            // A subagent's session is one of its own in the journal.
            Some(only) if client == Client::OpenCode => {
                session_transcripts::find_in_database(&only.id, since)
            }
            Some(_) | None => session_transcripts::find(client, Path::new(&root), since),
        };
        if search.is_incomplete {
            output.note(&format!("not all records of {} could be read", client.as_str()));
        }
        for found in search.found.values() {
            if only.as_ref().is_some_and(|only| only.id != found.session) {
                continue;
            }
            let unguarded = check.unguarded(client, found, &histories)?;
            for one in &unguarded {
                rows.push(vec![
                    ("UNGUARDED".to_owned(), Some(Style::Bad)),
                    (client.as_str().to_owned(), None),
                    (sanitize(&one.session), None),
                    (sanitize(&one.tool), None),
                    (sanitize(one.id.as_deref().unwrap_or_default()), Some(Style::Faint)),
                ]);
            }
            values.push(json!({
                "client": client.as_str(),
                "session": found.session,
                "incomplete": found.transcript.is_incomplete,
                "unguarded": unguarded,
            }));
        }
    }
    if output.json {
        output.value(&values)?;
    } else if values.is_empty() {
        output.line("the clients have no records of sessions here");
    } else if rows.is_empty() {
        output.line(&format!("every use of a tool in {} sessions is on record", values.len()));
    } else {
        output.table(&["", "CLIENT", "SESSION", "TOOL", "ID"], &rows);
    }
    Ok(u8::from(!rows.is_empty()))
}

/// Grants a session everything for some minutes.
fn allow_all(project: &Project, options: &AllowAll, output: &Output) -> CommandResult {
    let people = AccountPeople::open()?;
    people.use_passphrase_file(options.decider.passphrase_file.as_deref());
    let name = people.decider(options.decider.by.as_deref())?;
    let runs = project.runs()?;
    let found = find(project, &runs, options.session.as_deref())?;
    if found.run.ended.is_some() {
        let message = format!("session `{}` has ended", found.name());
        return Err(Failure::new(Code::RequestInvalid, message)
            .hint("`windlass session list --open` lists those that go on"));
    }
    let files = project.files_of(Part::Policy)?;
    let config = Project::config(&files)?;
    let supervisor = Arc::new(project.supervisor(Part::Policy, &files)?.for_clients());
    if !cell::is_used(&supervisor) {
        people.require_protected(&name)?;
    }
    let until_ms = i64::from(options.minutes).saturating_mul(60_000);
    let until_ms = SystemClock.now().unix_ms().saturating_add(until_ms);
    let until = Timestamp::from_unix_ms(until_ms)
        .map_err(|_| Failure::new(Code::RequestInvalid, "the number of minutes is too large"))?;
    let terms = Terms {
        command: None,
        everything: true,
        path: None,
        run: Some(found.trace_id()),
        times: TIMES_MAX,
        tool: EVERY_TOOL.to_owned(),
        until,
    };
    let store = Arc::new(project.store(&config)?);
    let gateway = project.client_gateway(Part::Policy, &files, &config, supervisor, store)?;
    let gateway = gateway.with_people(Arc::new(people));
    let grant = gateway.grant(terms, &name, &options.decider.reason)?;
    let id = grant.head.trace_id;
    if output.json {
        output.value(&json!({ "grant": id, "run_id": found.name(), "until": until }))?;
    } else {
        output.line(&format!("{} may use every tool until {until}", found.name()));
        output.note(&format!("end it earlier: windlass grant revoke {id} --reason TEXT"));
    }
    Ok(0)
}

/// A call in lists.
fn describe(call: &Call) -> Value {
    let request = call.request.as_ref().map(|(request, _)| request);
    let decision = call.decision.as_ref().map(|(decision, _)| decision);
    json!({
        "trace_id": call.head.trace_id,
        "state": call.head.state,
        "tool": request.map(|one| format!("{}/{}", one.proposal.tool_server, one.proposal.tool_name)),
        "args": request.map(|one| &one.proposal.args),
        "agent": request.and_then(|one| one.agent.as_ref()),
        "requested_at": request.map(|one| one.ts),
        "decided_by": decision.map(|one| decider(&one.decided_by)),
        "reason": decision.map(|one| &one.rationale),
    })
}

const fn decider(by: &DecidedBy) -> &'static str {
    match by {
        DecidedBy::Policy { .. } => "policy",
        DecidedBy::Person { .. } => "person",
        DecidedBy::Grant { .. } => "grant",
        DecidedBy::Prompt { .. } => "prompt",
    }
}

/// A call in one line.
fn summary_of(call: &Call) -> String {
    let state = call.head.state.map_or("", State::as_str);
    let Some((request, _)) = &call.request else { return state.to_owned() };
    let args = &request.proposal.args;
    let main = ["line", "path", "pattern", "url"].iter().find_map(|name| args.get(name)?.as_str());
    let shown = main.map_or_else(|| args.to_string(), str::to_owned);
    let tool = format!("{}/{}", request.proposal.tool_server, request.proposal.tool_name);
    format!("{state:<10} {tool} {}", shortened(&shown))
}

/// A note in one line.
fn text_of(note: &SessionNote) -> String {
    match note {
        SessionNote::Event { event, subagent, .. } => match subagent {
            Some(id) => format!("{event} ({id})"),
            None => event.clone(),
        },
        SessionNote::Prompt { number, text, .. } => format!("prompt {number}: {}", shortened(text)),
        SessionNote::Unguarded(one) => format!("UNGUARDED {}", use_of(one)),
        SessionNote::Core(note) => session_core::text_of(note),
        SessionNote::LetThrough { call, id } => format!("call {call} let through for {id}"),
        SessionNote::PolicyChanged { from, to } => {
            format!("the policy changed from {from} to {to}")
        }
        SessionNote::Rewound { number, by, reason, .. } => {
            let place = match number {
                0 => "how they were before the rewind".to_owned(),
                number => format!("prompt {number}"),
            };
            format!("{by} brought the files back to {place}: {}", shortened(reason))
        }
    }
}

/// A use of a tool that was not asked about, and its session.
fn use_of(one: &Unguarded) -> String {
    format!("{} {} in session {}", one.tool, one.id.as_deref().unwrap_or_default(), one.session)
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LINE_CHARS_MAX {
        return line;
    }
    line.chars().take(LINE_CHARS_MAX).chain(['…']).collect()
}
