//! A person's answer to a call on hold. A call is answered once.

use windlass_journal::JournalError;
use windlass_kernel::artifact::{Decision, EffectError, SettledBy};
use windlass_kernel::{Code, Next, Outcome, State, TraceId};
use windlass_policy::Verdict;
use windlass_store::{After, AppendError, KeyAction};

use crate::dispatch::Settlement;
use crate::error::GatewayError;
use crate::gateway::{CallRecorder, Gateway};
use crate::report::CallReport;
use crate::request::RequestError;
use crate::supervisor::Ruling;

/// The maximum length of a person's name.
const NAME_BYTES_MAX: usize = 128;
/// The maximum length of a reason.
const REASON_BYTES_MAX: usize = 4096;

/// A person's answer to a call on hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Dispatch the call; if it may have run, dispatch it again.
    Approve,
    /// Refuse the call; if it may have run, give it up.
    Deny,
}

/// The person who answers, and the reason.
#[derive(Clone, Copy, Debug)]
pub struct Attribution<'a> {
    /// The person's name.
    pub by: &'a str,
    /// The reason.
    pub reason: &'a str,
}

impl Attribution<'_> {
    fn check(&self) -> Result<(), RequestError> {
        let field = |field, reason: &str| RequestError::Field { field, reason: reason.to_owned() };
        if self.by.trim().is_empty() || self.by.len() > NAME_BYTES_MAX {
            return Err(field("name", "1 to 128 bytes long and not blank"));
        }
        if self.reason.trim().is_empty() || self.reason.len() > REASON_BYTES_MAX {
            return Err(field("reason", "1 to 4096 bytes long and not blank"));
        }
        Ok(())
    }
}

impl Gateway {
    /// Records a person's answer and acts on it.
    ///
    /// # Errors
    /// [`GatewayError`]: `AlreadyDecided` if the call is not on hold, `Refused` if the policy denies the
    /// call even with an approval, `Journal` with `Held` if another process works on the call.
    pub fn decide(
        &self,
        trace_id: TraceId,
        answer: Answer,
        attribution: Attribution<'_>,
    ) -> Result<CallReport, GatewayError> {
        attribution.check()?;
        let reason = self.redacted(attribution.reason);
        let attribution = Attribution { reason: &reason, ..attribution };
        let recorder = CallRecorder::open(&self.store, trace_id, Vec::new())?;
        match recorder.state().next() {
            Next::Judge => self.decide_request(recorder, answer, attribution),
            Next::Settle => self.decide_uncertain(recorder, answer, attribution),
            Next::Start | Next::Nothing | Next::Done => {
                let state = recorder.state().head.state.unwrap_or(State::Pending);
                Err(GatewayError::AlreadyDecided { trace_id, state })
            }
        }
    }

    /// Applies the answer to [`HoldQuestion::MayItRun`](crate::HoldQuestion::MayItRun).
    fn decide_request(
        &self,
        mut recorder: CallRecorder,
        answer: Answer,
        attribution: Attribution<'_>,
    ) -> Result<CallReport, GatewayError> {
        let trace_id = recorder.state().head.trace_id;
        let reason = attribution.reason.to_owned();
        if answer == Answer::Deny {
            let code = Some(Code::DeniedByPerson);
            let ruling = Ruling { verdict: Verdict::Deny, code, reason, rules: Vec::new() };
            self.add_decision(&mut recorder, Decision::Deny, ruling, Some(attribution.by))?;
            recorder.commit(KeyAction::None, After::Release)?;
            return Ok(CallReport::of(recorder.into_state(), Vec::new()));
        }
        let ruling = match &recorder.state().request {
            Some((request, _)) => self.supervisor.judge(request),
            None => {
                return Err(GatewayError::missing(trace_id, "request"));
            }
        };
        if ruling.verdict == Verdict::Deny {
            let code = ruling.code.unwrap_or(Code::PolicyDenied);
            return Err(GatewayError::Refused { trace_id, code, reason: ruling.reason });
        }
        let preparation = self.prepare(&recorder)?;
        let ruling = Ruling { verdict: Verdict::Allow, code: None, reason, rules: ruling.rules };
        self.add_decision(&mut recorder, Decision::Approve, ruling, Some(attribution.by))?;
        let key = self.add_tool_call(&mut recorder)?;
        match recorder.commit(key, After::Keep) {
            Ok(()) => self.dispatch_and_settle(recorder, &preparation, Vec::new()),
            // Another call has used the key in the meantime, so this call can only be refused.
            Err(JournalError::Append(AppendError::KeyTaken(record))) => {
                let code = Code::IdempotencyConflict;
                let reason = format!("its idempotency key was used by trace {}", record.trace_id);
                Err(GatewayError::Refused { trace_id, code, reason })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Applies the answer to [`HoldQuestion::RunItAgain`](crate::HoldQuestion::RunItAgain).
    fn decide_uncertain(
        &self,
        recorder: CallRecorder,
        answer: Answer,
        attribution: Attribution<'_>,
    ) -> Result<CallReport, GatewayError> {
        let redispatches = self.store.list_redispatches(recorder.state().head.trace_id)?;
        match answer {
            Answer::Approve => {
                let preparation = self.prepare(&recorder)?;
                let reason = attribution.reason.to_owned();
                self.redispatch(recorder, &preparation, redispatches, Some(attribution.by), reason)
            }
            Answer::Deny => {
                let error = EffectError {
                    code: Code::ToolOutcomeUnknown,
                    message: attribution.reason.to_owned(),
                    may_have_run: true,
                };
                let settlement = Settlement {
                    outcome: Outcome::Denied,
                    result: serde_json::Value::Null,
                    error: Some(error),
                    duration_ms: 0,
                    by: SettledBy::Person { name: attribution.by.to_owned() },
                };
                self.settle(recorder, settlement, redispatches)
            }
        }
    }
}
