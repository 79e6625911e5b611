//! A person's answer to a call that waits for one. It is given once.

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

/// The longest name of a person and the longest reason, in bytes.
const NAME_BYTES_MAX: usize = 128;
const REASON_BYTES_MAX: usize = 4096;

/// What a person says to a call on hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Make it; or, if it may have run, hand it over again.
    Approve,
    /// Do not make it; or, if it may have run, give it up.
    Deny,
}

/// Who says it, and why.
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
            return Err(field("name", "1 to 128 bytes that say who decides"));
        }
        if self.reason.trim().is_empty() || self.reason.len() > REASON_BYTES_MAX {
            return Err(field("reason", "1 to 4096 bytes that say why"));
        }
        Ok(())
    }
}

impl Gateway {
    /// Records a person's answer and acts on it.
    ///
    /// # Errors
    /// [`GatewayError`]: `AlreadyDecided` when there is nothing left to decide, `Refused` when
    /// policy does not allow the call even with an approval, `Acquire` when it is under way.
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

    /// Answers "may it run?".
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
        let judged = match &recorder.state().request {
            Some((request, _)) => self.supervisor.judge(request),
            None => {
                let reason = "its request is not recorded".to_owned();
                return Err(GatewayError::Recovery { trace_id, reason });
            }
        };
        if judged.verdict == Verdict::Deny {
            let code = judged.code.unwrap_or(Code::PolicyDenied);
            return Err(GatewayError::Refused { trace_id, code, reason: judged.reason });
        }
        let preparation = self.prepare(&recorder)?;
        let ruling = Ruling { verdict: Verdict::Allow, code: None, reason, rules: judged.rules };
        self.add_decision(&mut recorder, Decision::Approve, ruling, Some(attribution.by))?;
        let key = self.add_tool_call(&mut recorder)?;
        match recorder.commit(key, After::Keep) {
            Ok(()) => self.hand_over(recorder, &preparation, Vec::new()),
            // Meanwhile the key was used by another call: this one can only be refused.
            Err(JournalError::Append(AppendError::KeyTaken(record))) => {
                let code = Code::IdempotencyConflict;
                let reason = format!("its key has been used by trace {}", record.trace_id);
                Err(GatewayError::Refused { trace_id, code, reason })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Answers "run it again, or give it up?".
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
                let settled = Settlement {
                    outcome: Outcome::Denied,
                    result: serde_json::Value::Null,
                    error: Some(error),
                    duration_ms: 0,
                    by: SettledBy::Person { name: attribution.by.to_owned() },
                };
                self.settle(recorder, settled, redispatches)
            }
        }
    }
}
