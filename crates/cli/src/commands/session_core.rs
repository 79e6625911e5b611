//! What people and agents do in the core loop of a session: steps, blocks, the close.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use windlass_hooks::{EventKind, HookEvent};
use windlass_journal::{JournalError, RunFilter, Runs};
use windlass_kernel::Code;
use windlass_kernel::run::RunName;
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::{PlanId, State, TraceId};
use windlass_sessions::core::{
    Core, CoreNote, CoreProgress, CoreSettings, CoreSurroundings as _, NextStep, SessionFacts,
    StepStatus, WAITING_CALL,
};
use windlass_sessions::{SessionError, SessionHold, SessionNote, notes};
use windlass_store::{Store, TraceFilter};
use windlass_views::RunSummary;

use crate::args::{ClearBlock, Decider};
use crate::commands::cell;
use crate::commands::session::open_sessions;
use crate::commands::session_found::{Found, find};
use crate::config::Config;
use crate::core_session::ProjectCore;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, sanitize};
use crate::part::Part;
use crate::people::{AccountPeople, user_name};
use crate::project::Project;
use crate::session_loop;
use crate::session_surroundings::text_of as text_of_path;

/// The most sessions that are looked through.
const SESSIONS_MAX: usize = 200;

fn refused(error: &SessionError) -> Failure {
    Failure::of(error.code(), error)
}

/// The settings of the core loop in a project.
pub fn settings(config: &Config) -> CoreSettings {
    config.core.settings()
}

/// The open sessions and the states of their loops, newest first.
fn open_loops(runs: &Runs, config: &Config) -> Result<Vec<(TraceId, CoreProgress)>, JournalError> {
    let (store, settings) = (runs.store(), settings(config));
    let filter = RunFilter { open_only: true, state: None, limit: SESSIONS_MAX };
    let mut found = Vec::new();
    for one in runs.list(&filter)? {
        let head = &one.trace.head;
        if RunSummary::read(store, head)?.client.is_some() {
            let progress = CoreProgress::fold(store, head.trace_id, head.entry_digest, &settings)?;
            found.push((head.trace_id, progress));
        }
    }
    Ok(found)
}

/// Whether the client of a session has ended it while something was missing, and it did not go on.
fn was_left(runs: &Runs, run: TraceId) -> Result<bool, JournalError> {
    let notes = notes(runs.store(), run)?;
    let last = notes.iter().rev().find_map(|(_, note)| match note {
        SessionNote::Core(CoreNote::Unclosed { .. }) => Some(true),
        SessionNote::Prompt { .. } => Some(false),
        SessionNote::Core(_)
        | SessionNote::Event { .. }
        | SessionNote::Unguarded(_)
        | SessionNote::LetThrough { .. }
        | SessionNote::PolicyChanged { .. }
        | SessionNote::Rewound { .. } => None,
    });
    Ok(last == Some(true))
}

