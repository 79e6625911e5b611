//! `windlass queue`: lists the runs on hold and records answers.

use serde_json::{Value, json};
use windlass_engine::{Again, HoldAnswer, HoldDetails, HoldQueue as Holds, WaitingRun};
use windlass_journal::Runs;
use windlass_kernel::run::plan::{Plan, Trigger};
use windlass_kernel::run::{Hold, Resolution, Run, VoteDecision};
use windlass_kernel::{Code, Digest, Timestamp, TraceId};
use windlass_policy::Connector;
use windlass_runtime::{Answer as CallAnswer, CallView, Clock as _, SystemClock};
use windlass_text::patch;
use windlass_views::RunSummary;

use crate::args::{Answer, Decider, Queue, SendBack};
use crate::commands::call::print_view;
use crate::commands::run::{find_hold, open, open_to_look, open_to_read, report, resume_run};
use crate::commands::verify::count;
use crate::commands::{expiry, read_args, session_core, status, stop};
use crate::failure::{CommandResult, Failure, exit_of};
use crate::output::{Output, Style, sanitize, shorten};
use crate::part::Part;
use crate::people::AccountPeople;
use crate::project::Project;
use crate::run_settings::put_back;

/// The most files that a warning names.
const NAMED_MAX: usize = 20;
/// The most of a diff that is shown.
const DIFF_BYTES_MAX: usize = 256 << 10;

/// Runs a subcommand of `queue`.
pub fn run(project: &Project, command: &Queue, output: &Output) -> CommandResult {
    match command {
        Queue::List { limit, ids } => list(project, *limit, *ids, output),
        Queue::Show { run, since } => show(project, run, since.as_deref(), output),
        Queue::Approve(answer) => decide(project, answer, VoteDecision::Approved, None, output),
        Queue::Reject(answer) => decide(project, answer, VoteDecision::Rejected, None, output),
        Queue::SendBack(back) => send_back(project, back, output),
        Queue::Answer { run, text, by, passphrase_file, resume } => {
            require_question(project, run)?;
            let decider = Decider {
                by: by.clone(),
                reason: text.clone(),
                passphrase_file: passphrase_file.clone(),
            };
            let answer = Answer::plain(run, decider, *resume);
            decide(project, &answer, VoteDecision::Approved, None, output)
        }
        Queue::Revoke { run, decider } => revoke(project, run, decider, output),
    }
}

fn list(project: &Project, limit: usize, ids: bool, output: &Output) -> CommandResult {
    let runs = expiry::end_expired(project, None, output)?;
    let Holds { waiting, count, damaged } = Holds::read(&runs, limit)?;
    let merges = open_merges(project, &runs)?;
    if ids {
        let all = waiting.iter().map(|one| &one.run).chain(&merges);
        for started in all.filter_map(|run| run.started.as_ref()) {
            output.line(&started.run_id);
        }
    } else if output.json {
        let holds = waiting.iter().map(|one| status::describe_short(&RunSummary::of(&one.run)));
        let values: Vec<Value> = holds.chain(merges.iter().map(status::describe)).collect();
        output.value(&values)?;
    } else if waiting.is_empty() && merges.is_empty() {
        output.line("no run waits for a decision");
    } else {
        let rows: Vec<_> =
            waiting.iter().map(row).chain(merges.iter().filter_map(merge_row)).collect();
        output.table(&["RUN", "SINCE", "WHY", "AT", "QUESTION"], &rows);
        if count > waiting.len() {
            output.note(&format!("{} more; raise --limit to list them", count - waiting.len()));
        }
    }
    let names = waiting.iter().filter_map(|one| one.run.started.as_ref());
    stop::tell(project, names.map(|started| started.run_id.as_str()), output);
    for (name, error) in &damaged {
        output.note(&format!("{name} is corrupt: {error} [{}]", error.code()));
    }
    Ok(damaged.first().map_or(0, |(_, error)| exit_of(error.code())))
}

