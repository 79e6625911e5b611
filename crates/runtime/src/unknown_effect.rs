//! Calls whose effect is unknown, after a crash of Windlass or a failure of their server: the rule of their tool applies until
//! the effect is known, or a person must say.

use serde_json::Value;
use windlass_kernel::artifact::{Decider, EffectError, Redispatch, Resource, SettledBy};
use windlass_kernel::recovery::{RecoveryPlan, plan};
use windlass_kernel::{Code, Outcome, RiskLevel, State, TraceId};
use windlass_policy::OnUncertain;

use crate::dispatch::{Dispatched, Settlement};
use crate::error::GatewayError;
use crate::gateway::{CallRecorder, Gateway};
use crate::objection::Objection;
use crate::recover::count;
use crate::report::CallReport;
use crate::request::CallRequest;
use crate::supervisor::{Conditions, Preparation};

/// How many refused requests are told.
const REFUSED_MAX: usize = 5;

/// Why a call is dispatched again.
pub(crate) struct Again {
    /// Who said so, if a person did.
    pub by: Option<Decider>,
    pub reason: String,
    /// It is known that no dispatch before took effect.
    pub did_not_run: bool,
}

/// A call whose effect is unknown.
pub(crate) struct UnknownEffect {
    pub recorder: CallRecorder,
    pub redispatches: Vec<Redispatch>,
    /// How its server failed; none after a crash of Windlass.
    pub failure: Option<String>,
}

/// What a repeated dispatch led to.
enum Repeated {
    Reported(Box<CallReport>),
    Unknown(Box<UnknownEffect>),
}

/// What a probe found out.
enum Probed {
    Ran(Settlement),
    DidNotRun { probe: TraceId },
    Unknown { probe: TraceId },
}

impl Gateway {
    /// Dispatches a recorded call and records its effect. If that is unknown, the rule of its tool applies.
    pub(crate) fn dispatch_and_settle(
        &self,
        recorder: CallRecorder,
        preparation: &Preparation,
        redispatches: Vec<Redispatch>,
    ) -> Result<CallReport, GatewayError> {
        let Dispatched { settlement, is_unknown } = self.dispatch(&recorder, preparation)?;
        if !is_unknown {
            return self.settle(recorder, settlement, redispatches);
        }
        let failure = failure_of(&settlement);
        self.resolve(UnknownEffect { recorder, redispatches, failure }, preparation)
    }

    /// Dispatches a call again; if its effect is still unknown, the rule of its tool applies.
    pub(crate) fn dispatch_again_and_settle(
        &self,
        unknown: UnknownEffect,
        preparation: &Preparation,
        again: Again,
    ) -> Result<CallReport, GatewayError> {
        match self.redispatch(unknown, preparation, again)? {
            Repeated::Reported(report) => Ok(*report),
            Repeated::Unknown(unknown) => self.resolve(*unknown, preparation),
        }
    }

    /// Applies the rule of its tool to a call whose effect is unknown.
    pub(crate) fn resolve(
        &self,
        mut unknown: UnknownEffect,
        preparation: &Preparation,
    ) -> Result<CallReport, GatewayError> {
        loop {
            let count = count(&unknown.redispatches);
            let rule = preparation.uncertain_rule();
            let step = plan(unknown.recorder.state(), rule, count, preparation.retries_max);
            let again = match step {
                RecoveryPlan::Redispatch | RecoveryPlan::Probe | RecoveryPlan::Compensate
                    if preparation.is_out_of_time() =>
                {
                    let reason = "the working time is used up";
                    return self.ask_about(unknown, reason);
                }
                RecoveryPlan::Redispatch => {
                    let reason = unknown.failure.clone();
                    let reason = reason.unwrap_or_else(|| {
                        "its process died before the effect was recorded".to_owned()
                    });
                    Again { by: None, reason, did_not_run: false }
                }
                RecoveryPlan::Probe => match self.probe(&unknown.recorder, preparation)? {
                    Probed::Ran(settlement) => {
                        return self.settle(unknown.recorder, settlement, unknown.redispatches);
                    }
                    Probed::DidNotRun { .. } if count >= preparation.retries_max => {
                        let reason =
                            format!("it was dispatched {} times without effect", count + 1);
                        return self.leave_on_hold(unknown.recorder, unknown.redispatches, reason);
                    }
                    Probed::DidNotRun { probe } => {
                        let reason =
                            format!("the server reports in trace {probe} that it did not run");
                        Again { by: None, reason, did_not_run: true }
                    }
                    Probed::Unknown { probe } => {
                        let reason = format!("it is unknown whether it ran, see trace {probe}");
                        return self.leave_on_hold(unknown.recorder, unknown.redispatches, reason);
                    }
                },
                RecoveryPlan::Compensate => return self.compensate(unknown, preparation),
                RecoveryPlan::Hold if count > 0 => {
                    let what = format!("it was dispatched {} times without a response", count + 1);
                    return self.ask_about(unknown, &what);
                }
                RecoveryPlan::Hold
                | RecoveryPlan::Nothing
                | RecoveryPlan::Judge
                | RecoveryPlan::Start => {
                    let what = "it may have run, and running it again may repeat its effect";
                    return self.ask_about(unknown, what);
                }
            };
            match self.redispatch(unknown, preparation, again)? {
                Repeated::Reported(report) => return Ok(*report),
                Repeated::Unknown(still) => unknown = *still,
            }
        }
    }

