//! The guard of agents: no agent without a selected model, and no changes while the sandbox is on.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::{Phase as Stage, may_write};
use serde_json::Value;
use windlass_kernel::run::Run;
use windlass_kernel::run::plan::Phase;
use windlass_kernel::{RiskLevel, TraceId};
use windlass_policy::{Judgement, Verdict};

use super::{Driver, is_driven, phase_of, recorded};
use windlass_engine::Assignment;
use windlass_engine::executors::AgentGuard;

/// Commands that change nothing except the targets of redirections.
const HARMLESS: [&str; 3] = ["cat", "echo", "printf"];

/// Enforces the sandbox of tasks.
pub trait TaskConfinement: Send + Sync {
    /// Turns the confinement of a task on or off.
    fn set_confined(&self, task: TraceId, on: bool);

    /// Whether a task is confined; `None` if that is not known.
    fn is_confined(&self, task: TraceId) -> Option<bool>;
}

/// Keeps the confinement of tasks in memory; the guard refuses the calls of confined tasks. A task is
/// confined by default.
#[derive(Debug, Default)]
pub struct InMemoryConfinement {
    unconfined: Mutex<BTreeSet<TraceId>>,
}

impl TaskConfinement for InMemoryConfinement {
    fn set_confined(&self, task: TraceId, on: bool) {
        let mut unconfined = self.unconfined.lock().unwrap_or_else(PoisonError::into_inner);
        if on {
            unconfined.remove(&task);
        } else {
            unconfined.insert(task);
        }
    }

    fn is_confined(&self, task: TraceId) -> Option<bool> {
        let unconfined = self.unconfined.lock().unwrap_or_else(PoisonError::into_inner);
        Some(!unconfined.contains(&task))
    }
}

impl AgentGuard for Driver {
    fn applies_to(&self, run: &Run) -> bool {
        is_driven(run)
    }

    fn model_for(&self, run: &Run, phase: &Phase) -> Result<String, String> {
        if phase_of(&phase.doer) != Some(Stage::Execution) {
            return Err("a model runs only in the execution phase".to_owned());
        }
        if recorded::telemetry(run, "sealed").next().is_some() {
            return Err("telemetry is sealed: no model may be called any more".to_owned());
        }
        let selection = recorded::selection(run).ok_or("no model was selected")?;
        let attempt = run.position(&phase.id).and_then(|at| run.phase(at));
        let attempt = attempt.map_or(1, |(_, state)| state.attempt);
        let next = recorded::next_call(run, attempt).ok_or("nothing was delegated")?;
        let usage = recorded::usage(run).ok_or("the usage of the task is not known")?;
        usage.admit(self.config(), next).map_err(|error| format!("[{}] {error}", error.code()))?;
        Ok(selection.resolved)
    }

    fn check_answer(&self, answer: &Value) -> Result<(), String> {
        if answer.get("facts").is_some() {
            return Err("the model's answer has `facts`, which only the driver may set".to_owned());
        }
        Ok(())
    }

    fn check_call(
        &self,
        assignment: &Assignment,
        class: RiskLevel,
        judgement: Option<&Judgement>,
    ) -> Result<(), String> {
        let judgement = judgement.ok_or("the policy's judgement of the call is not known")?;
        // The policy refuses the call itself, with its own reason.
        if judgement.verdict == Verdict::Deny {
            return Ok(());
        }
        if judgement.verdict == Verdict::Ask {
            return Err(format!(
                "a person must decide, and a task does not wait: {}",
                judgement.reason
            ));
        }
        if !class.writes() {
            return Ok(());
        }
        let run = &assignment.run;
        let sandbox = recorded::sandbox(run).unwrap_or_else(recorded::initial_sandbox);
        let confined = self.confinement.is_confined(run.head.trace_id);
        if !sandbox.sandbox.is_enabled() && confined == Some(false) {
            return Ok(());
        }
        let intent =
            recorded::intent(run).ok_or("the sandbox is on and the intent is not known")?;
        let inside = crate::Sandbox::default();
        let allowed = |path: &String| may_write(self.config(), &inside, &intent, path);
        if judgement.paths.is_empty() || !judgement.paths.iter().all(allowed) {
            return Err("the sandbox is on: nothing may be changed".to_owned());
        }
        let harmless = |command: &String| {
            command.split_whitespace().next().is_some_and(|word| HARMLESS.contains(&word))
        };
        if !judgement.commands.iter().all(harmless) || !judgement.findings.is_empty() {
            return Err("the sandbox is on: the command could change other files".to_owned());
        }
        let file = assignment.workspace.join(self.config().context_file());
        match std::fs::symlink_metadata(&file) {
            Ok(metadata) if metadata.is_file() => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Ok(_) => Err("the sandbox is on: the context file is not a regular file".to_owned()),
            Err(error) => Err(format!("the context file cannot be inspected: {error}")),
        }
    }
}
