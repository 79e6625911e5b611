//! Calls before an interruption that an agent makes once more, because its session does not show them.

use std::collections::VecDeque;

use serde_json::Value;
use windlass_engine::ToolDefinition;
use windlass_engine::executors::EarlierCall;
use windlass_kernel::RiskLevel;

/// How many calls a client may have made that its own record of the session lacks.
const UNWRITTEN_MAX: usize = 3;
/// How far calls that a client makes at once may change places.
const SHUFFLED_MAX: usize = 4;
/// The server by which a person is asked; an answer that was given is not asked for again.
const PERSON: &str = "ask/";

/// The calls that are answered from the journal if the agent makes them again, in their order. The first other call
/// that changes something ends it: from there on the agent does something new.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    calls: VecDeque<EarlierCall>,
    /// How many calls at the front may be passed over.
    ahead: usize,
}

impl Replay {
    /// For a client that continues its session: it may lack the last calls.
    pub(crate) fn of_session(mut earlier: Vec<EarlierCall>) -> Self {
        let at = earlier.len().saturating_sub(UNWRITTEN_MAX);
        Self { calls: earlier.split_off(at).into(), ahead: UNWRITTEN_MAX }
    }

    /// For a client that starts anew.
    pub(crate) fn from_start(earlier: Vec<EarlierCall>) -> Self {
        Self { calls: earlier.into(), ahead: SHUFFLED_MAX }
    }

    /// The recorded call, if this is one. Reading is done again: it changes nothing, and files may have changed.
    pub(crate) fn take(&mut self, tool: &ToolDefinition, args: &Value) -> Option<EarlierCall> {
        if tool.class == RiskLevel::Read && !tool.tool.starts_with(PERSON) {
            return None;
        }
        let same = |call: &EarlierCall| call.tool == tool.tool && call.args == *args;
        match self.calls.iter().take(self.ahead).position(same) {
            Some(at) => self.calls.remove(at),
            None => {
                self.calls.clear();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_kernel::{Digest, State, Timestamp, TraceId, Uuid7};
    use windlass_runtime::CallReport;

    use super::*;

    fn earlier(tool: &str, line: &str) -> EarlierCall {
        let report = CallReport {
            trace_id: TraceId(Uuid7::from_parts(0, [0; 10])),
            plan_id: None,
            tool: tool.to_owned(),
            state: State::Completed,
            tool_call_id: None,
            idempotency_key: None,
            outcome: None,
            result: Value::Null,
            error: None,
            refusal: None,
            edited_args: None,
            hold: None,
            made_by_client: false,
            asks_person: None,
            replayed: false,
            redispatches: Vec::new(),
            last_sequence_number: 3,
            latest_entry_digest: Digest::of(b""),
        };
        EarlierCall {
            tool: tool.to_owned(),
            args: json!({ "line": line }),
            id: line.to_owned(),
            requested: Timestamp::from_unix_ms(0).unwrap(),
            ended: None,
            report: Box::new(report),
        }
    }

    /// Whether each call in turn is answered from the record.
    fn taken(mut replay: Replay, calls: &[(&str, &str)]) -> Vec<bool> {
        let take = |(tool, line): &(&str, &str)| {
            let class = if tool.starts_with("shell") { RiskLevel::Write } else { RiskLevel::Read };
            let definition = ToolDefinition {
                tool: (*tool).to_owned(),
                class,
                description: String::new(),
                input_schema: Value::Null,
            };
            replay.take(&definition, &json!({ "line": line })).is_some()
        };
        calls.iter().map(take).collect()
    }

    fn calls() -> Vec<EarlierCall> {
        [
            ("shell/run", "a"),
            ("fs/read", "b"),
            ("ask/person", "c"),
            ("shell/run", "d"),
            ("shell/run", "e"),
        ]
        .map(|(tool, line)| earlier(tool, line))
        .to_vec()
    }

    #[test]
    fn a_new_session_repeats_what_was_done_in_its_order() {
        let again = [("shell/run", "a"), ("fs/read", "b"), ("ask/person", "c"), ("shell/run", "d")];
        assert_eq!(taken(Replay::from_start(calls()), &again), [true, false, true, true]);
        // Calls that were made at once may come in another order.
        let other = [("shell/run", "d"), ("shell/run", "a"), ("shell/run", "a")];
        assert_eq!(taken(Replay::from_start(calls()), &other), [true, true, false]);
    }

    #[test]
    fn something_new_ends_it() {
        let new = [("shell/run", "a"), ("shell/run", "new"), ("shell/run", "d")];
        assert_eq!(taken(Replay::from_start(calls()), &new), [true, false, false]);
    }

    #[test]
    fn a_continued_session_may_lack_the_last_calls() {
        assert_eq!(taken(Replay::of_session(calls()), &[("shell/run", "e")]), [true]);
        let two = [("shell/run", "d"), ("shell/run", "e"), ("shell/run", "e")];
        assert_eq!(taken(Replay::of_session(calls()), &two), [true, true, false]);
        assert_eq!(taken(Replay::of_session(calls()), &[("shell/run", "a")]), [false]);
    }
}
