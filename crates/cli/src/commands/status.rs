//! `windlass status`: shows the state of runs.

use serde_json::{Value, json};
use windlass_engine::Engine;
use windlass_journal::{RunFilter, Runs};
use windlass_kernel::run::plan::{BudgetedResource, Phase, Plan, Requirement, RunOutcome, Trigger};
use windlass_kernel::run::{
    Change, Hold, HoldRequest, MeasuringFiles, PhaseState, PhaseStatus, Resolution, Run, RunName,
    VoteDecision,
};
use windlass_kernel::{State, is_same_name};
use windlass_runtime::{Clock as _, SystemClock, grants_of_everything};
use windlass_views::RunSummary;

use crate::args::Status;
use crate::commands::close::conflict_folder;
use crate::commands::{expiry, metrics, session_core, stop, transcript};
use crate::failure::{CommandResult, Failure, exit_of};
use crate::installed;
use crate::missions;
use crate::output::{Output, Style, sanitize, shorten};
use crate::project::Project;
use crate::session_loop;
use crate::setup::actor_name;

/// Shows one run, or the runs of the project.
pub fn run(project: &Project, options: &Status, output: &Output) -> CommandResult {
    let runs = expiry::end_expired(project, options.run.as_deref(), output)?;
    tell_open_glass(&runs, output)?;
    if options.metrics {
        return metrics::run(project, &runs, output);
    }
    if let Some(name) = &options.run {
        let run = runs.read(runs.find(name)?)?;
        if let Some(phase) = &options.transcript {
            return transcript::show(project, &run, phase, output);
        }
        if output.json {
            output.value(&describe(&run))?;
        } else {
            print(&run, output);
            print_conflict(project, &run, output);
        }
        if run.ended.is_none() {
            stop::tell(
                project,
                std::iter::once(RunName::of(run.head.trace_id).to_string().as_str()),
                output,
            );
        }
        return Ok(0);
    }
    let state = if options.held { Some(State::Checkpoint) } else { None };
    let mut found = runs.list(&RunFilter {
        open_only: options.open || options.held,
        state,
        limit: options.limit.saturating_add(1),
    })?;
    let more = found.len() > options.limit;
    found.truncate(options.limit);
    let mut rows = Vec::new();
    let mut values = Vec::new();
    let mut code = 0;
    for one in &found {
        let run = match RunSummary::read(runs.store(), &one.trace.head) {
            Ok(run) => run,
            // A corrupt run does not hide the others.
            Err(error) if error.is_damage() => {
                code = exit_of(error.code());
                let (name, why) = (one.name.to_string(), error.code().as_str());
                rows.push(vec![
                    (name.clone(), None),
                    (String::new(), None),
                    ("corrupt".to_owned(), Some(Style::Bad)),
                    (why.to_owned(), None),
                    (String::new(), None),
                ]);
                let trace_id = one.trace.head.trace_id;
                let error = json!({ "code": why, "message": error.to_string() });
                values.push(json!({ "run_id": name, "trace_id": trace_id, "error": error }));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let mut value = describe_short(&run);
        if let Some(object) = value.as_object_mut() {
            object.insert("live".to_owned(), json!(one.live));
        }
        rows.push(row(&run, one.live));
        values.push(value);
    }
    if output.json {
        output.value(&values)?;
    } else if rows.is_empty() {
        output.line("no runs");
        output.note("start one: windlass run \"describe the task\"");
    } else {
        output.table(&["RUN", "LOOP", "STATE", "WHERE", "TASK"], &rows);
        if more {
            output.note("there are older ones; raise --limit to list them");
        }
    }
    if code != 0 {
        output.note("run `windlass verify` for details");
    }
    let open: Vec<String> = found
        .iter()
        .filter(|one| one.trace.head.state != Some(State::Terminal))
        .map(|one| one.name.to_string())
        .collect();
    stop::tell(project, open.iter().map(String::as_str), output);
    tell_core(project, &runs, output)?;
    if let Some(told) = project.held_log() {
        output.note(&format!("{} {told}", output.paint_note("warning:", Style::Bad)));
    }
    for problem in installed::problems(project) {
        let word = output.paint_note("warning:", Style::Bad);
        output.note(&format!("{word} {problem}"));
    }
    Ok(code)
}

/// Says which sessions may use every tool.
fn tell_open_glass(runs: &Runs, output: &Output) -> Result<(), Failure> {
    for (terms, decided) in grants_of_everything(runs.store(), SystemClock.now())? {
        let session = terms.run.map(|run| RunName::of(run).to_string()).unwrap_or_default();
        output.note(&format!(
            "{session} may use every tool until {}: {} allowed it ({})",
            terms.until,
            sanitize(&decided.by.name),
            sanitize(&decided.reason)
        ));
    }
    Ok(())
}

/// Says which sessions of the core loop are blocked, and which were not closed.
fn tell_core(project: &Project, runs: &Runs, output: &Output) -> Result<(), Failure> {
    if !session_loop::holds_for(project)? {
        return Ok(());
    }
    let config = project.settings()?;
    let told = session_core::blocked(runs, &config)
        .and_then(|blocked| Ok((blocked, session_core::unclosed(runs, &config, None)?)));
    let (blocked, unclosed) = match told {
        Ok(told) => told,
        // A corrupt run does not hide the others.
        Err(error) => {
            output
                .note(&format!("whether sessions are blocked or not closed is not known: {error}"));
            return Ok(());
        }
    };
    for (name, reason) in blocked {
        let word = output.paint_note("blocked:", Style::Bad);
        let reason = sanitize(&reason);
        output.note(&format!("{word} {name}: {reason}; see `windlass session clear-block`"));
    }
    for (name, missing) in unclosed {
        let word = output.paint_note("not closed:", Style::Bad);
        output.note(&format!("{word} {name}: {}", sanitize(&missing.join("; "))));
    }
    Ok(())
}

fn row(run: &RunSummary, live: bool) -> Vec<(String, Option<Style>)> {
    let (state, style) = state_label(run, live);
    let place = match (&run.ended, &run.hold, &run.phase) {
        (Some(ended), _, _) => ended.reason.clone(),
        (_, Some(hold), _) => hold.held.phase.clone(),
        (_, _, Some(phase)) => phase.clone(),
        _ => String::new(),
    };
    let task = run.task.get("task").and_then(Value::as_str);
    let task = shorten(&sanitize(task.unwrap_or_default()), 50);
    vec![
        (run.run_id.clone(), None),
        (run.loop_id.clone(), None),
        (state, Some(style)),
        (sanitize(&place), None),
        (task, Some(Style::Faint)),
    ]
}

/// A short label for a run's state.
fn state_label(run: &RunSummary, live: bool) -> (String, Style) {
    match (&run.ended, &run.hold) {
        (Some(ended), _) if ended.outcome == RunOutcome::Pass => ("PASS".to_owned(), Style::Good),
        (Some(ended), _) => (ended.outcome.as_str().to_owned(), Style::Bad),
        (None, Some(hold)) => match hold.resolution() {
            Resolution::Open if hold.is_expired(SystemClock.now()) => {
                ("expired".to_owned(), Style::Bad)
            }
            Resolution::Open => ("on hold".to_owned(), Style::Warn),
            Resolution::Approved => ("approved".to_owned(), Style::Warn),
            Resolution::Rejected => ("rejected".to_owned(), Style::Warn),
        },
        (None, None) if live => ("running".to_owned(), Style::Good),
        (None, None) if run.client.is_some() => ("open".to_owned(), Style::Good),
        (None, None) => ("interrupted".to_owned(), Style::Warn),
    }
}

/// The line of a phase: a mark for its status, its name, its attempt and its summary.
pub fn phase_line(phase: &Phase, state: &PhaseState, output: &Output) -> String {
    let (mark, style) = match state.status {
        PhaseStatus::Complete => ("✓", Style::Good),
        PhaseStatus::Failed => ("✗", Style::Bad),
        PhaseStatus::Running => ("…", Style::Warn),
        PhaseStatus::Skipped => ("-", Style::Faint),
        PhaseStatus::Pending => ("·", Style::Faint),
    };
    let attempts =
        if state.attempt > 1 { format!(" (attempt {})", state.attempt) } else { String::new() };
    let summary = state.done.as_ref().map(|done| sanitize(&done.summary)).unwrap_or_default();
    let summary = match verdict_of(state) {
        // Phases of the driver begin their summaries with it.
        Some(verdict) if !summary.starts_with(&format!("{verdict}: ")) => {
            let verdict = sanitize(verdict);
            format!("{verdict}: {summary}").trim_end_matches(": ").to_owned()
        }
        Some(_) => summary,
        None => summary,
    };
    let (mark, id) = (output.paint(mark, style), name_of(phase));
    format!("  {mark} {id}{attempts}  {summary}").trim_end().to_owned()
}

/// A phase's id, with its title if it has one.
pub fn name_of(phase: &Phase) -> String {
    match &phase.title {
        Some(title) => format!("{} {}", sanitize(&phase.id), sanitize(title)),
        None => sanitize(&phase.id),
    }
}

/// The verdict of a phase, if it gave one.
fn verdict_of(state: &PhaseState) -> Option<&str> {
    state.done.as_ref()?.answer.get("verdict")?.as_str().filter(|verdict| !verdict.is_empty())
}

/// Prints one run.
pub fn print(run: &Run, output: &Output) {
    let Some(started) = run.started.as_deref() else { return };
    let task = started.task.get("task").and_then(Value::as_str).unwrap_or_default();
    output.line(&format!(
        "{}  {}",
        output.paint(&started.run_id, Style::Bold),
        sanitize(&started.plan.title)
    ));
    output.line(&format!("  task     {}", sanitize(task)));
    let mission = started.options.get(missions::OPTION).and_then(|mission| mission.get("name"));
    if let Some(name) = mission.and_then(Value::as_str) {
        output.line(&format!("  mission  {}", sanitize(name)));
    }
    let state = run.head.state.map_or("", State::as_str);
    output.line(&format!("  state    {state}"));
    for (name, at) in
        [("started", run.started_at), ("ended", run.ended.as_ref().map(|ended| ended.at))]
    {
        if let Some(at) = at {
            output.line(&format!("  {name:8} {at}"));
        }
    }
    if let Some(worktree) = &started.worktree {
        output.line(&format!("  in       {}", sanitize(worktree)));
    }
    for (phase, state) in run.all_phases() {
        output.line(&phase_line(phase, state, output));
    }
    for resource in BudgetedResource::ALL {
        if let (Some(limit), used) = (run.limit(resource), run.used(resource))
            && resource != BudgetedResource::Attempts
        {
            output.line(&format!("  used     {used} of {limit} {}", resource.as_str()));
        }
    }
    // A run on hold lists them with its question.
    if run.ended.is_some() {
        print_measuring(run.change.as_ref(), output);
    }
    print_end(run, output);
}

/// Prints the changed files that decide what gates measure.
pub fn print_measuring(change: Option<&Change>, output: &Output) {
    let files = change.map(|change| MeasuringFiles::of(&change.files)).unwrap_or_default();
    if !files.paths.is_empty() {
        output.line("  changed tests and scripts");
        for line in files.lines() {
            output.line(&format!("    {}", sanitize(&line)));
        }
    }
}

/// Prints what a run waits for or how it ended.
pub fn print_end(run: &Run, output: &Output) {
    let id = run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default();
    // A run that ended while on hold counts as ended.
    if let Some(ended) = &run.ended {
        let style = if ended.outcome == RunOutcome::Pass { Style::Good } else { Style::Bad };
        let commit = run.newest_commit().filter(|_| ended.outcome == RunOutcome::Pass);
        let commit = commit.map(|commit| format!(", commit {commit}")).unwrap_or_default();
        let detail = if ended.detail.is_empty() {
            String::new()
        } else {
            format!(": {}", sanitize(&ended.detail))
        };
        let word = output.paint(ended.outcome.as_str(), style);
        output.line(&format!("{id} {word}, {}{commit}{detail}", sanitize(&ended.reason)));
        if Engine::start_of_failed(run).is_some() {
            let clean = |plan: &Plan| plan.require.contains(&Requirement::CleanRepo);
            let refuses = run.plan().is_some_and(clean);
            let next = if refuses { ", and refuse the next run" } else { "" };
            output.line(&format!("\nits changes are still in the project{next}:"));
            output.line(&format!("put back:  windlass close {id} --restore"));
            output.line(&format!("look:      windlass checkpoint list {id}"));
        }
    } else if let Some(hold) = &run.hold {
        let is_agent = hold.held.trigger == Trigger::AgentUnavailable;
        let what = if is_agent { "waits for its agent" } else { "waits for a person" };
        let word = output.paint(what, Style::Warn);
        // The whole question is shown by `queue show`.
        let mut question = hold.held.question.lines();
        let first = sanitize(question.next().unwrap_or_default());
        let more = if question.next().is_some() { " …" } else { "" };
        output.line(&format!("{id} {word} at {}: {first}{more}", sanitize(&hold.held.phase)));
        if is_agent {
            let next = match run.due() {
                Some(due) => format!("from {due} on, or now"),
                None => "when that is mended".to_owned(),
            };
            output.line(&format!("\ntry again: windlass resume {id}   ({next})"));
            if run.due().is_some() {
                output.line(&format!("or wait:   windlass resume {id} --wait"));
            }
            output.line(&format!("give up:   windlass queue reject {id} --reason TEXT"));
            return;
        }
        output.line(&format!("\ninspect:  windlass queue show {id}"));
        if hold.held.evidence.get("tool").is_some_and(|tool| tool == "ask/person")
            || asks_for_text(&hold.held)
        {
            output.line(&format!("answer:   windlass queue answer {id} TEXT --resume"));
        } else {
            let who = answers_as(hold);
            output.line(&format!(
                "approve:  windlass queue approve {id}{who} --reason TEXT --resume"
            ));
        }
        if hold.held.approvals > 1 {
            let (given, needed) = (votes(hold, VoteDecision::Approved), hold.held.approvals);
            output.line(&format!(
                "{given} of {needed} approvals are given; each needs another person"
            ));
        }
        output.line(&format!("reject:   windlass queue reject {id} --reason TEXT"));
    }
}

/// The options that an answer needs if the user of this command is not one who can give it.
fn answers_as(hold: &Hold) -> String {
    let user = actor_name(None);
    let has_voted =
        |name: &str| hold.votes.iter().any(|(vote, _)| is_same_name(&vote.by.name, name));
    let mut reviewers = hold.held.reviewers.iter();
    match reviewers.find(|name| !has_voted(name)) {
        Some(reviewer) if !hold.asks(&user) || has_voted(&user) => {
            format!(" --by {}", sanitize(reviewer))
        }
        None if hold.excludes(&user) || has_voted(&user) => " --by NAME".to_owned(),
        Some(_) | None => String::new(),
    }
}

/// Prints what a merge of the run's branch waits for.
pub fn print_conflict(project: &Project, run: &Run, output: &Output) {
    let Some(conflict) = &run.integration.conflict else { return };
    let id = run.started.as_ref().map(|started| started.run_id.as_str()).unwrap_or_default();
    let folder = conflict_folder(project, run).unwrap_or_default();
    let into = sanitize(&conflict.into);
    let word = output.paint("its merge waits for a person", Style::Warn);
    let paths = sanitize(&conflict.paths.join(", "));
    output.line(&format!(
        "{word}: `windlass/{id}` and `{into}` have changed the same lines of {paths}"
    ));
    output.line(&format!("\nresolve:   git -C {} merge {into}", sanitize(&folder)));
    output.line(&format!("go on:     windlass close {id} --merge"));
    output.line(&format!("give up:   windlass close {id}"));
}

/// How many people have decided a hold in this way.
pub fn votes(hold: &Hold, decision: VoteDecision) -> usize {
    hold.count(decision)
}

/// The exit code for a run's state.
pub fn exit(run: &Run) -> u8 {
    /// The reason of a task of the driver loop that ended with a question.
    const ASK_USER: &str = "ASK_USER";
    match (&run.ended, &run.hold) {
        (Some(ended), _) if ended.outcome == RunOutcome::Pass => 0,
        (Some(ended), _) if ended.reason == ASK_USER => 6,
        (Some(_), _) => 3,
        (None, Some(hold)) if asks_for_text(&hold.held) => 6,
        (None, Some(_)) => 4,
        (None, None) => 1,
    }
}

/// Whether a task of the driver loop asks a person a question that is answered by a text.
fn asks_for_text(held: &HoldRequest) -> bool {
    let has = |key: &str| held.evidence.get(key).is_some_and(Value::is_array);
    held.trigger == Trigger::PersonRequested && (has("questions") || has("candidates"))
}

/// A run as JSON, for lists.
pub fn describe_short(run: &RunSummary) -> Value {
    json!({
        "run_id": run.run_id,
        "trace_id": run.head.trace_id,
        "loop": run.loop_id,
        "state": run.head.state,
        "task": run.task,
        "started_at": run.started_at,
        "outcome": run.ended.as_ref().map(|ended| ended.outcome),
        "reason": run.ended.as_ref().map(|ended| ended.reason.clone()),
        "hold": run.hold.as_ref().map(|hold| json!({
            "trigger": hold.held.trigger,
            "phase": hold.held.phase,
            "question": hold.held.question,
            "since": hold.since,
            "expires_at": hold.held.expires_at,
            "shown": hold.shown,
            "expired": hold.is_expired(SystemClock.now()),
            "approvals": votes(hold, VoteDecision::Approved),
            "rejections": votes(hold, VoteDecision::Rejected),
            "approvals_needed": hold.held.approvals,
            "resolution": match hold.resolution() {
                Resolution::Open => None,
                Resolution::Approved => Some(VoteDecision::Approved.as_str()),
                Resolution::Rejected => Some(VoteDecision::Rejected.as_str()),
            },
        })),
    })
}

/// A run as JSON, in full.
pub fn describe(run: &Run) -> Value {
    let mut value = describe_short(&RunSummary::of(run));
    let phases: Vec<Value> = run
        .all_phases()
        .map(|(phase, state)| {
            json!({
                "id": phase.id,
                "title": phase.title,
                "status": state.status.as_str(),
                "attempt": state.attempt,
                "started_at": state.started_at,
                "verdict": verdict_of(state),
                "summary": state.done.as_ref().map(|done| done.summary.clone()),
                "failure": state.done.as_ref().and_then(|done| done.failure.clone()),
                "calls": state.done.as_ref().map(|done| done.calls.clone()),
                "outputs": state.done.as_ref().map(|done| done.outputs.clone()),
            })
        })
        .collect();
    if let Some(object) = value.as_object_mut() {
        object.insert("phases".to_owned(), Value::Array(phases));
        let started = run.started.as_ref();
        let mission = started.and_then(|started| started.options.get(missions::OPTION));
        object.insert("mission".to_owned(), json!(mission));
        object.insert("ended_at".to_owned(), json!(run.ended.as_ref().map(|ended| ended.at)));
        let changed = run.change.as_ref().map(|change| MeasuringFiles::of(&change.files));
        object.insert(
            "changed_tests_and_scripts".to_owned(),
            json!(changed.unwrap_or_default().lines()),
        );
        object.insert("facts".to_owned(), json!(run.facts));
        object.insert("merge_conflict".to_owned(), json!(run.integration.conflict));
        object.insert("commit".to_owned(), json!(run.newest_commit()));
        object.insert("detail".to_owned(), json!(run.ended.as_ref().map(|ended| &ended.detail)));
        object.insert(
            "spent".to_owned(),
            json!({
                "tokens": run.spent.tokens,
                "cost_micros": run.spent.cost_micros,
                "wall_ms": run.spent.wall_ms,
                "changed_lines": run.spent.changed_lines,
                "accounted": !run.spent.unaccounted,
            }),
        );
        object.insert("entries".to_owned(), json!(run.head.sequence_number));
        object.insert("latest_entry_digest".to_owned(), json!(run.head.entry_digest));
    }
    value
}
