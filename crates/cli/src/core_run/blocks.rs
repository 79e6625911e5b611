//! Audits of runs that block, as the tracker is told of them.

use std::sync::Arc;

use serde_json::Value;
use windlass_engine::RunObservers;
use windlass_journal::{Observer, ObserverError, Origin, Step};
use windlass_kernel::TraceId;
use windlass_kernel::run::{Event, NoteKind, Run, RunEvent};
use windlass_sessions::core::CoreNote;

use super::CoreRun;
use crate::core_session::documents::begun;

/// The builtin by which runs of the core loop are known.
const BUILTIN: &str = "core/context";

/// Tells the tracker of audits that block runs of the core loop.
pub struct Blocks {
    /// What they need of the project.
    pub(super) run: Arc<CoreRun>,
}

impl RunObservers for Blocks {
    fn observe(&self, _: TraceId) -> Box<dyn Observer<Run>> {
        Box::new(Block { run: Arc::clone(&self.run), found: None })
    }
}

struct Block {
    run: Arc<CoreRun>,
    /// The verdict that is not told yet.
    found: Option<CoreNote>,
}

impl Observer<Run> for Block {
    fn before(&mut self, _: &Run, _: &RunEvent) {}

    fn after(&mut self, step: &Step<'_, Run>) {
        let is_core = || {
            let plan = step.state.plan();
            plan.is_some_and(|plan| plan.builtins().any(|name| name == BUILTIN))
        };
        if let (Origin::Appended, Event::Noted { what: NoteKind::Agent, body }) =
            (step.origin, &step.artifact.event)
            && body.get("blocked") == Some(&Value::Bool(true))
            && is_core()
        {
            self.found = Some(audited(body));
        }
    }

    fn durable(&mut self, state: &Run) -> Result<(), ObserverError> {
        if let Some(note) = self.found.take() {
            let mut told = self.run.state(state);
            told.apply(begun(state.head.trace_id), &note, 0);
            // The run has it on record, and what cannot be written now is kept for later.
            drop(self.run.deliver(state, told));
        }
        Ok(())
    }
}

/// What an audit of a run said, as one of a session is recorded.
fn audited(body: &Value) -> CoreNote {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = |key: &str| text(body.get("found").and_then(|found| found.get(key)));
    let reason = text(body.get("reason"));
    let issue = found("issue");
    CoreNote::Audited {
        id: text(body.get("audit")),
        verdict: "BLOCK".to_owned(),
        issue: if issue.is_empty() { reason.clone() } else { issue },
        reason,
        principle: found("principle"),
        correction: found("correction"),
    }
}
