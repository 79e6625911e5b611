//! The tool calls in a checkpoint document.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_journal::{Check, Reader};
use windlass_kernel::artifact::{ActionRequest, ToolEffect};
use windlass_kernel::{Call, Digest, State, Timestamp, TraceId, run};
use windlass_store::Store;

/// The maximum size of a value; a larger one is replaced by its digest.
const VALUE_BYTES_MAX: usize = 2048;

/// One tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolInvocation {
    /// Its purpose.
    pub action: String,
    /// The duration.
    pub duration_ms: u64,
    /// The error, if it failed.
    pub error_message: Option<String>,
    /// Its arguments, or their digest.
    pub parameters: Value,
    /// The tool's result, or its digest.
    pub result: Value,
    /// Whether the tool reported success.
    pub success: bool,
    /// The time of the request.
    pub timestamp: Option<Timestamp>,
    /// The tool.
    pub tool_id: String,
}

/// Finds a call: what is shown of it, and the agent that made it. What the run records is filled in.
pub type CallLookup<'a> = dyn Fn(TraceId) -> (ToolInvocation, Option<String>) + 'a;

/// The newest calls of one agent, or of all agents, oldest first. Older ones are not looked for.
pub(super) fn invocations(
    find: &CallLookup<'_>,
    calls: &[run::CallRecord],
    agent: Option<&str>,
    count_max: usize,
) -> Vec<ToolInvocation> {
    let newest = calls.iter().rev().filter_map(|call| {
        let (found, by) = find(call.trace_id);
        let success = call.state == State::Completed;
        let invocation = ToolInvocation { success, tool_id: call.tool.clone(), ..found };
        let other = agent.zip(by.as_deref()).is_some_and(|(agent, by)| agent != by);
        (!other).then_some(invocation)
    });
    let mut newest: Vec<ToolInvocation> = newest.take(count_max).collect();
    newest.reverse();
    newest
}

/// One call of a store and the agent that made it. A call that cannot be read has only the data of its run.
pub(crate) fn stored_call(store: &dyn Store, call: TraceId) -> (ToolInvocation, Option<String>) {
    let mut reader = Reader::<Call>::new(call, Check::Skim);
    // The readable part of a corrupt trace is used.
    let _ = reader.read(store, &mut []);
    let read = reader.into_state();
    ToolInvocation::of(read.request.map(|(request, _)| request), read.effect)
}

impl ToolInvocation {
    /// What is shown of a call, as far as its trace says it, and the agent that made it.
    #[must_use]
    pub fn of(
        request: Option<ActionRequest>,
        effect: Option<ToolEffect>,
    ) -> (Self, Option<String>) {
        let mut invocation = Self {
            action: String::new(),
            duration_ms: 0,
            error_message: None,
            parameters: Value::Null,
            result: Value::Null,
            success: false,
            timestamp: None,
            tool_id: String::new(),
        };
        let mut by = None;
        if let Some(request) = request {
            invocation.action = request.intent;
            invocation.parameters = bounded(request.proposal.args);
            invocation.timestamp = Some(request.ts);
            by = request.agent;
        }
        if let Some(effect) = effect {
            invocation.duration_ms = effect.duration_ms;
            invocation.error_message = effect.error.map(|error| error.message);
            invocation.result = bounded(effect.result);
        }
        (invocation, by)
    }
}

fn bounded(value: Value) -> Value {
    let bytes = serde_json::to_vec(&value).unwrap_or_default();
    if bytes.len() <= VALUE_BYTES_MAX {
        return value;
    }
    json!({"bytes": bytes.len(), "sha256": Digest::of(&bytes)})
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use windlass_kernel::Uuid7;

    use super::*;

    #[test]
    fn only_the_newest_calls_are_looked_for() {
        let calls: Vec<run::CallRecord> = (0..=250_u8)
            .map(|number| run::CallRecord {
                entry_digest: Digest::GENESIS,
                state: State::Completed,
                tool: format!("a/{number}"),
                trace_id: TraceId(Uuid7::from_parts(1, [number; 10])),
            })
            .collect();
        let looked = Cell::new(0);
        let find = |_: TraceId| {
            looked.set(looked.get() + 1);
            ToolInvocation::of(None, None)
        };
        let found = invocations(&find, &calls, Some("builder"), 3);
        let tools: Vec<&str> = found.iter().map(|one| one.tool_id.as_str()).collect();
        assert_eq!((looked.get(), tools), (3, vec!["a/248", "a/249", "a/250"]));
        assert_eq!(invocations(&find, &calls, None, usize::MAX).len(), calls.len());
    }
}
