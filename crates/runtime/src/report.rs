//! The report of a call that the gateway returns.

use crate::several;
use crate::supervisor::{Examination, Refusal};
use serde::Serialize;
use serde_json::Value;
use windlass_kernel::artifact::{
    CLIENT_WORKSPACE, DecidedBy, EffectError, NamedFile, Redispatch, SupervisorDecision, ToolEffect,
};
use windlass_kernel::{Call, Digest, Outcome, PlanId, State, Timestamp, ToolCallId, TraceId};

/// The recorded state of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallReport {
    /// The trace.
    pub trace_id: TraceId,
    /// The plan that the call belongs to.
    pub plan_id: Option<PlanId>,
    /// The server and the tool.
    pub tool: String,
    /// The state.
    pub state: State,
    /// The id of the call, once it was dispatched.
    pub tool_call_id: Option<ToolCallId>,
    /// The idempotency key.
    pub idempotency_key: Option<String>,
    /// The outcome.
    pub outcome: Option<Outcome>,
    /// The result that the tool returned.
    pub result: Value,
    /// The error, if the call failed.
    pub error: Option<EffectError>,
    /// The refusal, if the call was refused.
    pub refusal: Option<Refusal>,
    /// The arguments that a person put in place of the requested ones, if they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_args: Option<Value>,
    /// The hold, if the call is on hold.
    pub hold: Option<CallHold>,
    /// Whether a coding agent makes the call itself, and reports what became of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub made_by_client: bool,
    /// Why the agent's client must ask the person before it makes the call, if it must.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks_person: Option<String>,
    /// Whether the effect had already been recorded by an earlier request with the same key.
    pub replayed: bool,
    /// The dispatches after the first.
    pub redispatches: Vec<Redispatch>,
    /// The sequence number of the last entry.
    pub last_sequence_number: u64,
    /// The digest of the last entry.
    pub latest_entry_digest: Digest,
}

/// The hold of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallHold {
    /// The question to the person.
    pub question: HoldQuestion,
    /// The reason.
    pub reason: String,
    /// The whole call.
    pub view: CallView,
}

/// All that a person should see of a call before deciding on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallView {
    /// The agent that requests the call.
    pub agent: Option<String>,
    /// The arguments.
    pub args: Value,
    /// When it was requested.
    pub asked_at: Option<Timestamp>,
    /// The files that have changed since the question, as they are now.
    pub changed_files: Vec<NamedFile>,
    /// Whether it was dispatched and then interrupted, so that nobody knows whether it ran.
    pub interrupted: bool,
    /// What would run, as far as it is known.
    #[serde(flatten)]
    pub examination: Examination,
    /// The purpose.
    pub intent: String,
    /// The phase of the run that requests it.
    pub phase: Option<String>,
    /// The run that makes the call, and through which people decide on it.
    pub run: Option<TraceId>,
    /// The digest that an answer refers to.
    pub shown: Option<Digest>,
    /// The server and the tool.
    pub tool: String,
}

/// The question about a call on hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldQuestion {
    /// May the call be dispatched?
    MayItRun,
    /// The call was interrupted: did it run?
    DidItRun,
}

impl CallReport {
    /// Creates the report of a call.
    #[must_use]
    pub fn of(call: Call, redispatches: Vec<Redispatch>) -> Self {
        let edited_args = call.decision.as_ref().and_then(|(decision, _)| edited_args(decision));
        let asks_person = call.decision.as_ref().and_then(|(decision, _)| asked(decision));
        let request = call.request.map(|(request, _)| request);
        let workspace = request.as_ref().map(|request| request.proposal.workspace.as_str());
        let made_by_client = workspace == Some(CLIENT_WORKSPACE);
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
            refusal: call.decision.and_then(|(decision, _)| refusal(decision)),
            edited_args,
            hold: None,
            made_by_client,
            asks_person,
            replayed: false,
            redispatches,
            last_sequence_number: call.head.sequence_number,
            latest_entry_digest: call.head.entry_digest,
        }
    }

    /// Whether it stands for several calls of one use of a client's tool.
    #[must_use]
    pub fn stands_for_several(&self) -> bool {
        self.made_by_client && self.tool == several::NAME
    }

    /// Adds a hold.
    #[must_use]
    pub fn on_hold(mut self, question: HoldQuestion, reason: String, view: CallView) -> Self {
        self.hold = Some(CallHold { question, reason, view });
        self
    }
}

fn edited_args(decision: &SupervisorDecision) -> Option<Value> {
    match &decision.decided_by {
        DecidedBy::Person { edit, .. } => edit.as_ref().map(|edit| edit.args.clone()),
        DecidedBy::Policy { .. } | DecidedBy::Grant { .. } | DecidedBy::Prompt { .. } => None,
    }
}

/// The question that the client puts to the person.
fn asked(decision: &SupervisorDecision) -> Option<String> {
    match &decision.decided_by {
        DecidedBy::Prompt { .. } => Some(decision.rationale.clone()),
        DecidedBy::Person { .. } | DecidedBy::Policy { .. } | DecidedBy::Grant { .. } => None,
    }
}

fn refusal(decision: SupervisorDecision) -> Option<Refusal> {
    let code = decision.code?;
    Some(Refusal { code, reason: decision.rationale })
}
