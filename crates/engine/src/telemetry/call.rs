//! A tool call as a span.

use windlass_kernel::artifact::Artifact;
use windlass_kernel::{State, Timestamp, TraceId};
use windlass_store::Store;

use super::{Ending, Fact, Facts, Kind, Span, SpanId};

/// The most entries that a call has.
const CALL_ENTRIES_MAX: usize = 16;

/// What a run says of one of its calls.
pub(super) struct Told {
    pub(super) trace_id: TraceId,
    pub(super) tool: String,
    pub(super) state: Option<State>,
    pub(super) at: Timestamp,
}

/// A call, with the times of its own trace. One that cannot be read has those of its run.
pub(super) fn call_span(store: &dyn Store, call: Told, parent: SpanId) -> Span {
    let Told { trace_id, tool, state, at } = call;
    let records = store.list_log_entries(trace_id, 0, CALL_ENTRIES_MAX).unwrap_or_default();
    let (first, last) = (records.first(), records.last());
    let (mut tool, mut code) = (tool, None);
    for record in &records {
        let body = record.body.as_deref().unwrap_or_default();
        match Artifact::read(record.entry.artifact_type, body) {
            Ok(Artifact::Request(request)) if tool.is_empty() => {
                tool = format!("{}/{}", request.proposal.tool_server, request.proposal.tool_name);
            }
            Ok(Artifact::Decision(decision)) => code = decision.code,
            Ok(Artifact::Effect(effect)) => code = effect.error.map(|error| error.code).or(code),
            Ok(Artifact::Request(_) | Artifact::Call(_)) | Err(_) => {}
        }
    }
    let state = last.map(|record| record.entry.to_state).or(state);
    let mut facts = Facts::from([
        ("windlass.tool", tool.as_str().into()),
        ("windlass.state", state.map_or("", State::as_str).into()),
        ("windlass.trace_id", Fact::Text(trace_id.to_string())),
    ]);
    if let Some(code) = code {
        facts.insert("windlass.code", code.as_str().into());
    }
    let ending = match state {
        Some(State::Completed) => Ending::Good,
        Some(ended @ (State::Failed | State::Denied)) => {
            Ending::Bad(code.map_or(ended.as_str(), |code| code.as_str()).to_owned())
        }
        Some(
            State::Pending
            | State::Authorized
            | State::Executing
            | State::Init
            | State::Running
            | State::Checkpoint
            | State::Resumed
            | State::Terminal,
        )
        | None => Ending::Unset,
    };
    Span {
        id: SpanId::of(trace_id, Kind::Call, 1),
        parent: Some(parent),
        kind: Kind::Call,
        name: format!("call {tool}"),
        start: first.map_or(at, |record| record.entry.ts),
        end: last.map_or(at, |record| record.entry.ts),
        facts,
        happenings: Vec::new(),
        ending,
    }
}
