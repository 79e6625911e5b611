//! A person's answer to a call on hold. A call is answered once.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde_json::json;
use windlass_journal::JournalError;
use windlass_kernel::artifact::{
    ActionRequest, DecidedBy, Decision, Edit, EffectError, NamedFile, SettledBy,
};
use windlass_kernel::{
    Call, Code, Digest, Next, Outcome, PlanId, RiskLevel, State, Statement, TraceId,
    dispatch_decision, edited, settled_decision,
};
use windlass_policy::Verdict;
use windlass_store::{After, AppendError, KeyAction};

use crate::dispatch::Settlement;
use crate::error::GatewayError;
use crate::gateway::{CallRecorder, Gateway};
use crate::people::{Attribution, Who};
use crate::recover::require_run;
use crate::report::CallReport;
use crate::request::{CallRequest, RequestError};
use crate::supervisor::{Conditions, Ruling};
use crate::unknown_effect::{Again, UnknownEffect};

/// The maximum length of a reason.
const REASON_BYTES_MAX: usize = 4096;
/// How long an answer waits for the process that has the call, and how often it looks.
const TURN_WAIT: Duration = Duration::from_secs(5);
const TURN_TICK: Duration = Duration::from_millis(20);

/// A person's answer to a call on hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call may run: dispatch it.
    Approve,
    /// The call may not run.
    Deny,
    /// The call was interrupted, and it took effect.
    Ran,
    /// The call was interrupted before it took effect: dispatch it again.
    DidNotRun,
    /// The call was interrupted, and it failed.
    Failed,
}

impl Answer {
    /// The name in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Ran => "ran",
            Self::DidNotRun => "did_not_run",
            Self::Failed => "failed",
        }
    }
}

fn check(attribution: &Attribution<'_>) -> Result<(), RequestError> {
    let field = |field, reason: &str| RequestError::Field { field, reason: reason.to_owned() };
    if let Who::Person { name, .. } = attribution.who {
        windlass_kernel::check_name(name).map_err(|reason| field("name", reason))?;
    }
    if attribution.edit.is_some_and(|args| !args.is_object()) {
        return Err(field("args", "a JSON object"));
    }
    if attribution.reason.trim().is_empty() || attribution.reason.len() > REASON_BYTES_MAX {
        return Err(field("reason", "1 to 4096 bytes long and not blank"));
    }
    Ok(())
}

impl Gateway {
    /// Records a person's answer and acts on it. An answer that is refused is recorded too, as a denied call
    /// of the tool `windlass/decide`.
    ///
    /// # Errors
    /// [`GatewayError`]: `AlreadyDecided` if the call is not on hold, `Refused` if the policy denies the
    /// call even with an approval, `Person` if the person cannot decide, `Stale` if a file that the call names
    /// has changed, `WrongAnswer` if the answer does not fit the question, `Journal` with `Held` if another
    /// process works on the call, `OfRun` if a run makes it and the answer does not come through the run.
    pub fn decide(
        &self,
        trace_id: TraceId,
        answer: Answer,
        attribution: Attribution<'_>,
    ) -> Result<CallReport, GatewayError> {
        self.decide_within(trace_id, answer, attribution, None)
    }

    /// Decides as [`Self::decide`] does. What is dispatched is ended when the time is over.
    ///
    /// # Errors
    /// As there.
    pub fn decide_within(
        &self,
        trace_id: TraceId,
        answer: Answer,
        attribution: Attribution<'_>,
        time_left: Option<Duration>,
    ) -> Result<CallReport, GatewayError> {
        check(&attribution)?;
        let reason = self.redacted(attribution.reason);
        let attribution = Attribution { reason: &reason, ..attribution };
        let conditions = Conditions::within(time_left);
        let decided = self.decide_open(trace_id, answer, attribution, conditions);
        if let Err(
            error @ (GatewayError::Person(_)
            | GatewayError::OfRun { .. }
            | GatewayError::Stale { .. }
            | GatewayError::Refused { .. }),
        ) = &decided
        {
            self.record_refusal(trace_id, answer, &attribution, error)?;
        }
        decided
    }

