//! What the gateway tells its caller about a call.

use crate::supervisor::Refusal;
use serde::Serialize;
use serde_json::Value;
use windlass_kernel::artifact::{EffectError, Redispatch, SupervisorDecision, ToolEffect};
use windlass_kernel::{Call, Digest, Outcome, PlanId, State, ToolCallId, TraceId};

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallReport {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its plan.
    pub plan_id: Option<PlanId>,
    /// Its server and tool.
    pub tool: String,
    /// Its state.
    pub state: State,
    /// Its id, once it was handed over.
    pub tool_call_id: Option<ToolCallId>,
    /// Its key.
    pub idempotency_key: Option<String>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What the tool answered.
    pub result: Value,
    /// What went wrong.
    pub error: Option<EffectError>,
    /// Why it was refused, if it was.
    pub refusal: Option<Refusal>,
    /// What it waits for, if it waits.
    pub hold: Option<CallHold>,
    /// Whether the effect was recorded before and only returned.
    pub replayed: bool,
    /// The dispatches after the first.
    pub redispatches: Vec<Redispatch>,
    /// The number of the last entry.
    pub last_sequence_number: u64,
    /// The digest of the last entry.
    pub latest_entry_digest: Digest,
}

/// What a call waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallHold {
    /// What the person is asked.
    pub question: HoldQuestion,
    /// Why.
    pub reason: String,
}

/// What a person is asked about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldQuestion {
    /// May it be made?
    MayItRun,
    /// It may have run: hand it over again, or give it up?
    RunItAgain,
}

impl CallReport {
    /// Describes a call as recorded.
    #[must_use]
    pub fn of(call: Call, redispatches: Vec<Redispatch>) -> Self {
        let request = call.request.map(|(request, _)| request);
        let tool = request.as_ref().map(|request| {
            [&*request.proposal.tool_server, "/", &*request.proposal.tool_name].concat()
        });
        let (outcome, result, error) = match call.effect {
            Some(ToolEffect { outcome, result, error, .. }) => (Some(outcome), result, error),
            None => (None, Value::Null, None),
        };
        Self {
            trace_id: call.head.trace_id,
            plan_id: request.as_ref().map(|request| request.plan_id),
            tool: tool.unwrap_or_default(),
            state: call.head.state.unwrap_or(State::Pending),
            tool_call_id: call.head.tool_call_id,
            idempotency_key: request.and_then(|request| request.idempotency_key),
            outcome,
            result,
            error,
            refusal: call.decision.and_then(|(decision, _)| refused(decision)),
            hold: None,
            replayed: false,
            redispatches,
            last_sequence_number: call.head.sequence_number,
            latest_entry_digest: call.head.entry_digest,
        }
    }

    /// The same, waiting for a person.
    #[must_use]
    pub fn on_hold(mut self, question: HoldQuestion, reason: String) -> Self {
        self.hold = Some(CallHold { question, reason });
        self
    }
}

fn refused(decision: SupervisorDecision) -> Option<Refusal> {
    let code = decision.code?;
    Some(Refusal { code, reason: decision.rationale })
}
