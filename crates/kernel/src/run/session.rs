//! Runs that are sessions of coding agents.

use super::plan::Plan;

/// The builtin of runs that are sessions: a client of a coding agent makes the calls, and nothing drives the run.
pub const SESSION_BUILTIN: &str = "session";

impl Plan {
    /// Whether the runs are sessions, which go on in their client.
    #[must_use]
    pub fn is_session(&self) -> bool {
        self.builtins().any(|name| name == SESSION_BUILTIN)
    }
}