/// How many people have answered, and how many must.
fn votes_so_far(hold: &Hold) -> String {
    let votes = |decision| status::votes(hold, decision);
    let (yes, no) = (votes(VoteDecision::Approved), votes(VoteDecision::Rejected));
    let approvals = format!("{yes} of {} approvals", hold.held.approvals);
    match no {
        0 => approvals,
        no => format!("{no} of {} rejections, {approvals}", hold.held.rejections),
    }
}

fn row(one: &WaitingRun) -> Vec<(String, Option<Style>)> {
    let id = one.run.started.as_ref().map(|started| started.run_id.clone());
    let votes = match one.hold.held.approvals {
        0 | 1 => String::new(),
        needed => format!(" ({} of {needed})", status::votes(&one.hold, VoteDecision::Approved)),
    };
    let question = match one.hold.resolution() {
        Resolution::Open if one.hold.is_expired(SystemClock.now()) => {
            "expired; nobody answered in time".to_owned()
        }
        Resolution::Open => shorten(&sanitize(&one.hold.held.question), 60),
        Resolution::Approved => "approved, not yet resumed".to_owned(),
        Resolution::Rejected => "rejected, not yet resumed".to_owned(),
    };
    vec![
        (id.unwrap_or_default(), None),
        (text(one.hold.since), Some(Style::Faint)),
        (format!("{}{votes}", one.hold.held.trigger.as_str()), Some(Style::Warn)),
        (sanitize(&one.hold.held.phase), None),
        (question, None),
    ]
}

/// The runs that have passed and whose merge waits for a person. Those that are closed have no work tree any more.
fn open_merges(project: &Project, runs: &Runs) -> Result<Vec<Run>, Failure> {
    let Ok(entries) = std::fs::read_dir(project.state()?.join("worktrees")) else {
        return Ok(Vec::new());
    };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let mut open = Vec::new();
    for name in names {
        // Others are work trees of phases; a trace that is corrupt is told by `verify`.
        let Ok(trace_id) = runs.find(&name) else { continue };
        let Ok(run) = runs.read(trace_id) else { continue };
        if run.integration.conflict.is_some() {
            open.push(run);
        }
    }
    Ok(open)
}

fn merge_row(run: &Run) -> Option<Vec<(String, Option<Style>)>> {
    let id = run.started.as_ref()?.run_id.clone();
    let conflict = run.integration.conflict.as_ref()?;
    let files = u64::try_from(conflict.paths.len()).unwrap_or(u64::MAX);
    let files = count(files, "file", "files");
    Some(vec![
        (id, None),
        (text(conflict.at), Some(Style::Faint)),
        (Code::MergeConflict.as_str().to_owned(), Some(Style::Warn)),
        (format!("merge into {}", sanitize(&conflict.into)), None),
        (format!("resolve {files}, then close it again"), None),
    ])
}

fn text(ts: Timestamp) -> String {
    ts.to_string()
}

