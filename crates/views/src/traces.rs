//! Traces in lists: their state, their tool, and whom they wait for.

use serde_json::{Value, json};
use windlass_kernel::artifact::CLIENT_WORKSPACE;
use windlass_kernel::{ExecutionState, Machine, State, TraceId};
use windlass_store::{Store, StoreError, TraceFilter, TraceState};

/// Which traces to list.
#[derive(Clone, Copy, Debug)]
pub struct WantedTraces {
    /// Only those of this kind.
    pub machine: Option<Machine>,
    /// Only those in this state.
    pub state: Option<State>,
    /// Only those that have not ended.
    pub open_only: bool,
    /// Only those that wait for a person.
    pub waiting_only: bool,
    /// Only those that are older than this one.
    pub before: Option<TraceId>,
    /// At most so many.
    pub limit: usize,
}

/// A trace in a list.
#[derive(Clone, Copy, Debug)]
pub struct ListedTrace {
    /// Its head.
    pub state: TraceState,
    /// Whether a live process works on it.
    pub is_live: bool,
}

/// Lists traces, newest first; also says whether there are more.
///
/// # Errors
/// [`StoreError`].
pub fn list_traces(
    store: &dyn Store,
    wanted: WantedTraces,
) -> Result<(Vec<ListedTrace>, bool), StoreError> {
    let mut filter = TraceFilter {
        open_only: wanted.open_only || wanted.waiting_only,
        state: wanted.state,
        machine: wanted.machine,
        before: wanted.before,
        // One more than is listed, to know whether there are more.
        ..TraceFilter::all(wanted.limit.saturating_add(1).min(100_000))
    };
    let mut found = Vec::new();
    loop {
        let page = store.list_traces(&filter)?;
        let is_full = page.len() == filter.limit;
        filter.before = page.last().map(|state| state.head.trace_id);
        for state in page {
            let one = ListedTrace { state, is_live: store.is_held(&state)? };
            if wanted.waiting_only && !one.waits_for_person(store) {
                continue;
            }
            if found.len() == wanted.limit {
                return Ok((found, true));
            }
            found.push(one);
        }
        if !is_full {
            return Ok((found, false));
        }
    }
}

impl ListedTrace {
    /// Whether it waits for a person. A call that a coding agent makes itself waits for the agent's report.
    #[must_use]
    pub fn waits_for_person(&self, store: &dyn Store) -> bool {
        let may = matches!(
            self.state.head.state,
            Some(State::Pending | State::Executing | State::Checkpoint)
        );
        !self.is_live && may && !self.waits_for_report(store)
    }

    /// Whether a coding agent makes the call itself and has not reported it.
    #[must_use]
    pub fn waits_for_report(&self, store: &dyn Store) -> bool {
        let workspace = || {
            let request = first_body(store, self.state.head.trace_id)?;
            request.pointer("/proposal/workspace").and_then(Value::as_str).map(str::to_owned)
        };
        self.state.head.state == Some(State::Executing)
            && workspace().as_deref() == Some(CLIENT_WORKSPACE)
    }

    /// The tool that a call's request names, or the pattern of a grant.
    #[must_use]
    pub fn tool(&self, store: &dyn Store) -> Option<String> {
        let request = first_body(store, self.state.head.trace_id)?;
        let name = |name: &str| request.pointer(name).and_then(Value::as_str);
        if let Some(pattern) = name("/event/terms/tool") {
            return Some(pattern.to_owned());
        }
        Some(format!("{}/{}", name("/proposal/tool_server")?, name("/proposal/tool_name")?))
    }

    /// Its state according to its entries, in the form of the schema `execution_state`, which knows only calls.
    #[must_use]
    pub fn execution_state(&self) -> Option<ExecutionState> {
        let is_call = self.state.head.state.is_some_and(|state| state.machine() == Machine::Call);
        is_call.then(|| ExecutionState::of(&self.state.head, self.state.plan_id))
    }

    /// Its state as a document of ours.
    #[must_use]
    pub fn describe(&self, store: &dyn Store) -> Value {
        let state = ExecutionState::of(&self.state.head, self.state.plan_id);
        let mut value = serde_json::to_value(state).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            // With other fields beside them it is not the document of that schema.
            for name in ["schema_id", "schema_version", "state_digest"] {
                map.remove(name);
            }
            map.insert("in_use".to_owned(), json!(self.is_live));
            map.insert("waits_for_a_person".to_owned(), json!(self.waits_for_person(store)));
            map.insert("waits_for_a_report".to_owned(), json!(self.waits_for_report(store)));
        }
        value
    }

    /// The same with its tool, as lists have it.
    #[must_use]
    pub fn describe_in_list(&self, store: &dyn Store) -> Value {
        let mut value = self.describe(store);
        if let Some(map) = value.as_object_mut() {
            map.insert("tool".to_owned(), json!(self.tool(store)));
        }
        value
    }
}

fn first_body(store: &dyn Store, id: TraceId) -> Option<Value> {
    let first = store.list_log_entries(id, 0, 1).ok()?.into_iter().next()?;
    serde_json::from_slice(&first.body?).ok()
}
