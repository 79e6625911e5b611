//! The calls of all sessions: so many at once, each on a thread, the others in a queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rmcp::model::ErrorData;
use serde_json::{Value, json};

use crate::host::{ToolAnswer, ToolHost, ToolUse};
use crate::limits::Limits;
use crate::progress::CallProgress;
use crate::server::typed;
use crate::session::{Outbox, RequestKey, Session, lock};
use crate::wire;

/// A call that was accepted, with its way back.
pub(crate) struct Call {
    pub(crate) tool_use: ToolUse,
    pub(crate) key: RequestKey,
    pub(crate) session: Arc<Session>,
    pub(crate) out: Arc<dyn Outbox>,
    pub(crate) progress: Arc<CallProgress>,
    /// The version of the protocol that the client speaks.
    pub(crate) protocol: String,
    /// The length of its message.
    pub(crate) bytes: usize,
}

/// Performs calls.
pub(crate) struct Calls {
    host: Arc<dyn ToolHost>,
    limits: Limits,
    state: Mutex<State>,
    /// Told when the last call with progress has ended.
    no_progress: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Call>,
    threads: usize,
    bytes: usize,
    progress: Vec<Arc<CallProgress>>,
    beating: bool,
}

impl Calls {
    pub(crate) fn new(host: Arc<dyn ToolHost>, limits: Limits) -> Self {
        Self { host, limits, state: Mutex::default(), no_progress: Condvar::new() }
    }

    /// Starts a call, or lets it wait.
    pub(crate) fn submit(self: &Arc<Self>, call: Call) {
        let mut state = lock(&self.state);
        if state.queue.len() >= self.limits.calls_waiting_max
            || state.bytes.saturating_add(call.bytes) > self.limits.calls_bytes_max
        {
            drop(state);
            return refuse(&call, "too many calls are waiting");
        }
        state.bytes += call.bytes;
        if call.progress.is_wanted() {
            state.progress.push(Arc::clone(&call.progress));
            self.start_beating(&mut state);
        }
        if state.threads >= self.limits.calls_max {
            state.queue.push_back(call);
            return;
        }
        // What needs not wait has begun, even if its client closes before the thread runs.
        if !call.session.begin(&call.key) {
            drop(state);
            refuse(&call, CLOSING);
            call.session.end();
            return self.finish(&call);
        }
        state.threads += 1;
        drop(state);
        let calls = Arc::clone(self);
        // The call is left here, so that it can be refused if there is no thread for it.
        let call = Arc::new(Mutex::new(Some(call)));
        let first = Arc::clone(&call);
        let thread = std::thread::Builder::new().name("windlass-mcp-call".to_owned());
        let work = move || {
            if let Some(first) = lock(&first).take() {
                calls.work(first);
            }
        };
        if thread.spawn(work).is_err() {
            let call = lock(&call).take();
            lock(&self.state).threads -= 1;
            if let Some(call) = call {
                refuse(&call, "there is no thread for the call");
                call.session.end();
                self.finish(&call);
            }
        }
    }

    /// Performs a call that may start, and those that wait, one after another.
    fn work(&self, first: Call) {
        let (mut call, mut has_begun) = (first, true);
        loop {
            if has_begun {
                self.perform(&call);
            } else {
                refuse(&call, CLOSING);
            }
            call.session.end();
            self.finish(&call);
            let mut state = lock(&self.state);
            let Some(next) = state.queue.pop_front() else {
                state.threads -= 1;
                return;
            };
            // A session that closes finds each call in the queue or taken up.
            has_begun = next.session.begin(&next.key);
            drop(state);
            call = next;
        }
    }

    /// Refuses the calls of a session that wait: it has ended.
    pub(crate) fn refuse_waiting(&self, session: &Arc<Session>) {
        let mut state = lock(&self.state);
        let all = std::mem::take(&mut state.queue);
        let (own, others): (VecDeque<Call>, _) =
            all.into_iter().partition(|call| Arc::ptr_eq(&call.session, session));
        state.queue = others;
        drop(state);
        for call in own {
            refuse(&call, CLOSING);
            self.finish(&call);
        }
    }

    fn perform(&self, call: &Call) {
        let name = &call.tool_use.name;
        let performed = catch_unwind(AssertUnwindSafe(|| {
            let known = self.host.tools().iter().any(|tool| tool.name == *name);
            known.then(|| self.host.call(call.tool_use.clone(), &*call.progress))
        }));
        call.progress.end();
        if !call.session.wants_answer(&call.key) {
            return;
        }
        let id = &call.key.id;
        let error = |error| wire::error(Some(id.clone()), error);
        let result = |result| wire::result(id, &typed(result, &call.protocol));
        call.out.send(match performed {
            Ok(Some(ToolAnswer::Result(answer @ Value::Object(_)))) => result(answer),
            Ok(Some(ToolAnswer::Result(_))) => {
                error(ErrorData::internal_error("the tool's result is not an object", None))
            }
            Ok(Some(ToolAnswer::Error(text))) => {
                let content = json!([{ "type": "text", "text": text }]);
                result(json!({ "content": content, "isError": true }))
            }
            Ok(None) => {
                error(ErrorData::invalid_params(format!("there is no tool `{name}`"), None))
            }
            Err(_) => error(ErrorData::internal_error("the call failed inside the server", None)),
        });
    }

    /// Gives back what a call has occupied.
    fn finish(&self, call: &Call) {
        let mut state = lock(&self.state);
        state.bytes = state.bytes.saturating_sub(call.bytes);
        state.progress.retain(|progress| !Arc::ptr_eq(progress, &call.progress));
        if state.progress.is_empty() {
            self.no_progress.notify_all();
        }
    }

    /// Has a thread that sends progress, as long as there are calls whose clients want it. Without that
    /// thread the calls go on.
    fn start_beating(self: &Arc<Self>, state: &mut State) {
        if !state.beating {
            let calls = Arc::clone(self);
            let thread = std::thread::Builder::new().name("windlass-mcp-beat".to_owned());
            state.beating = thread.spawn(move || calls.beat()).is_ok();
        }
    }

    fn beat(&self) {
        let mut state = lock(&self.state);
        loop {
            let waiting = |state: &mut State| !state.progress.is_empty();
            (state, _) = self
                .no_progress
                .wait_timeout_while(state, self.limits.beat, waiting)
                .unwrap_or_else(PoisonError::into_inner);
            if state.progress.is_empty() {
                state.beating = false;
                return;
            }
            for progress in &state.progress {
                progress.beat();
            }
        }
    }
}

/// Why a call of a session that has ended never starts.
const CLOSING: &str = "the server is closing";

/// Answers a call that never starts.
fn refuse(call: &Call, reason: &'static str) {
    if call.session.wants_answer(&call.key) {
        let error = ErrorData::internal_error(reason, None);
        call.out.send(wire::error(Some(call.key.id.clone()), error));
    }
}