fn show(project: &Project, name: &str, since: Option<&str>, output: &Output) -> CommandResult {
    drop(expiry::end_expired(project, Some(name), output)?);
    let setup = open_to_look(project, output)?;
    let (trace_id, hold_id) = find_hold(project, &setup, name)?;
    let run = setup.engine.read(trace_id)?;
    if run.integration.conflict.is_some() {
        match output.json {
            true => output.value(&status::describe(&run))?,
            false => {
                status::print(&run, output);
                status::print_conflict(project, &run, output);
            }
        }
        return Ok(0);
    }
    let Some(hold) = run.hold.as_ref().filter(|_| run.ended.is_none()) else {
        let message = format!("run `{name}` does not wait for a decision");
        return Err(Failure::new(Code::RunNotOnHold, message));
    };
    let details = setup.engine.hold_details(&run, hold, since)?;
    let HoldDetails { call, diff, changed, policy_changed, must_stay, conflict, shown } = details;
    if output.json {
        let mut value = status::describe(&run);
        if let Some(object) = value.as_object_mut() {
            object.insert("held".to_owned(), json!(hold.held));
            object.insert("checkpoint_id".to_owned(), json!(hold_id));
            let votes: Vec<Value> = hold
                .votes
                .iter()
                .map(|(vote, at)| json!({"by": vote.by.name, "key_id": vote.by.key.id(), "at": at, "decision": vote.decision, "conditions": vote.conditions, "reason": vote.reason, "send_back": vote.send_back}))
                .collect();
            object.insert("votes".to_owned(), json!(votes));
            object.insert("redo_targets".to_owned(), json!(run.redo_targets(&hold.held)));
            object.insert("redo_default".to_owned(), json!(run.redo_default(&hold.held)));
            object.insert("call".to_owned(), json!(call));
            object.insert("conflict_folder".to_owned(), json!(conflict));
            object.insert("changed_since".to_owned(), json!(changed));
            object.insert("must_be_unchanged".to_owned(), json!(must_stay));
            object.insert("policy_changed".to_owned(), json!(policy_changed));
            object.insert("tree".to_owned(), json!(diff.as_ref().map(|diff| &diff.tree)));
            let since = diff.as_ref().and_then(|diff| diff.since.as_deref());
            let since = since.map(|text| patch::cut(text, DIFF_BYTES_MAX).text);
            object.insert("since".to_owned(), json!(since));
            let cut = diff.map(|diff| patch::cut(&diff.text, DIFF_BYTES_MAX));
            let (text, files) = cut.map(|cut| (cut.text, cut.files)).unzip();
            object.insert("diff".to_owned(), json!(text));
            object.insert("not_shown_in_full".to_owned(), json!(files.unwrap_or_default()));
            object.insert("shown".to_owned(), json!(shown));
        }
        output.value(&value)?;
        return Ok(0);
    }
    status::print(&run, output);
    output.line("");
    if let Some(id) = &hold_id {
        output.line(&format!("  hold     {id}"));
    }
    output.line(&format!("  why      {}", hold.held.trigger.as_str()));
    output.line(&format!("  since    {}", text(hold.since)));
    if let Some(expires_at) = hold.held.expires_at {
        output.line(&format!("  until    {}", text(expires_at)));
    }
    if !hold.held.reviewers.is_empty() {
        output.line(&format!("  asked    {}", sanitize(&hold.held.reviewers.join(", "))));
    }
    for item in &hold.held.checklist {
        output.line(&format!("  [ ]      {}", sanitize(item)));
    }
    if let Some(folder) = &conflict {
        output.line(&format!("  mend in  {}", sanitize(&folder.display().to_string())));
    }
    match &call {
        Some(call) => print_call(call, hold.held.call, output),
        None => print_evidence(&hold.held.evidence, output),
    }
    if let Some(change) = hold.held.change.as_ref().filter(|change| !change.files.is_empty()) {
        output.line(&format!(
            "  changed  {} in {}",
            count(change.lines, "line", "lines"),
            sanitize(&change.files.join(", "))
        ));
    }
    status::print_measuring(hold.held.change.as_ref(), output);
    if !changed.is_empty() {
        let names: Vec<String> =
            changed.iter().take(NAMED_MAX).map(|name| sanitize(name)).collect();
        let more = changed.len().saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let then = if must_stay {
            "it goes on only when they are, or after `windlass checkpoint rollback`"
        } else {
            "it goes on with them as they are"
        };
        output.note(&format!("not as the run left them: {}{more}; {then}", names.join(", ")));
    }
    if policy_changed {
        output.note("the policy has changed since the run began: whatever is decided, it ends");
    }
    for (vote, at) in &hold.votes {
        output.line(&format!(
            "  {}  {} by {}: {}",
            text(*at),
            vote.decision.as_str(),
            sanitize(&vote.by.name),
            sanitize(&vote.reason)
        ));
        for condition in &vote.conditions {
            output.line(&format!("             if {}", sanitize(condition)));
        }
        if let Some(back) = &vote.send_back {
            output.line(&format!("             back to {}", sanitize(&back.to)));
            for finding in &back.findings {
                output.line(&format!("             {}", sanitize(finding)));
            }
        }
    }
    let targets = run.redo_targets(&hold.held);
    if !targets.is_empty() {
        output.line(&format!("  back to  {}", sanitize(&targets.join(", "))));
    }
    let has_changes = hold.held.change.as_ref().is_some_and(|change| !change.files.is_empty());
    if has_changes && diff.is_none() {
        // Such as on a read-only disk, where git cannot store the files to compare them.
        output.line("  diff     cannot be made here");
    }
    let (text, since) = diff.map_or((String::new(), None), |diff| (diff.text, diff.since));
    let since = since.unwrap_or_default();
    let patches = [("since    that tree", since), ("diff     of the work so far", text)];
    for (title, text) in patches.into_iter().filter(|(_, text)| !text.is_empty()) {
        output.line(&format!("  {title}"));
        let cut = patch::cut(&text, DIFF_BYTES_MAX);
        for line in cut.text.lines() {
            output.line(&format!("    {}", sanitize(line)));
        }
        if !cut.files.is_empty() {
            let names = sanitize(&cut.files.join(", "));
            output.note(&format!("too long to be shown in full: {names}; look at the files"));
        }
    }
    output.line(&format!("  shown    {shown}"));
    Ok(0)
}

