//! What a session starts with.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use windlass_journal::Runs;
use windlass_kernel::run::RunName;
use windlass_sessions::core::{CoreProgress, CoreState, PlanState, SessionFacts};

use super::places::{DATA_VARIABLE, HOME_VARIABLE, SESSION_VARIABLE, data, quoted};
use super::{ProjectCore, context, start_parts};
use crate::{memory, work};

/// The variable that names the file with which Claude Code sets variables.
const FILE_VARIABLE: &str = "CLAUDE_ENV_FILE";

/// Sets the variables of the session's shells, if the client takes any.
pub fn set_variables(core: &ProjectCore<'_>, facts: &SessionFacts<'_>) -> Result<(), String> {
    let Some(file) = std::env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let home = core.home();
    let mut lines = String::new();
    let mut set = |name: &str, value: &str| {
        lines.push_str(&format!("export {name}={}\n", quoted(value)));
    };
    let home = home.to_string_lossy();
    set(HOME_VARIABLE, &home);
    if let Some(data) = data() {
        set(DATA_VARIABLE, &data.to_string_lossy());
    }
    set(SESSION_VARIABLE, &RunName::of(facts.run).to_string());
    let own = quoted(&home);
    lines.push_str(&format!("export PYTHONPATH={own}\"${{PYTHONPATH:+:$PYTHONPATH}}\"\n"));
    let failed = |error: std::io::Error| {
        format!(
            "the variables of the session cannot be set in `{}`: {error}",
            Path::new(&file).display()
        )
    };
    let mut opened =
        std::fs::OpenOptions::new().append(true).create(true).open(&file).map_err(failed)?;
    opened.write_all(lines.as_bytes()).map_err(failed)
}

/// What the agent is given when a session starts.
pub fn context(
    core: &ProjectCore<'_>,
    facts: &SessionFacts<'_>,
    progress: &CoreProgress,
) -> String {
    let mut parts = start_parts(core, facts);
    parts.add(
        "The core loop",
        "This session goes through the core loop of Windlass: each prompt gets a plan (agent prompt-hydrator) that is \
         reviewed (critic) before anything is written; the work is audited (custodiet), verified (qa-verifier) and \
         reflected on (framework). What is refused says what to do next. Use `windlass work` for work items, `windlass \
         memory search` for what is known, `windlass workflow list` for workflows.",
    );
    let (items, problem) = match work::tracker(core.project, core.config) {
        Ok(tracker) => core.asked(tracker.as_ref()),
        Err(failure) => (String::new(), Some(failure.summary())),
    };
    parts.add("Active work", &items);
    let folder = Path::new(&facts.event.cwd).file_name();
    let query = folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (memories, no_memory) = match memory::memory(core.project, core.config) {
        Ok(memory) => context::memories(memory.as_ref(), &query, &core.supervisor.redactor()),
        Err(failure) => (String::new(), Some(failure.summary())),
    };
    parts.add("Memory", &memories);
    let open_ends = progress.open_ends();
    parts.add("Not closed in this session", &open_ends.join("\n"));
    parts.add("Not closed in earlier sessions", &unclosed(core, facts));
    let ignored = std::env::var_os(DATA_VARIABLE)
        .filter(|value| !Path::new(value).is_absolute())
        .map(|_| format!("{DATA_VARIABLE} is not an absolute path and is not used"));
    let problems: Vec<String> = problem.into_iter().chain(no_memory).chain(ignored).collect();
    parts.add("Not available", &problems.join("\n"));
    let parts = parts.without_secrets(&core.supervisor.redactor());
    parts.within(core.config.core.context_bytes_max)
}

/// The sessions of this folder that were not closed.
fn unclosed(core: &ProjectCore<'_>, facts: &SessionFacts<'_>) -> String {
    let found = crate::commands::session_core::unclosed(
        &Runs::new(Arc::clone(core.store)),
        core.config,
        Some(facts.run),
    );
    let found = match found {
        Ok(found) => found,
        Err(error) => return format!("they cannot be read: {error}"),
    };
    let lines = found.iter().map(|(run, missing)| format!("- {run}: {}", missing.join("; ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// The state of the loop, for the hydrator.
pub fn state_of(state: &CoreState) -> String {
    let (done, all) = state.steps_done();
    let mut lines = Vec::new();
    match &state.plan {
        PlanState::Made(plan) => {
            lines.push(format!("workflow: {}", plan.workflow));
            lines.push(format!("intent: {}", plan.intent));
            lines.push(format!("steps: {done} of {all} done"));
            for (step, status) in &plan.steps {
                lines.push(format!("- {} [{}] {}", step.id, status.as_str(), step.text));
            }
        }
        PlanState::None | PlanState::Skipped { .. } | PlanState::Due { .. } => {
            lines.push("no plan yet".to_owned());
        }
    }
    for (judge, last) in &state.judges {
        let said = last.said.as_deref().unwrap_or("no answer yet");
        lines.push(format!("{}: {said}", judge.as_str()));
    }
    lines.extend(state.skill.as_ref().map(|skill| format!("active skill: {skill}")));
    lines.join("\n")
}