    /// Denies a call of a run that waits to be approved or denied, because the run no longer asks about it. A call
    /// that is not at that point is not changed.
    ///
    /// # Errors
    /// [`GatewayError`]: `OfRun` if another run makes it, `Journal` with `Held` if another process works on it.
    pub fn withdraw(
        &self,
        trace_id: TraceId,
        run: TraceId,
        code: Code,
        reason: String,
    ) -> Result<(), GatewayError> {
        let mut recorder = CallRecorder::open(&self.store, trace_id, Vec::new())?;
        require_run(recorder.state(), Some(run))?;
        if recorder.state().next() != Next::Judge {
            return Ok(());
        }
        let by = DecidedBy::Policy { rules: Vec::new() };
        self.add_decision(&mut recorder, Decision::Deny, reason, Some(code), by)?;
        Ok(recorder.commit(KeyAction::None, After::Release)?)
    }

    /// Opens a call that somebody else may decide about at this moment: then this waits a little, unless they have
    /// decided already.
    fn open_in_turn(&self, trace_id: TraceId) -> Result<CallRecorder, GatewayError> {
        let began = Instant::now();
        loop {
            let held = match CallRecorder::open(&self.store, trace_id, Vec::new()) {
                Err(error @ JournalError::Held(_)) => error,
                opened => return Ok(opened?),
            };
            match self.store.load_state(trace_id)?.head.state {
                Some(State::Pending) | None => {}
                Some(state) => return Err(GatewayError::AlreadyDecided { trace_id, state }),
            }
            if began.elapsed() >= TURN_WAIT {
                return Err(held.into());
            }
            std::thread::sleep(TURN_TICK);
        }
    }

    fn decide_open(
        &self,
        trace_id: TraceId,
        answer: Answer,
        attribution: Attribution<'_>,
        conditions: Conditions,
    ) -> Result<CallReport, GatewayError> {
        let recorder = self.open_in_turn(trace_id)?;
        self.require_route(recorder.state(), answer, attribution.who)?;
        let wrong = |question| Err(GatewayError::WrongAnswer { trace_id, question });
        match (recorder.state().next(), answer) {
            (Next::Judge, Answer::Approve) => self.approve(recorder, attribution, conditions),
            (Next::Judge, Answer::Deny) => self.deny_request(recorder, attribution),
            (Next::Judge, Answer::Ran | Answer::DidNotRun | Answer::Failed) => {
                wrong("it waits to be approved or denied")
            }
            (Next::Settle, Answer::DidNotRun) if self.hands_over() => {
                wrong("the agent makes it, not Windlass: say that it ran or that it failed")
            }
            (Next::Settle, Answer::DidNotRun) => {
                self.dispatch_again(recorder, attribution, conditions)
            }
            (Next::Settle, Answer::Ran | Answer::Failed) => {
                self.settle_by_person(recorder, answer, attribution)
            }
            (Next::Settle, Answer::Approve | Answer::Deny) => {
                wrong("it was interrupted; settle it: it ran, it did not run, or it failed")
            }
            (Next::Start | Next::Nothing | Next::Done, _) => {
                let state = recorder.state().head.state.unwrap_or(State::Pending);
                Err(GatewayError::AlreadyDecided { trace_id, state })
            }
        }
    }

    /// Fails if the call belongs to a run and the decision does not come through the run. What has ended
    /// can still be closed: nothing runs then.
    fn require_route(&self, call: &Call, answer: Answer, who: Who<'_>) -> Result<(), GatewayError> {
        let through = match who {
            Who::Person { run, .. } => run,
            Who::Hold { trace_id, .. } => Some(trace_id),
        };
        let Err(error) = require_run(call, through) else { return Ok(()) };
        let closes = matches!(answer, Answer::Deny | Answer::Ran | Answer::Failed);
        if let (true, GatewayError::OfRun { run, .. }) = (closes, &error)
            && self.store.load_state(*run)?.head.state == Some(State::Terminal)
        {
            return Ok(());
        }
        Err(error)
    }

