//! The span of a tool call.

use std::ops::ControlFlow;

use windlass_journal::{Check, Reader};
use windlass_kernel::{Call, State, Timestamp, TraceId};
use windlass_store::Store;

use super::{AttributeValue, Attributes, Span, SpanId, SpanKind, SpanStatus};

/// A call, as recorded in its run.
pub(super) struct CallMention {
    pub(super) trace_id: TraceId,
    pub(super) tool: String,
    pub(super) state: Option<State>,
    pub(super) at: Timestamp,
}

/// Builds the span of a call with the times of its own trace, or of its run if the trace cannot be read.
pub(super) fn call_span(store: &dyn Store, call: CallMention, parent: SpanId) -> Span {
    let CallMention { trace_id, tool, state, at } = call;
    let mut reader = Reader::<Call>::new(trace_id, Check::Skim);
    let (mut first, mut last) = (None, None);
    // The readable part of a corrupt trace is used.
    let _ = reader.for_each(store, &mut |step| {
        first = first.or(Some(step.entry.ts));
        last = Some((step.entry.to_state, step.entry.ts));
        ControlFlow::Continue(())
    });
    let read = reader.state();
    let proposal = read.request.as_ref().map(|(request, _)| &request.proposal);
    let tool = match proposal {
        Some(proposal) if tool.is_empty() => {
            format!("{}/{}", proposal.tool_server, proposal.tool_name)
        }
        Some(_) | None => tool,
    };
    let failed = read.effect.as_ref().and_then(|effect| effect.error.as_ref());
    let decided = read.decision.as_ref().and_then(|(decision, _)| decision.code);
    let code = failed.map(|error| error.code).or(decided);
    let state = last.map(|(state, _)| state).or(state);
    let mut attributes = Attributes::from([
        ("windlass.tool", tool.as_str().into()),
        ("windlass.state", state.map_or("", State::as_str).into()),
        ("windlass.trace_id", AttributeValue::Text(trace_id.to_string())),
    ]);
    if let Some(code) = code {
        attributes.insert("windlass.code", code.as_str().into());
    }
    let status = match state {
        Some(State::Completed) => SpanStatus::Ok,
        Some(ended @ (State::Failed | State::Denied)) => {
            SpanStatus::Error(code.map_or(ended.as_str(), |code| code.as_str()).to_owned())
        }
        Some(
            State::Pending
            | State::Authorized
            | State::Executing
            | State::Init
            | State::Running
            | State::Checkpoint
            | State::Resumed
            | State::Terminal
            | State::Granted
            | State::Withdrawn
            | State::Due
            | State::Settled,
        )
        | None => SpanStatus::Unset,
    };
    Span {
        id: SpanId::of(trace_id, SpanKind::Call, 1),
        parent: Some(parent),
        kind: SpanKind::Call,
        name: format!("call {tool}"),
        start: first.unwrap_or(at),
        end: last.map_or(at, |(_, ts)| ts),
        attributes,
        events: Vec::new(),
        status,
    }
}
