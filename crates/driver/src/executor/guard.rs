//! What agents may do in a task: nothing without a selected model, and inside the sandbox no change.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::{Phase as Stage, may_write};
use serde_json::Value;
use windlass_kernel::run::Run;
use windlass_kernel::run::plan::Phase;
use windlass_kernel::{RiskLevel, TraceId};
use windlass_policy::{Judgement, Verdict};

use super::{Driver, is_driven, phase_of, recorded};
use windlass_engine::Assignment;
use windlass_engine::executors::Guard;

/// Commands that change nothing but what their output is redirected to.
const HARMLESS: [&str; 3] = ["cat", "echo", "printf"];

/// Confines what runs for a task, and tells whether it does.
pub trait Confinement: Send + Sync {
    /// Confines, or lets go.
    fn confine(&self, task: TraceId, on: bool);

    /// Whether what runs now would be confined; `None` when that cannot be found out.
    fn is_confined(&self, task: TraceId) -> Option<bool>;
}

/// The engine's own confinement: its tool_caller refuses calls. A task that nobody let go is confined.
#[derive(Debug, Default)]
pub struct InMemory {
    off: Mutex<BTreeMap<TraceId, ()>>,
}

impl Confinement for InMemory {
    fn confine(&self, task: TraceId, on: bool) {
        let mut off = self.off.lock().unwrap_or_else(PoisonError::into_inner);
        if on {
            off.remove(&task);
        } else {
            off.insert(task, ());
        }
    }

    fn is_confined(&self, task: TraceId) -> Option<bool> {
        let off = self.off.lock().unwrap_or_else(PoisonError::into_inner);
        Some(!off.contains_key(&task))
    }
}

impl Guard for Driver {
    fn minds(&self, run: &Run) -> bool {
        is_driven(run)
    }

    fn admits(&self, run: &Run, phase: &Phase) -> Result<String, String> {
        if phase_of(&phase.doer) != Some(Stage::Execution) {
            return Err("a model works in the phase of execution and in no other".to_owned());
        }
        if recorded::telemetry(run, "sealed").next().is_some() {
            return Err("telemetry is sealed: no model is called any more".to_owned());
        }
        let selection = recorded::selection(run).ok_or("no model was selected")?;
        let attempt = run.position(&phase.id).and_then(|at| run.phase(at));
        let attempt = attempt.map_or(1, |(_, state)| state.attempt);
        let next = recorded::next_call(run, attempt).ok_or("nothing was delegated")?;
        let usage = recorded::usage(run).ok_or("what the task has spent is not known")?;
        usage.admit(self.config(), next).map_err(|error| format!("[{}] {error}", error.code()))?;
        Ok(selection.resolved)
    }

    fn takes(&self, answer: &Value) -> Result<(), String> {
        if answer.get("facts").is_some() {
            return Err("a model's answer states facts, which are the driver's to state".to_owned());
        }
        Ok(())
    }

    fn permits(
        &self,
        assignment: &Assignment,
        class: RiskLevel,
        judgement: Option<&Judgement>,
    ) -> Result<(), String> {
        let judgement = judgement.ok_or("what policy says to it cannot be told beforehand")?;
        // Policy says why itself, and the refusal is its own.
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
        let sandbox = recorded::sandbox(run).unwrap_or_else(recorded::unknown);
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
            return Err("the sandbox is on: the command could change more than it names".to_owned());
        }
        let file = assignment.workspace.join(self.config().context_file());
        match std::fs::symlink_metadata(&file) {
            Ok(metadata) if metadata.is_file() => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Ok(_) => Err("the sandbox is on: the context file is no plain file".to_owned()),
            Err(error) => Err(format!("the context file cannot be looked at: {error}")),
        }
    }
}