    /// Leaves a call whose effect is unknown to a person.
    fn ask_about(&self, unknown: UnknownEffect, what: &str) -> Result<CallReport, GatewayError> {
        let UnknownEffect { recorder, redispatches, failure } = unknown;
        let told: Vec<&str> = failure.as_deref().into_iter().chain([what]).collect();
        self.leave_on_hold(recorder, redispatches, told.join("; "))
    }

    /// Records a repeated dispatch, then dispatches the same call again. If no person has decided so just now, there must
    /// be no reason against it: the policy of now, a grant that has ended, or a file that has changed.
    fn redispatch(
        &self,
        unknown: UnknownEffect,
        preparation: &Preparation,
        again: Again,
    ) -> Result<Repeated, GatewayError> {
        GatewayError::check_signal()?;
        let UnknownEffect { recorder, mut redispatches, .. } = unknown;
        let Again { by, reason, did_not_run } = again;
        if by.is_none()
            && let Some(objection) = self.objection(&recorder)?
        {
            let reason = match objection {
                Objection::Denied { reason, .. } => format!("the policy denies it now: {reason}"),
                Objection::Asks(reason) => reason,
            };
            let reason = format!("it is not run again: {reason}");
            let report = self.leave_on_hold(recorder, redispatches, reason)?;
            return Ok(Repeated::Reported(Box::new(report)));
        }
        let attempt = count(&redispatches).saturating_add(2);
        // What a person signed is without secrets already.
        let reason = if by.is_none() { self.redacted(&reason) } else { reason };
        let redispatch = Redispatch { attempt, ts: self.clock.now(), by, reason };
        recorder.record_redispatch(&redispatch)?;
        redispatches.push(redispatch);
        let Dispatched { settlement, is_unknown } = self.dispatch(&recorder, preparation)?;
        if is_unknown {
            let failure = failure_of(&settlement);
            let unknown = UnknownEffect { recorder, redispatches, failure };
            return Ok(Repeated::Unknown(Box::new(unknown)));
        }
        let report = match &settlement.error {
            // That says nothing of the dispatches before.
            Some(error)
                if !error.may_have_run && !did_not_run && preparation.class != RiskLevel::Read =>
            {
                let reason = format!(
                    "an earlier dispatch may have run, and it could not be run again: {}",
                    error.message
                );
                self.leave_on_hold(recorder, redispatches, reason)?
            }
            Some(_) | None => self.settle(recorder, settlement, redispatches)?,
        };
        Ok(Repeated::Reported(Box::new(report)))
    }

    /// Asks the server whether the idempotency key took effect.
    fn probe(
        &self,
        recorder: &CallRecorder,
        preparation: &Preparation,
    ) -> Result<Probed, GatewayError> {
        let OnUncertain::Probe { tool, args, found, result } = &preparation.on_uncertain else {
            return Ok(Probed::Unknown { probe: recorder.state().head.trace_id });
        };
        let intent = "find out whether an interrupted call took effect";
        let side = SideCall { tool, args, class: RiskLevel::Read, key: None, intent };
        let answer = self.side_call(recorder, preparation, side)?;
        let probe = answer.trace_id;
        Ok(match (answer.state, found.first(&answer.result)) {
            (State::Completed, Some(Value::Bool(true))) => {
                let result = match result {
                    Some(pointer) => pointer.first(&answer.result).cloned().unwrap_or_default(),
                    None => answer.result,
                };
                let entry_digest = answer.latest_entry_digest;
                let by = SettledBy::Probe { trace_id: probe, entry_digest };
                let outcome = Outcome::Success;
                Probed::Ran(Settlement { outcome, result, error: None, duration_ms: 0, by })
            }
            (State::Completed, Some(Value::Bool(false))) => Probed::DidNotRun { probe },
            _ => Probed::Unknown { probe },
        })
    }

