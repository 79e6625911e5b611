//! Runs that are sessions of coding agents.

use serde_json::Value;

use super::event::Event;
use super::payload::HoldRequest;
use super::plan::{Plan, Trigger};
use super::state::{PhaseStatus, Run};

/// The builtin of runs that are sessions: a client of a coding agent makes the calls, and nothing drives the run.
pub const SESSION_BUILTIN: &str = "session";

impl Plan {
    /// Whether the runs are sessions, which go on in their client.
    #[must_use]
    pub fn is_session(&self) -> bool {
        self.builtins().any(|name| name == SESSION_BUILTIN)
    }
}

impl Run {
    /// The hold of a session whose work conflicts with what others have done, if the session can be put on hold: it
    /// goes on in its client meanwhile.
    #[must_use]
    pub fn conflict_hold(&self, question: String, evidence: Value) -> Option<Event> {
        let is_open = self.plan().is_some_and(Plan::is_session) && self.hold.is_none();
        let running = self.phases.iter().position(|state| state.status == PhaseStatus::Running);
        let position = running.filter(|_| is_open && self.ended.is_none())?;
        let held = self.held(position, Trigger::MergeConflict, question);
        Some(Event::Held(Box::new(HoldRequest { evidence, ..held })))
    }
}