fn print_evidence(evidence: &Value, output: &Output) {
    if evidence.is_null() {
        return;
    }
    let evidence = serde_json::to_string_pretty(evidence).unwrap_or_default();
    for (at, line) in evidence.lines().enumerate() {
        let name = if at == 0 { "evidence" } else { "" };
        output.line(&format!("  {name:8} {}", sanitize(line)));
    }
}

fn print_call(call: &CallView, trace_id: Option<TraceId>, output: &Output) {
    if let Some(id) = trace_id {
        output.line(&format!("  call     {id}"));
    }
    output.line(&format!("  tool     {}", sanitize(&call.tool)));
    output.line(&format!("  args     {}", sanitize(&call.args.to_string())));
    output.line(&format!("  intent   {}", sanitize(&call.intent)));
    if let Some(agent) = &call.agent {
        output.line(&format!("  agent    {}", sanitize(agent)));
    }
    print_view(call, output);
    if call.interrupted {
        output.line("           it was interrupted: approve it and it is made again, unless you say that it ran (--ran) or failed (--failed)");
    }
}

fn send_back(project: &Project, back: &SendBack, output: &Output) -> CommandResult {
    let mut answer = Answer::plain(&back.run, back.decider.clone(), back.resume);
    answer.shown.clone_from(&back.shown);
    let again = Again { to: back.to.as_deref(), findings: &back.findings };
    decide(project, &answer, VoteDecision::Rejected, Some(again), output)
}