/// Whether a call of a session waits for a person, or was approved and not made.
fn has_waiting_call(runs: &Runs, run: TraceId) -> Result<bool, JournalError> {
    for state in [State::Pending, State::Authorized] {
        let plan_id = Some(PlanId(run.0));
        let filter = TraceFilter { state: Some(state), plan_id, ..TraceFilter::open(1) };
        if !runs.store().list_traces(&filter)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The sessions that a client ended while something was missing that still is, newest first.
pub fn unclosed(
    runs: &Runs,
    config: &Config,
    but: Option<TraceId>,
) -> Result<Vec<(String, Vec<String>)>, JournalError> {
    let mut found = Vec::new();
    for (run, progress) in open_loops(runs, config)? {
        let mut missing = progress.open_ends();
        missing.extend(has_waiting_call(runs, run)?.then(|| WAITING_CALL.to_owned()));
        if Some(run) != but && !missing.is_empty() && was_left(runs, run)? {
            found.push((RunName::of(run).to_string(), missing));
        }
    }
    Ok(found)
}

/// What keeps a session from being closed as a success; nothing if the project's sessions go through no loop.
pub fn open_ends(project: &Project, runs: &Runs, found: &Found) -> Result<Vec<String>, Failure> {
    if !session_loop::holds_for(project)? {
        return Ok(Vec::new());
    }
    let (run, head) = (found.trace_id(), found.run.head.entry_digest);
    let progress = CoreProgress::fold(runs.store(), run, head, &settings(&project.settings()?))?;
    Ok(progress.open_ends())
}

/// The sessions that are blocked, with the reasons.
pub fn blocked(runs: &Runs, config: &Config) -> Result<Vec<(String, String)>, JournalError> {
    let reason = |(run, progress): (TraceId, CoreProgress)| {
        Some((RunName::of(run).to_string(), progress.state.blocked?.reason))
    };
    Ok(open_loops(runs, config)?.into_iter().filter_map(reason).collect())
}

/// Changes the core loop of a session; returns its state afterwards.
fn change(
    project: &Project,
    found: &Found,
    make: impl FnOnce(&CoreProgress) -> Result<Vec<CoreNote>, Failure>,
) -> Result<CoreProgress, Failure> {
    let config = project.settings()?;
    let settings = settings(&config);
    let sessions = open_sessions(project)?;
    let session = sessions.of_run(found.session_name(), found.trace_id());
    let mut failure = None;
    let made = session.core(&settings, |progress| match make(progress) {
        Ok(notes) => Ok((notes, ())),
        Err(why) => {
            failure = Some(why);
            Ok((Vec::new(), ()))
        }
    });
    made.map_err(|error| refused(&error))?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    session
        .core(&settings, |progress| Ok((Vec::new(), progress.clone())))
        .map_err(|error| refused(&error))
}

/// A note of the core loop in one line.
pub fn text_of(note: &CoreNote) -> String {
    match note {
        CoreNote::PromptTaken { number, skipped, .. } => match skipped {
            Some(reason) => format!("prompt {number} needs no plan: {reason}"),
            None => format!("prompt {number} needs a plan"),
        },
        CoreNote::JudgeStarted { judge, .. } => format!("{} started", judge.as_str()),
        CoreNote::JudgeLaunched { .. } => "it works in the background".to_owned(),
        CoreNote::AnswerRefused { judge, reason, .. } => {
            format!("the answer of {} was refused: {reason}", judge.as_str())
        }
        CoreNote::Planned { workflow, intent, .. } => format!("plan by {workflow}: {intent}"),
        CoreNote::Criticised { verdict, reason, .. } => format!("critic {verdict}: {reason}"),
        CoreNote::Audited { verdict, reason, .. } => format!("audit {verdict}: {reason}"),
        CoreNote::Verified { verdict, reason, .. } => format!("verification {verdict}: {reason}"),
        CoreNote::Reflected { outcome, .. } => format!("reflection: {outcome}"),
        CoreNote::Step { step, status } => format!("step {step} {}", status.as_str()),
        CoreNote::SkillUsed { name } => format!("handed to {name}"),
        CoreNote::BlockCleared { by, reason } => format!("{by} cleared the block: {reason}"),
        CoreNote::Began { dirty, .. } => {
            format!("{} files were changed before the session", dirty.len())
        }
        CoreNote::WorkChanged { .. } => {
            "the files are others than those that were verified".to_owned()
        }
        CoreNote::StopRefused { missing } => format!("not let stop: {missing}"),
        CoreNote::Delivered { key, item } => format!("{key} is {item} in the tracker"),
        CoreNote::InsightsWritten { path } => format!("insights in {path}"),
        CoreNote::TranscriptWritten { path } => format!("transcript in {path}"),
        CoreNote::Closing(step) => {
            format!(
                "close {} {}: {}",
                step.step,
                if step.ok { "ok" } else { "failed" },
                step.detail
            )
        }
        CoreNote::Closed { commit } => {
            format!("closed at {}", commit.as_deref().unwrap_or("no commit"))
        }
        CoreNote::Unclosed { missing } => format!("not closed: {}", missing.join("; ")),
    }
}

/// Records how far a step of the plan is.
pub fn step(
    project: &Project,
    named: Option<&str>,
    step: &str,
    status: StepStatus,
    output: &Output,
) -> CommandResult {
    let runs = project.runs()?;
    let found = find(project, &runs, named)?;
    let progress = change(project, &found, |progress| {
        let plan = progress.state.plan().ok_or_else(|| {
            Failure::new(Code::RequestInvalid, "the session has no plan")
                .hint("the agent prompt-hydrator makes one")
        })?;
        if !plan.steps.iter().any(|(own, _)| own.id == step) {
            let known: Vec<&str> = plan.steps.iter().map(|(own, _)| own.id.as_str()).collect();
            let message = format!("the plan has no step `{}`", sanitize(step));
            return Err(Failure::new(Code::RequestInvalid, message)
                .hint(format!("its steps are {}", known.join(", "))));
        }
        Ok(vec![CoreNote::Step { step: step.to_owned(), status }])
    })?;
    let (done, all) = progress.state.steps_done();
    if output.json {
        output
            .value(&json!({ "step": step, "status": status, "completed": done, "total": all }))?;
    } else {
        output.line(&format!(
            "{}: {}; {done} of {all} steps are done",
            sanitize(step),
            status.as_str()
        ));
    }
    Ok(0)
}

/// Clears the block of a session.
pub fn clear_block(project: &Project, options: &ClearBlock, output: &Output) -> CommandResult {
    if let Some(inside) = windlass_cell::inside_a_cell() {
        return Err(
            Failure::new(Code::SandboxUnavailable, inside).hint("run Windlass outside of it")
        );
    }
    let runs = project.runs()?;
    let found = find(project, &runs, options.session.as_deref())?;
    let reason = options.decider.reason.trim().to_owned();
    if reason.is_empty() {
        return Err(Failure::new(Code::RequestInvalid, "a block is not cleared without a reason"));
    }
    let by = decider(project, &options.decider)?;
    change(project, &found, |progress| {
        if progress.state.blocked.is_none() {
            let message = format!("session `{}` is not blocked", found.name());
            return Err(Failure::new(Code::RequestInvalid, message)
                .hint("`windlass status` shows blocked sessions"));
        }
        Ok(vec![CoreNote::BlockCleared { by: by.clone(), reason: reason.clone() }])
    })?;
    if output.json {
        output.value(&json!({ "run_id": found.name(), "blocked": false, "by": by }))?;
    } else {
        output.line(&format!("{} may go on", found.name()));
    }
    Ok(0)
}

/// Who decides. Where agents' shells have no cell, the key must have a passphrase that they cannot know.
fn decider(project: &Project, options: &Decider) -> Result<String, Failure> {
    let people = AccountPeople::open()?;
    people.use_passphrase_file(options.passphrase_file.as_deref());
    let name = people.decider(options.by.as_deref())?;
    people.require_known(&name)?;
    let files = project.files()?;
    if !cell::is_used(&project.supervisor(Part::Whole, &files)?) {
        people.require_protected(&name)?;
    }
    Ok(name)
}

/// Closes the work of a session by hand.
pub fn close(project: &Project, named: Option<&str>, output: &Output) -> CommandResult {
    if let Some(inside) = windlass_cell::inside_a_cell() {
        return Err(
            Failure::new(Code::SandboxUnavailable, inside).hint("run Windlass outside of it")
        );
    }
    let runs = project.runs()?;
    let found = find(project, &runs, named)?;
    let project = Project::of_session(Some(&project.root), Path::new(&found.folder))?;
    let files = project.files()?;
    project.require_trust(&files)?;
    let config = Project::config(&files)?;
    let supervisor = project.supervisor(Part::Whole, &files)?;
    let store: Arc<dyn Store> = Arc::new(project.store(&config)?);
    let root = text_of_path(project.real_workspace()?)?;
    let binary = cell::program(&supervisor)?;
    let core = ProjectCore {
        project: &project,
        files: &files,
        config: &config,
        supervisor: &supervisor,
        store: &store,
        root: &root,
        cell: binary.as_deref(),
    };
    let sessions = crate::commands::hook::sessions_of(&project, Arc::clone(&store))?;
    let session = sessions.of_run(found.session_name(), found.trace_id());
    let settings = settings(&config);
    let now = session
        .core(&settings, |progress| Ok((Vec::new(), progress.clone())))
        .map_err(|error| refused(&error))?;
    if let Some(missing) = now.refuses_stopping() {
        let message = format!("the session cannot be closed yet: {}", missing.why);
        return Err(Failure::new(Code::RequestInvalid, message).hint(who_goes_on(missing.next)));
    }
    if let Some(block) = &now.state.blocked {
        let message = format!("the session is blocked: {}", block.reason);
        return Err(Failure::new(Code::RequestInvalid, message)
            .hint("`windlass session clear-block` clears it"));
    }
    match session.leave_hold(&user_name()).map_err(|error| refused(&error))? {
        SessionHold::None => {}
        SessionHold::Waits { question } => {
            let name = found.name();
            let hint =
                format!("when it is resolved: `windlass queue approve {name} --reason TEXT`");
            return Err(Failure::new(Code::RunOnHold, question).hint(hint));
        }
    }
    let event = event_of(&found);
    let facts = SessionFacts { event: &event, run: found.trace_id() };
    let in_loop = Core { settings: &settings, surroundings: &core };
    let deliver = || session.deliver(in_loop, facts).map_err(|error| refused(&error));
    // The close synchronises the tracker, so that what is known by now must be in it.
    deliver()?;
    let report = core.close(facts, &now.state);
    // The client has ended it before; now it is complete.
    let is_left = unclosed(&runs, &config, None)?.iter().any(|(name, _)| *name == found.name());
    session.record_close(&settings, &report).map_err(|error| refused(&error))?;
    if report.succeeded() {
        deliver()?;
    }
    let ends = report.succeeded() && is_left;
    let now = session
        .core(&settings, |progress| Ok((Vec::new(), progress.clone())))
        .map_err(|error| refused(&error))?;
    core.project(facts, &now, ends);
    if ends {
        session.end(RunOutcome::Pass, "closed by hand").map_err(|error| refused(&error))?;
    }
    if output.json {
        output.value(&json!({
            "run_id": found.name(), "closed": report.succeeded(), "commit": report.commit, "steps": report.steps,
        }))?;
    } else {
        for step in &report.steps {
            let word = if step.ok { "ok" } else { "failed" };
            output.line(&format!("{:<8} {word:<6} {}", step.step, sanitize(&step.detail)));
        }
    }
    Ok(u8::from(!report.succeeded()))
}

/// Who must do something before a session can be closed.
fn who_goes_on(next: NextStep) -> String {
    match next {
        NextStep::Judge(judge) => format!(
            "go on with the session in its client (`claude --resume`): the agent starts `{}` next",
            judge.as_str()
        ),
        NextStep::Agent => {
            "go on with the session in its client (`claude --resume`): the agent has work left"
                .to_owned()
        }
        NextStep::Person => {
            "enter a prompt in the session, or end it with `windlass session end`".to_owned()
        }
    }
}

/// An event that stands for a session whose client is not there.
fn event_of(found: &Found) -> HookEvent {
    HookEvent {
        client: found.client,
        name: "windlass".to_owned(),
        session: found.id.clone(),
        cwd: found.folder.clone(),
        transcript: None,
        subagent: None,
        model: None,
        permission_mode: None,
        kind: EventKind::Other { name: "windlass".to_owned() },
    }
}
