//! Dispatches a call to its connector and converts the reply to an effect.

use std::time::Instant;

use serde_json::{Value, json};
use windlass_connect::{Certainty, Job, Limits, Reply, Target, one_line};
use windlass_kernel::artifact::{DecidedBy, EffectError, Redispatch, SettledBy, ToolEffect};
use windlass_kernel::{
    ArtifactId, Call, Code, Outcome, RiskLevel, SCHEMA_VERSION, Timestamp, canon,
};
use windlass_policy::OnUncertain;
use windlass_store::fault;

use crate::error::GatewayError;
use crate::gateway::{CallRecorder, Gateway};
use crate::secrets::FilledArgs;
use crate::supervisor::Preparation;

/// The outcome of a call as it was determined.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// The outcome.
    pub outcome: Outcome,
    /// The result that the tool returned.
    pub result: Value,
    /// The error, if the call failed.
    pub error: Option<EffectError>,
    /// The duration of the dispatch.
    pub duration_ms: u64,
    /// How the outcome was determined.
    pub by: SettledBy,
}

/// What came of a dispatch.
pub(crate) struct Dispatched {
    pub settlement: Settlement,
    /// Whether nobody knows what became of it, so that the rule of its tool applies.
    pub is_unknown: bool,
}

impl Dispatched {
    const fn known(settlement: Settlement) -> Self {
        Self { settlement, is_unknown: false }
    }
}

impl Gateway {
    /// Dispatches the call of the recorder, whose dispatch is recorded.
    pub(crate) fn dispatch(
        &self,
        recorder: &CallRecorder,
        preparation: &Preparation,
    ) -> Result<Dispatched, GatewayError> {
        let call = recorder.state();
        let (Some(request), Some((tool_call, _))) = (call.effective_request(), &call.tool_call)
        else {
            return Err(GatewayError::missing(call.head.trace_id, "request or its call"));
        };
        let target = self.with_run_variables(&request, &preparation.target)?;
        let job = Job {
            target: &target,
            tool: &preparation.tool,
            args: preparation.args.as_ref().map_or(&request.proposal.args, FilledArgs::expose),
            class: preparation.class,
            tool_call_id: tool_call.tool_call_id,
            idempotency_key: tool_call.idempotency_key.as_deref(),
            limits: Limits { timeout: preparation.timeout(), ..preparation.limits },
            confinement: preparation.confinement.as_ref(),
            foreseen: tool_call.foreseen.as_ref(),
        };
        if preparation.target == Target::Person {
            return Ok(Dispatched::known(person_answer(call)));
        }
        if preparation.target == Target::Agent {
            return Ok(Dispatched::known(agent_permitted(call)));
        }
        if preparation.is_out_of_time() {
            return Ok(Dispatched::known(out_of_time()));
        }
        fault::point("dispatch.before");
        let started = Instant::now();
        let reply = self.connect.perform(&job);
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        fault::point("dispatch.after");
        if let Reply::Failure { code: Code::Interrupted, .. } = &reply {
            return Err(GatewayError::Interrupted { trace_id: Some(call.head.trace_id) });
        }
        let is_unknown = is_unknown(&reply, preparation);
        let settlement = self.read_reply(reply, preparation, duration_ms);
        Ok(Dispatched { settlement, is_unknown })
    }

    /// Converts the reply of a connector; a result that cannot be recorded becomes an error.
    fn read_reply(&self, reply: Reply, preparation: &Preparation, duration_ms: u64) -> Settlement {
        let (mut result, mut error) = match reply {
            Reply::Success { result } => (result, None),
            Reply::Failure { code: Code::ToolFailed, result: Some(result), .. }
                if preparation.no_match_is_an_answer && found_nothing(&result) =>
            {
                (result, None)
            }
            Reply::Failure { code, message, result, certainty } => {
                let may_have_run = certainty != Certainty::DidNotRun;
                let error = EffectError { code, message, may_have_run };
                (result.unwrap_or(Value::Null), Some(error))
            }
        };
        self.supervisor.redact(&mut result);
        if let Some(error) = &mut error {
            error.message = one_line(&self.redacted(&error.message));
        }
        let bytes_max = preparation.limits.output_bytes_max;
        match canon::measure(&result) {
            // Escapes and an envelope can make the recorded form longer than the tool's output.
            Ok(bytes) if bytes <= bytes_max.saturating_mul(2).saturating_add(4096) => {}
            Ok(bytes) => {
                let message =
                    format!("the tool returned {bytes} bytes, more than the {bytes_max} allowed");
                let code = Code::ToolOutputTooLarge;
                (result, error) = (Value::Null, Some(unrecordable(code, message)));
            }
            Err(cause) => {
                (result, error) =
                    (Value::Null, Some(unrecordable(cause.code(), cause.to_string())));
            }
        }
        let outcome = match &error {
            None => Outcome::Success,
            Some(error) if error.code == Code::ToolFailed => Outcome::Failure,
            Some(_) => Outcome::Error,
        };
        Settlement { outcome, result, error, duration_ms, by: SettledBy::Answer }
    }