fn decide(
    project: &Project,
    answer: &Answer,
    decision: VoteDecision,
    again: Option<Again<'_>>,
    output: &Output,
) -> CommandResult {
    // A rejection starts nothing by itself.
    let acts = decision == VoteDecision::Approved || answer.resume;
    let open = if acts { open } else { open_to_read };
    let by = AccountPeople::open()?.decider(answer.decider.by.as_deref())?;
    let setup = open(project, Some(&by), output)?;
    setup.people.use_passphrase_file(answer.decider.passphrase_file.as_deref());
    let shown = shown_digest(answer.shown.as_deref())?;
    let (trace_id, _) = find_hold(project, &setup, &answer.run)?;
    let (reason, conditions) = (answer.decider.reason.as_str(), answer.conditions.as_slice());
    let args = answer.args.as_deref().map(read_args).transpose()?;
    let edit = args.as_ref();
    let settled = match (decision, answer.ran, answer.failed) {
        (_, false, false) => None,
        (VoteDecision::Approved, true, _) => Some(CallAnswer::Ran),
        (VoteDecision::Approved, false, true) => Some(CallAnswer::Failed),
        (VoteDecision::Rejected, ..) => {
            let message = "`--ran` and `--failed` say what became of a call, then the run goes on";
            return Err(Failure::new(Code::RequestInvalid, message).hint("use `queue approve`"));
        }
    };
    let by = by.as_str();
    let given = HoldAnswer { decision, by, reason, shown, conditions, edit, again, settled };
    let mut answered = setup.engine.answer(trace_id, given)?;
    answered.run = put_back(&setup, answered.run, output);
    // A session goes on in its client; its close is what waited.
    let is_session = answered.run.plan().is_some_and(Plan::is_session);
    if answer.resume && answered.resolution != Resolution::Open && answered.run.ended.is_none() {
        if is_session {
            return session_core::close(project, Some(&answer.run), output);
        }
        let run = resume_run(project, &setup, trace_id)?;
        return report(&put_back(&setup, run, output), output);
    }
    if output.json {
        output.value(&status::describe(&answered.run))?;
        return Ok(0);
    }
    let id =
        answered.run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default();
    match answered.resolution {
        Resolution::Open => {
            let told = answered.run.hold.as_ref().map(votes_so_far).unwrap_or_default();
            output.line(&format!("recorded; {told}"));
        }
        Resolution::Approved if is_session => {
            output.line(&format!("approved; continue with: windlass session close {id}"));
        }
        Resolution::Approved => {
            output.line(&format!("approved; continue with: windlass resume {id}"))
        }
        Resolution::Rejected if answered.run.ended.is_some() => {
            status::print_end(&answered.run, output);
        }
        Resolution::Rejected if again.is_some() => {
            output.line(&format!("sent back; continue with: windlass resume {id}"))
        }
        Resolution::Rejected => {
            output.line(&format!("rejected; the loop continues: windlass resume {id}"))
        }
    }
    Ok(0)
}

/// Fails unless a run waits for the answer to a question.
fn require_question(project: &Project, name: &str) -> Result<(), Failure> {
    let runs = project.runs()?;
    let run = runs.read(runs.find(name)?)?;
    match run.hold.as_ref().filter(|_| run.ended.is_none()) {
        Some(hold) if hold.held.trigger == Trigger::PersonRequested => Ok(()),
        Some(hold) if asks_person(project, &hold.held.evidence)? => Ok(()),
        Some(hold) => {
            let trigger = hold.held.trigger.as_str();
            let message = format!("run `{name}` asks for no text, but for a decision: {trigger}");
            Err(Failure::new(Code::RequestInvalid, message)
                .hint("`windlass queue show RUN` shows it; approve or reject it"))
        }
        None => {
            let message = format!("run `{name}` does not wait for a decision");
            Err(Failure::new(Code::RunNotOnHold, message))
        }
    }
}

/// Whether the call on hold is a question to a person.
fn asks_person(project: &Project, evidence: &Value) -> Result<bool, Failure> {
    let tool = evidence.get("tool").and_then(Value::as_str);
    let Some((server, tool)) = tool.and_then(|tool| tool.split_once('/')) else { return Ok(false) };
    let set = project.policy(Part::Whole, &project.files()?)?;
    let found = set.registry().find(server, tool);
    Ok(found.is_some_and(|(server, _)| server.connector == Connector::Person))
}

/// Reads the digest of what a person was shown.
pub fn shown_digest(text: Option<&str>) -> Result<Option<Digest>, Failure> {
    let parse = |text: &str| {
        text.parse::<Digest>()
            .map_err(|error| Failure::new(Code::RequestInvalid, format!("`--shown`: {error}")))
    };
    text.map(parse).transpose()
}

fn revoke(project: &Project, run: &str, decider: &Decider, output: &Output) -> CommandResult {
    let by = AccountPeople::open()?.decider(decider.by.as_deref())?;
    let setup = open_to_read(project, Some(&by), output)?;
    setup.people.use_passphrase_file(decider.passphrase_file.as_deref());
    let (trace_id, _) = find_hold(project, &setup, run)?;
    let after = setup.engine.revoke(trace_id, &by, &decider.reason)?;
    if output.json {
        output.value(&status::describe(&after))?;
    } else {
        output.line(&format!("the answer of {} is withdrawn; the run waits again", sanitize(&by)));
    }
    Ok(0)
}