    /// Records a decision that was refused.
    fn record_refusal(
        &self,
        trace_id: TraceId,
        answer: Answer,
        attribution: &Attribution<'_>,
        error: &GatewayError,
    ) -> Result<(), GatewayError> {
        let by = match attribution.who {
            Who::Person { name, .. } => name.to_owned(),
            Who::Hold { names, .. } => names.join(", "),
        };
        let request = CallRequest {
            server: "windlass".to_owned(),
            tool: "decide".to_owned(),
            args: json!({
                "answer": answer.as_str(),
                "by": by,
                "call": trace_id.to_string(),
                "reason": attribution.reason,
            }),
            intent: "decide on a call that waits for a person".to_owned(),
            resources: Vec::new(),
            declared_class: RiskLevel::Write,
            key: None,
            plan_id: Some(PlanId(trace_id.0)),
            agent: None,
            phase: None,
            run: None,
        };
        self.refuse(request, error.code(), error.to_string()).map(|_| ())
    }

    /// What a person signs who decides on the call, whose last entry is the recorder's.
    fn statement<'a>(
        recorder: &CallRecorder,
        decision: impl Into<Cow<'a, str>>,
        attribution: &Attribution<'a>,
        edit: Option<&Edit>,
        shown: Digest,
    ) -> Statement<'a> {
        let head = &recorder.state().head;
        Statement {
            after: head.entry_digest,
            conditions: &[],
            decision: decision.into(),
            edit: edit.map(|edit| edit.proposal_digest),
            files: attribution.files,
            reason: attribution.reason,
            send_back: None,
            shown,
            trace_id: head.trace_id,
        }
    }

    /// Adds the person's decision on the request.
    fn add_person(
        &self,
        recorder: &mut CallRecorder,
        decision: Decision,
        attribution: &Attribution<'_>,
        edit: Option<Edit>,
        code: Option<Code>,
    ) -> Result<(), GatewayError> {
        let trace_id = recorder.state().head.trace_id;
        let Some((_, request)) = &recorder.state().request else {
            return Err(GatewayError::missing(trace_id, "request"));
        };
        let (decided, shown) = (decision.as_str(), *request);
        let statement = Self::statement(recorder, decided, attribution, edit.as_ref(), shown);
        let decider = attribution.sign(&statement)?;
        let by = DecidedBy::Person { decider, edit, files: attribution.files.to_vec() };
        self.add_decision(recorder, decision, attribution.reason.to_owned(), code, by)?;
        Ok(())
    }

    fn deny_request(
        &self,
        mut recorder: CallRecorder,
        attribution: Attribution<'_>,
    ) -> Result<CallReport, GatewayError> {
        let attribution = Attribution { edit: None, files: &[], ..attribution };
        let code = Some(Code::DeniedByPerson);
        self.add_person(&mut recorder, Decision::Deny, &attribution, None, code)?;
        recorder.commit(KeyAction::None, After::Release)?;
        Ok(CallReport::of(recorder.into_state(), Vec::new()))
    }

    fn approve(
        &self,
        mut recorder: CallRecorder,
        attribution: Attribution<'_>,
        conditions: Conditions,
    ) -> Result<CallReport, GatewayError> {
        let trace_id = recorder.state().head.trace_id;
        let Some((request, _)) = &recorder.state().request else {
            return Err(GatewayError::missing(trace_id, "request"));
        };
        self.require_workspace(trace_id, request)?;
        if self.hands_over() && attribution.edit.is_some() {
            // The agent would make the call as it asked for it, not as the person changed it.
            let question = "the agent makes it, so its arguments cannot be changed; deny it and say what to do";
            return Err(GatewayError::WrongAnswer { trace_id, question });
        }
        let edit = match attribution.edit {
            Some(args) => Some(
                Edit::of(&request.proposal, args.clone())
                    .map_err(|error| GatewayError::Request(RequestError::Args(error)))?,
            ),
            None => None,
        };
        let effective = match &edit {
            Some(edit) => Cow::Owned(edited(request, &edit.args)),
            None => Cow::Borrowed(request),
        };
        let ruling: Ruling = self.judge(&effective);
        if ruling.verdict == Verdict::Deny {
            let code = ruling.code.unwrap_or(Code::PolicyDenied);
            return Err(GatewayError::Refused { trace_id, code, reason: ruling.reason });
        }
        self.require_seen(trace_id, request, attribution.files)?;
        let preparation = self.prepare_request(trace_id, &effective)?.under(conditions);
        self.add_person(&mut recorder, Decision::Approve, &attribution, edit, None)?;
        if self.hands_over() {
            // The agent makes it when it asks again.
            recorder.commit(KeyAction::None, After::Release)?;
            return Ok(CallReport::of(recorder.into_state(), Vec::new()));
        }
        let key = self.add_tool_call(&mut recorder, &preparation)?;
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

    /// Fails unless the files that a call names are as the person saw them: at the question, or later.
    fn require_seen(
        &self,
        trace_id: TraceId,
        request: &ActionRequest,
        later: &[NamedFile],
    ) -> Result<(), GatewayError> {
        let seen = if later.is_empty() { &request.files } else { later };
        let now = self.examine(request).files;
        match first_difference(seen, &now) {
            Some(path) => Err(GatewayError::Stale { trace_id, path }),
            None => Ok(()),
        }
    }

    /// Dispatches an interrupted call again, which a person says has not run.
    fn dispatch_again(
        &self,
        recorder: CallRecorder,
        attribution: Attribution<'_>,
        conditions: Conditions,
    ) -> Result<CallReport, GatewayError> {
        let trace_id = recorder.state().head.trace_id;
        let redispatches = self.store.list_redispatches(trace_id)?;
        let preparation = self.prepare(&recorder)?.under(conditions);
        if let Some((code, reason)) = self.denial(&recorder)? {
            return Err(GatewayError::Refused { trace_id, code, reason });
        }
        // A call that nobody was asked about names no files.
        if let Some((request, _)) = &recorder.state().request
            && !(request.files.is_empty() && attribution.files.is_empty())
        {
            self.require_seen(trace_id, request, attribution.files)?;
        }
        let attribution = Attribution { edit: None, files: &[], ..attribution };
        let attempt = u32::try_from(redispatches.len()).unwrap_or(u32::MAX).saturating_add(2);
        let shown = self.dispatched(&recorder)?;
        let statement =
            Self::statement(&recorder, dispatch_decision(attempt), &attribution, None, shown);
        let by = Some(attribution.sign(&statement)?);
        let reason = attribution.reason.to_owned();
        let again = Again { by, reason, did_not_run: true };
        let unknown = UnknownEffect { recorder, redispatches, failure: None };
        self.dispatch_again_and_settle(unknown, &preparation, again)
    }

    /// Records what a person says became of an interrupted call.
    fn settle_by_person(
        &self,
        recorder: CallRecorder,
        answer: Answer,
        attribution: Attribution<'_>,
    ) -> Result<CallReport, GatewayError> {
        let attribution = Attribution { edit: None, files: &[], ..attribution };
        let redispatches = self.store.list_redispatches(recorder.state().head.trace_id)?;
        let reason = attribution.reason.to_owned();
        let (outcome, result, error) = if answer == Answer::Ran {
            (Outcome::Success, json!({ "said": reason }), None)
        } else {
            let (code, message) = (Code::ToolOutcomeUnknown, reason.clone());
            let error = EffectError { code, message, may_have_run: true };
            (Outcome::Denied, serde_json::Value::Null, Some(error))
        };
        let shown = self.dispatched(&recorder)?;
        let statement =
            Self::statement(&recorder, settled_decision(outcome), &attribution, None, shown);
        let decider = attribution.sign(&statement)?;
        let by = SettledBy::Person { decider, reason };
        let settlement = Settlement { outcome, result, error, duration_ms: 0, by };
        self.settle(recorder, settlement, redispatches)
    }

    /// The digest of the dispatched call, to which a person's word about it refers.
    fn dispatched(&self, recorder: &CallRecorder) -> Result<Digest, GatewayError> {
        let call = recorder.state().tool_call.as_ref();
        let missing = || GatewayError::missing(recorder.state().head.trace_id, "call");
        call.map(|(_, digest)| *digest).ok_or_else(missing)
    }
}

/// The first path whose file is not as it was seen.
#[must_use]
pub fn first_difference(seen: &[NamedFile], now: &[NamedFile]) -> Option<String> {
    let differs = |one: &&NamedFile| !seen.contains(one);
    let missing = |one: &&NamedFile| !now.iter().any(|other| other.path == one.path);
    let found = now.iter().find(differs).or_else(|| seen.iter().find(missing));
    found.map(|one| one.path.clone())
}