    /// Returns a text without the secrets in it, as it may be shortened and stored.
    #[must_use]
    pub fn without_secrets(&self, text: &str) -> String {
        self.redacted(text)
    }

    /// Returns a text without the secrets in it, as it may be stored.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let mut value = Value::String(text.to_owned());
        self.supervisor.redact(&mut value);
        if let Value::String(text) = value { text } else { String::new() }
    }

    /// Creates the effect that records a settlement.
    pub(crate) fn effect(
        &self,
        recorder: &CallRecorder,
        settlement: Settlement,
        redispatches: Vec<Redispatch>,
        ts: Timestamp,
    ) -> Result<ToolEffect, GatewayError> {
        let trace_id = recorder.state().head.trace_id;
        let Some((tool_call, tool_call_digest)) = &recorder.state().tool_call else {
            return Err(GatewayError::missing(trace_id, "call"));
        };
        Ok(ToolEffect {
            schema_id: ToolEffect::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            artifact_id: ArtifactId(self.clock.new_id()),
            trace_id,
            ts,
            tool_call_digest: *tool_call_digest,
            tool_call_id: tool_call.tool_call_id,
            outcome: settlement.outcome,
            result: settlement.result,
            error: settlement.error,
            duration_ms: settlement.duration_ms,
            settled_by: settlement.by,
            redispatches,
        })
    }
}

/// Whether the effect of a call is unknown. A read has none. A command is ended with all its processes, so what it has done is
/// done: only a rule that finds it out or undoes it says more.
fn is_unknown(reply: &Reply, preparation: &Preparation) -> bool {
    let Reply::Failure { certainty: Certainty::Unknown, .. } = reply else { return false };
    let applies = match (&preparation.target, &preparation.on_uncertain) {
        (Target::Command { .. }, OnUncertain::Hold | OnUncertain::Retry) => false,
        (_, _) => true,
    };
    applies && preparation.class != RiskLevel::Read
}

/// Whether a command ended with 1 and said nothing about why.
fn found_nothing(result: &Value) -> bool {
    result.get("exit_code") == Some(&json!(1)) && result.get("stderr") == Some(&json!(""))
}

/// The result of a call for which no working time is left.
fn out_of_time() -> Settlement {
    let message = "no working time was left, so it was not made".to_owned();
    let error = EffectError { code: Code::ToolTimeout, message, may_have_run: false };
    let (outcome, result, by) = (Outcome::Error, Value::Null, SettledBy::Answer);
    Settlement { outcome, result, error: Some(error), duration_ms: 0, by }
}

/// The result of a question: the reason of whoever approved it.
fn person_answer(call: &Call) -> Settlement {
    let answer = call.decision.as_ref().and_then(|(decision, _)| match decision.decided_by {
        DecidedBy::Person { .. } => Some(&decision.rationale),
        DecidedBy::Policy { .. } | DecidedBy::Grant { .. } | DecidedBy::Prompt { .. } => None,
    });
    let (outcome, result, error) = match answer {
        Some(answer) => (Outcome::Success, json!({ "answer": answer }), None),
        None => {
            let message = "nobody was asked: the policy must ask about this tool".to_owned();
            let code = Code::ToolFailed;
            let error = EffectError { code, message, may_have_run: false };
            (Outcome::Failure, Value::Null, Some(error))
        }
    };
    Settlement { outcome, result, error, duration_ms: 0, by: SettledBy::Answer }
}

/// The result of a call that starts an agent: the run may start it. What it answers is recorded in the run.
fn agent_permitted(call: &Call) -> Settlement {
    let is_of_run = call.request.as_ref().is_some_and(|(request, _)| request.run.is_some());
    let (outcome, result, error) = if is_of_run {
        (Outcome::Success, json!({ "permitted": true }), None)
    } else {
        let message = "agents are started within the work of a run alone".to_owned();
        let error = EffectError { code: Code::ToolFailed, message, may_have_run: false };
        (Outcome::Failure, Value::Null, Some(error))
    };
    Settlement { outcome, result, error, duration_ms: 0, by: SettledBy::Answer }
}

/// The error of a call that ran, but whose result cannot be stored.
fn unrecordable(code: Code, message: String) -> EffectError {
    EffectError { code, message, may_have_run: true }
}