    /// Undoes the call, with an idempotency key derived from its id, then records it as failed.
    fn compensate(
        &self,
        unknown: UnknownEffect,
        preparation: &Preparation,
    ) -> Result<CallReport, GatewayError> {
        let OnUncertain::Compensate { tool, args } = &preparation.on_uncertain else {
            return self.ask_about(unknown, "nothing undoes it");
        };
        let UnknownEffect { recorder, redispatches, failure } = unknown;
        let key = recorder.state().head.tool_call_id.map(|id| format!("windlass-undo-{id}"));
        let intent = "undo an interrupted call whose effect is unknown";
        let side = SideCall { tool, args, class: RiskLevel::Write, key, intent };
        let undo = self.side_call(&recorder, preparation, side)?;
        if undo.state != State::Completed {
            let reason = format!(
                "the call that undoes it ended as {}, see trace {}",
                undo.state, undo.trace_id
            );
            return self.leave_on_hold(recorder, redispatches, reason);
        }
        let why = failure.unwrap_or_else(|| "after a crash".to_owned());
        let message = format!("its effect was unknown, so it was undone: {why}");
        let error = EffectError { code: Code::ToolCompensated, message, may_have_run: false };
        let by = SettledBy::Compensation {
            trace_id: undo.trace_id,
            entry_digest: undo.latest_entry_digest,
        };
        let (outcome, result) = (Outcome::Error, Value::Null);
        let settlement = Settlement { outcome, result, error: Some(error), duration_ms: 0, by };
        self.settle(recorder, settlement, redispatches)
    }

    /// Makes a call on behalf of another call; it is judged and recorded like any call.
    fn side_call(
        &self,
        recorder: &CallRecorder,
        preparation: &Preparation,
        side: SideCall<'_>,
    ) -> Result<CallReport, GatewayError> {
        let call = recorder.state();
        let trace_id = call.head.trace_id;
        let Some(request) = call.effective_request() else {
            return Err(GatewayError::missing(trace_id, "request"));
        };
        let args = windlass_policy::fill_template(
            side.args,
            request.idempotency_key.as_deref(),
            &call.head.tool_call_id.map(|id| id.to_string()).unwrap_or_default(),
            &request.proposal.args,
        )
        .map_err(|error| GatewayError::Recovery { trace_id, reason: error.to_string() })?;
        let request = CallRequest {
            server: request.proposal.tool_server.clone(),
            tool: side.tool.to_owned(),
            args,
            intent: side.intent.to_owned(),
            resources: vec![Resource { kind: "call".to_owned(), id: trace_id.to_string() }],
            declared_class: side.class,
            key: side.key,
            plan_id: Some(request.plan_id),
            agent: request.agent.clone(),
            phase: request.phase.clone(),
            run: request.run,
        };
        let conditions = Conditions { until: preparation.until, serves_other: true };
        self.call_under(request, conditions)
    }
}

/// A call that probes or undoes another one.
struct SideCall<'a> {
    tool: &'a str,
    args: &'a Value,
    class: RiskLevel,
    key: Option<String>,
    intent: &'static str,
}

/// How a server failed and which of its requests were refused, without secrets already.
fn failure_of(settlement: &Settlement) -> Option<String> {
    let error = settlement.error.as_ref()?;
    let events = settlement.result.pointer("/network/events").and_then(Value::as_array);
    let refused = events.into_iter().flatten().filter_map(|event| event.get("refused")?.as_str());
    let refused: Vec<&str> = refused.take(REFUSED_MAX).collect();
    let network = match refused.as_slice() {
        [] => String::new(),
        refused => format!("; network: refused {}", refused.join(", ")),
    };
    Some(format!("{} [{}]{network}", error.message, error.code))
}
