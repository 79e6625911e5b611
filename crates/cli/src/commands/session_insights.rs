//! What was said in sessions, and what can be learned from them.

use std::path::PathBuf;

use windlass_formats::core::{INSIGHTS_BYTES_MAX, Insights, Trends};
use windlass_journal::{RunFilter, Runs};
use windlass_kernel::Code;
use windlass_kernel::run::RunName;

use crate::args::{RunTask, SessionInsights};
use crate::commands::run;
use crate::commands::session_found::{Found, find};
use crate::core_session::places::SESSION_VARIABLE;
use crate::core_session::{context, places};
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, sanitize};
use crate::part::Part;
use crate::project::Project;

/// The most sessions that are looked through.
const SESSIONS_MAX: usize = 200;

/// Prints what was said in a session, from the client's own record.
pub fn said(project: &Project, named: Option<&str>, output: &Output) -> CommandResult {
    let runs = project.runs()?;
    let found = match named {
        Some(_) => find(project, &runs, named)?,
        // One that has ended is of interest, too.
        None => newest(project, &runs)?,
    };
    let files = project.files()?;
    let supervisor = project.supervisor(Part::Whole, &files)?;
    let turns = context::turns_of(&found.id, &supervisor.redactor());
    if turns.is_empty() {
        let message = format!("Claude Code has no record of session `{}`", sanitize(&found.id));
        return Err(Failure::new(Code::FileUnreadable, message)
            .hint("`windlass session transcript` shows what Windlass has recorded"));
    }
    if output.json {
        output.value(&turns)?;
    } else {
        let title = format!("Session {}", found.name());
        let page = windlass_hooks::conversation_markdown(&title, &turns, 4000);
        for line in supervisor.redactor().redacted(&page).lines() {
            output.line(&sanitize(line));
        }
    }
    Ok(0)
}

/// The session in whose shell this runs, or else the newest one.
fn current(project: &Project, runs: &Runs) -> Result<Found, Failure> {
    match std::env::var(SESSION_VARIABLE) {
        Ok(name) if !name.is_empty() => find(project, runs, Some(&name)),
        Ok(_) | Err(_) => newest(project, runs),
    }
}

/// The newest session, whether it has ended or not.
fn newest(project: &Project, runs: &Runs) -> Result<Found, Failure> {
    let filter = RunFilter { open_only: false, state: None, limit: SESSIONS_MAX };
    for one in runs.list(&filter)? {
        let name = RunName::of(one.trace.head.trace_id).to_string();
        if let Ok(found) = find(project, runs, Some(&name)) {
            return Ok(found);
        }
    }
    Err(Failure::new(Code::RunNotFound, "there is no session")
        .hint("`windlass session list` lists them"))
}

/// Lets an agent analyse sessions.
pub fn insights(project: &Project, options: &SessionInsights, output: &Output) -> CommandResult {
    let names: Vec<String> = {
        let runs = project.runs()?;
        match (&options.session, options.batch) {
            (Some(name), _) => vec![find(project, &runs, Some(name))?.name()],
            (None, false) => vec![current(project, &runs)?.name()],
            (None, true) => not_analysed(project, &runs)?,
        }
    };
    if names.is_empty() {
        output.line("every session that has ended is analysed");
        return Ok(0);
    }
    let mut code = 0;
    for name in names {
        let task = RunTask {
            task: Some(format!("insights of session {name}")),
            tasks: None,
            mission: None,
            set: Vec::new(),
            intent: None,
            name: "insights".to_owned(),
            variant: None,
            with: Vec::new(),
            worktree: false,
            answers: options.answers.clone(),
            agent: options.agent.clone(),
            wait: false,
            trace_id: None,
            by: options.by.clone(),
        };
        code = code.max(run::run(project, &task, output)?);
    }
    Ok(code)
}

/// The sessions that have ended and have no insights of an agent.
fn not_analysed(project: &Project, runs: &Runs) -> Result<Vec<String>, Failure> {
    let (known, _) = read_insights()?;
    let known: Vec<String> =
        known.into_iter().filter(|one| one.user_mood.is_some()).map(|one| one.session_id).collect();
    let filter = RunFilter { open_only: false, state: None, limit: SESSIONS_MAX };
    let mut found = Vec::new();
    for one in runs.list(&filter)? {
        let name = RunName::of(one.trace.head.trace_id).to_string();
        if let Ok(session) = find(project, runs, Some(&name))
            && session.run.ended.is_some()
            && !known.contains(&session.id)
            && context::is_recorded(&session.id)
        {
            found.push(name);
        }
    }
    Ok(found)
}

/// Shows what many sessions have in common.
pub fn trends(output: &Output) -> CommandResult {
    let (all, odd) = read_insights()?;
    for (path, reason) in &odd {
        output.note(&format!(
            "{} is left out: {}",
            sanitize(&path.display().to_string()),
            sanitize(reason)
        ));
    }
    let trends = Trends::of(&all);
    if output.json {
        output.value(&trends)?;
        return Ok(0);
    }
    let total = &trends.total;
    output.line(&format!("sessions          {}", total.sessions));
    for (outcome, count) in &total.outcomes {
        output.line(&format!("  {:<16}{count}", outcome.as_str()));
    }
    output.line(&format!(
        "blocks            {} in {} sessions",
        total.custodiet_blocks, total.blocked_sessions
    ));
    for (verdict, count) in &total.critic_verdicts {
        output.line(&format!("critic {:<11}{count}", verdict.as_str()));
    }
    for (name, count) in &total.workflows {
        output.line(&format!("workflow {name}: {count}"));
    }
    for (text, count) in total.friction_points.iter().take(10) {
        output.line(&format!("friction ({count}): {}", sanitize(text)));
    }
    for (week, counts) in &trends.weeks {
        output.line(&format!(
            "{week}: {} sessions, {} blocks",
            counts.sessions, counts.custodiet_blocks
        ));
    }
    Ok(0)
}

/// The insights in the data folder, and the files there that are none, with the reasons.
type ReadInsights = (Vec<Insights>, Vec<(PathBuf, String)>);

/// All insights in the data folder; a file that is not one does not hide the others.
fn read_insights() -> Result<ReadInsights, Failure> {
    let data = places::data().ok_or_else(|| {
        Failure::new(Code::RequestInvalid, "neither ACA_DATA nor HOME names a folder")
    })?;
    let folder = data.join("sessions/insights");
    let (mut found, mut odd) = (Vec::new(), Vec::new());
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok((found, odd)) };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let read = crate::input::read(&path, INSIGHTS_BYTES_MAX as u64)
            .map_err(|failure| failure.summary())
            .and_then(|bytes| Insights::read(&bytes).map_err(|error| error.to_string()));
        match read {
            Ok(insights) => found.push(insights),
            Err(reason) => odd.push((path, reason)),
        }
    }
    found.sort_by(|one, other| (one.date, &one.session_id).cmp(&(other.date, &other.session_id)));
    odd.sort();
    Ok((found, odd))
}
