//! Progress of a call, as notifications to the client that asked for it.

use std::sync::{Arc, Mutex};

use rmcp::model::ProgressToken;
use serde_json::json;

use crate::host::Progress;
use crate::session::{Outbox, lock};
use crate::wire;

/// What is sent before the host has said anything.
const WAITING: &str = "in progress";

/// The progress of one call.
pub(crate) struct CallProgress {
    /// `None` if the client did not ask for progress.
    token: Option<ProgressToken>,
    out: Arc<dyn Outbox>,
    state: Mutex<State>,
}

struct State {
    count: u64,
    text: String,
    ended: bool,
}

impl CallProgress {
    pub(crate) fn new(token: Option<ProgressToken>, out: Arc<dyn Outbox>) -> Self {
        let state = State { count: 0, text: WAITING.to_owned(), ended: false };
        Self { token, out, state: Mutex::new(state) }
    }

    /// Whether the client asked for progress.
    pub(crate) fn is_wanted(&self) -> bool {
        self.token.is_some()
    }

    /// Sends the last text again.
    pub(crate) fn beat(&self) {
        self.send(&mut lock(&self.state));
    }

    /// Ends it: nothing may follow the answer.
    pub(crate) fn end(&self) {
        lock(&self.state).ended = true;
    }

    fn send(&self, state: &mut State) {
        let Some(token) = self.token.as_ref().filter(|_| !state.ended) else { return };
        // Each must be greater than the one before.
        state.count += 1;
        let params =
            json!({ "progressToken": token, "progress": state.count, "message": state.text });
        self.out.offer(wire::notification("notifications/progress", &params));
    }
}

impl Progress for CallProgress {
    fn say(&self, text: &str) {
        let mut state = lock(&self.state);
        text.clone_into(&mut state.text);
        self.send(&mut state);
    }
}
