//! The JSON input of programs and agents.

use serde_json::{Map, Value, json};
use windlass_kernel::run::plan::Doer;

use super::subagent::Subtask;
use crate::phase_executor::{Assignment, Subject};

/// Builds the input of a piece of work; it depends on the recorded run alone.
pub(crate) fn phase_input(assignment: &Assignment) -> Value {
    let run = &assignment.run;
    let started = run.started.as_deref();
    let answers: Map<String, Value> = run
        .all_phases()
        .filter_map(|(phase, state)| {
            let done = state.done.as_ref()?;
            Some((phase.id.clone(), done.answer.clone()))
        })
        .collect();
    let findings =
        run.phase(assignment.at).map_or(Value::Null, |(_, state)| state.findings.clone());
    let (doer, check) = match &assignment.subject {
        Subject::Work => (&assignment.phase.doer, Value::Null),
        Subject::Check(check) => (&check.doer, json!(check.id)),
    };
    let prompt = match doer {
        Doer::Agent { prompt, .. } => prompt.clone(),
        Doer::Builtin { .. }
        | Doer::Command { .. }
        | Doer::Consensus { .. }
        | Doer::Person { .. } => None,
    };
    json!({
        "answers": answers,
        "attempt": assignment.attempt,
        "check": check,
        "changed_files": run.change.as_ref().map(|change| change.files.clone()),
        "facts": run.facts,
        "findings": findings,
        "loop": started.map(|started| started.plan.id.clone()),
        "phase": assignment.phase.id,
        "prompt": prompt,
        "run_id": started.map(|started| started.run_id.clone()),
        "task": started.map_or(Value::Null, |started| started.task.clone()),
        "time_left_ms": assignment.time_left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        "workspace": assignment.workspace.display().to_string(),
    })
}

/// Builds the input of a subagent: what it was asked to do, and nothing else of the run.
pub(crate) fn subtask_input(assignment: &Assignment, subtask: &Subtask) -> Value {
    let started = assignment.run.started.as_deref();
    json!({
        "asked_by": subtask.asked_by,
        "attempt": assignment.attempt,
        "context": subtask.context,
        "phase": assignment.phase.id,
        "run_id": started.map(|started| started.run_id.clone()),
        "task": subtask.task,
        "workspace": assignment.workspace.display().to_string(),
    })
}
