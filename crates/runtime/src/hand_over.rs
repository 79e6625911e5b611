//! Calls that a coding agent makes itself, with its own tools: judged and recorded before it may make them, and settled
//! by what it reports. None of them is ever dispatched here.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_connect::{Certainty, Connect, Job, Limits, Reply, Target};
use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::artifact::{
    ActionRequest, CLIENT_WORKSPACE, DecidedBy, Decision, EffectError, FileChange, NamedFile,
    Proposal, SettledBy,
};
use windlass_kernel::{Call, Code, Digest, Outcome, PlanId, RiskLevel, State, TraceId, canon};
use windlass_policy::{OnUncertain, Verdict};
use windlass_store::{After, AppendError, IdempotencyRecord, KeyAction, StoreError, TraceFilter};

use crate::decide::first_difference;
use crate::dispatch::Settlement;
use crate::error::GatewayError;
use crate::gateway::{CallRecorder, Gateway};
use crate::keys::slot_of;
use crate::report::{CallReport, HoldQuestion};
use crate::request::{self, CallRequest};
use crate::supervisor::{Preparation, Ruling};

/// The largest result of a client's tool that is recorded.
const RESULT_BYTES_MAX: usize = 256 << 10;

/// The longest message of a failure that is recorded.
const MESSAGE_CHARS_MAX: usize = 1000;

/// The most open calls of a client that are looked through.
const OPEN_CALLS_MAX: usize = 10_000;

/// The kind of resource that names a client's use of a tool.
pub const TOOL_USE: &str = "tool-use";

/// How keys of our own begin. Those of clients begin with their names.
const OWN_KEY: &str = "call/";

/// The connector of a gateway whose calls are made by a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoConnector;

impl Connect for NoConnector {
    fn perform(&self, _: &Job<'_>) -> Reply {
        Reply::Failure {
            code: Code::Internal,
            message: "the agent makes this call itself".to_owned(),
            result: None,
            certainty: Certainty::DidNotRun,
        }
    }

    fn foresee(&self, _: &Target, _: &str, _: &Value) -> Option<FileChange> {
        None
    }
}

/// What becomes of a call that the policy asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking<'a> {
    /// It waits for a signed decision.
    Hold,
    /// The client asks the person with its own prompt, which the agent cannot answer; what is hard to undo waits for a
    /// signed decision all the same.
    Prompt {
        /// The client.
        client: &'a str,
    },
}

/// What a client reports of a call that it made.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientReport {
    /// The client.
    pub client: String,
    /// The result of its tool.
    pub result: Value,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
}

impl Gateway {
    /// Whether the calls of this gateway are made by a client.
    pub(crate) fn hands_over(&self) -> bool {
        self.workspace == CLIENT_WORKSPACE
    }

    /// Judges a call that a client wants to make. If it may, request, decision and hand-over are recorded in one
    /// commit, and the report's state is EXECUTING: then, and only then, the client may make it. A call that a person is
    /// asked about stays PENDING; the same call is let through once after their approval. With [`Asking::Prompt`] it is
    /// EXECUTING, too, and [`CallReport::asks_person`] says that the client must ask first.
    ///
    /// # Errors
    /// [`GatewayError`] if the request is invalid, the store fails, or the gateway is not one of clients: the client
    /// may not make the call.
    pub fn hand_over(
        &self,
        request: CallRequest,
        asking: Asking<'_>,
    ) -> Result<CallReport, GatewayError> {
        self.hand_over_as(request, asking, None)
    }

    pub(crate) fn hand_over_as(
        &self,
        request: CallRequest,
        asking: Asking<'_>,
        asks: Option<String>,
    ) -> Result<CallReport, GatewayError> {
        let mut request = request.compose(&*self.clock, &self.workspace)?;
        let trace_id = request.trace_id;
        if !self.hands_over() {
            let reason = "its gateway makes calls itself".to_owned();
            return Err(GatewayError::Recovery { trace_id, reason });
        }
        request.idempotency_key.get_or_insert_with(|| own_key(trace_id));
        let mut ruling = self.supervisor.judge(&request);
        if let (Verdict::Allow, Some(reason)) = (ruling.verdict, asks) {
            (ruling.verdict, ruling.reason) = (Verdict::Ask, reason);
        }
        if ruling.verdict == Verdict::Deny {
            return self.deny_unless_granted(request, ruling);
        }
        let preparation = match self.supervisor.prepare(&request) {
            Ok(preparation) => preparation,
            Err(refusal) => {
                let (code, reason) = (Some(refusal.code), refusal.reason);
                let ruling = Ruling { verdict: Verdict::Deny, code, reason, ..ruling };
                return self.deny_unless_granted(request, ruling);
            }
        };
        request::redact(&mut request, |value| self.supervisor.redact(value));
        match ruling.verdict {
            Verdict::Allow => self.start_at_client(request, ruling, &preparation),
            Verdict::Ask => self.ask_for_client(request, ruling, &preparation, asking),
            Verdict::Deny => self.deny(request, ruling),
        }
    }

    /// Refuses a call that a client wants to make without judging it, unless a person has granted everything for now.
    ///
    /// # Errors
    /// [`GatewayError`] if the request is invalid or the store fails: the client may not make the call.
    pub fn refuse_unless_granted(
        &self,
        request: CallRequest,
        code: Code,
        reason: String,
    ) -> Result<CallReport, GatewayError> {
        let request = request.compose(&*self.clock, &self.workspace)?;
        let (verdict, code, rules) = (Verdict::Deny, Some(code), Vec::new());
        self.deny_unless_granted(request, Ruling { verdict, code, reason, rules })
    }

    fn deny_unless_granted(
        &self,
        mut request: ActionRequest,
        ruling: Ruling,
    ) -> Result<CallReport, GatewayError> {
        if !self.hands_over() || !self.is_everything_granted(request.plan_id)? {
            return self.deny(request, ruling);
        }
        let trace_id = request.trace_id;
        request.idempotency_key.get_or_insert_with(|| own_key(trace_id));
        request::redact(&mut request, |value| self.supervisor.redact(value));
        if let Some(record) = self.key_record(&request)? {
            return self.given_before(request, &record);
        }
        let mut recorder = self.open(request)?;
        recorder.commit(KeyAction::None, After::Keep)?;
        match self.take_use(&recorder)? {
            Some(taken) => self.start_granted(recorder, taken, &unprepared()),
            // It has ended in this moment.
            None => {
                let Ruling { code, reason, rules, .. } = ruling;
                let by = DecidedBy::Policy { rules };
                self.add_decision(&mut recorder, Decision::Deny, reason, code, by)?;
                recorder.commit(KeyAction::None, After::Release)?;
                Ok(CallReport::of(recorder.into_state(), Vec::new()))
            }
        }
    }

    fn start_at_client(
        &self,
        request: ActionRequest,
        ruling: Ruling,
        preparation: &Preparation,
    ) -> Result<CallReport, GatewayError> {
        let mut recorder = self.open(request)?;
        let Ruling { code, reason, rules, .. } = ruling;
        let by = DecidedBy::Policy { rules };
        self.add_decision(&mut recorder, Decision::Approve, reason, code, by)?;
        self.commit_hand_over(recorder, preparation)
    }

    /// Records that the client makes the call of the recorder from now on.
    pub(crate) fn commit_hand_over(
        &self,
        mut recorder: CallRecorder,
        preparation: &Preparation,
    ) -> Result<CallReport, GatewayError> {
        let key = self.add_tool_call(&mut recorder, preparation)?;
        match recorder.commit(key, After::Release) {
            Ok(()) => Ok(CallReport::of(recorder.into_state(), Vec::new())),
            Err(JournalError::Append(AppendError::KeyTaken(record))) => {
                let Some((request, _)) = recorder.into_state().request else {
                    return Err(JournalError::Append(AppendError::KeyTaken(record)).into());
                };
                self.given_before(request, &record)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The answer to a call whose key was used: the recorded one, if the client asks for the same call again and has not
    /// reported it, as after the death of a hook.
    fn given_before(
        &self,
        request: ActionRequest,
        record: &IdempotencyRecord,
    ) -> Result<CallReport, GatewayError> {
        let trace_id = request.trace_id;
        let given = Reader::<Call>::state_of(&*self.store, record.trace_id, Check::Verified)?;
        let is_same = record.reservation.request_digest == digest_of(&request.proposal, trace_id)?
            && given.head.state == Some(State::Executing);
        let reason = format!(
            "the agent was given this call before, in trace {}; what became of it is not known here",
            record.trace_id
        );
        let (code, rules) = (Some(Code::IdempotencyConflict), Vec::new());
        match self.store.load_state(trace_id) {
            // It was recorded before a grant was used for it.
            Ok(_) => {
                let mut recorder = CallRecorder::open(&self.store, trace_id, Vec::new())?;
                let by = DecidedBy::Policy { rules };
                self.add_decision(&mut recorder, Decision::Deny, reason, code, by)?;
                recorder.commit(KeyAction::None, After::Release)?;
                if !is_same {
                    return Ok(CallReport::of(recorder.into_state(), Vec::new()));
                }
            }
            Err(StoreError::NotFound { .. }) if !is_same => {
                return self.deny(request, Ruling { verdict: Verdict::Deny, code, reason, rules });
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(CallReport { replayed: true, ..CallReport::of(given, Vec::new()) })
    }

    /// Lets a call through that a person has approved or granted, or asks about it. Such calls have keys of our own,
    /// because the client names the same call otherwise when it asks again.
    pub(crate) fn ask_for_client(
        &self,
        mut request: ActionRequest,
        ruling: Ruling,
        preparation: &Preparation,
        asking: Asking<'_>,
    ) -> Result<CallReport, GatewayError> {
        let key = request.idempotency_key.replace(own_key(request.trace_id));
        request.files = self.examine(&request).files;
        let digest = digest_of(&request.proposal, request.trace_id)?;
        // The same event once more: its hook died before it answered.
        let is_of_use = request.resources.iter().any(|one| one.kind == TOOL_USE);
        let given = if is_of_use {
            self.open_calls_of(request.plan_id, State::Executing, digest)?
        } else {
            Vec::new()
        };
        for trace_id in given {
            let call = Reader::<Call>::state_of(&*self.store, trace_id, Check::Verified)?;
            let is_same = |(given, _): &(ActionRequest, _)| given.resources == request.resources;
            if call.request.as_ref().is_some_and(is_same) {
                return Ok(CallReport { replayed: true, ..CallReport::of(call, Vec::new()) });
            }
        }
        let approved = self.open_calls_of(request.plan_id, State::Authorized, digest)?;
        for trace_id in approved {
            if let Some(report) = self.hand_over_approved(trace_id, &request.files, preparation)? {
                return Ok(report);
            }
        }
        let asked = self.open_calls_of(request.plan_id, State::Pending, digest)?;
        if let Some(trace_id) = asked.first() {
            return self.show(*trace_id);
        }
        let is_granted = self.is_granted(&request)?;
        if let (Asking::Prompt { client }, false) = (asking, is_granted)
            && preparation.class != RiskLevel::HighRisk
        {
            let mut recorder = self.open(ActionRequest { idempotency_key: key, ..request })?;
            let by = DecidedBy::Prompt { client: client.to_owned(), rules: ruling.rules };
            self.add_decision(&mut recorder, Decision::Approve, ruling.reason, None, by)?;
            return self.commit_hand_over(recorder, preparation);
        }
        let mut recorder = self.open(request)?;
        recorder.commit(KeyAction::None, After::Keep)?;
        if is_granted && let Some(taken) = self.take_use(&recorder)? {
            return self.start_granted(recorder, taken, preparation);
        }
        recorder.write_replay_point(self.clock.now())?;
        let call = recorder.into_state();
        let view = self.view_of(&call);
        let report = CallReport::of(call, Vec::new());
        Ok(report.on_hold(HoldQuestion::MayItRun, ruling.reason, view))
    }

    /// Hands over an approved call, unless another process has, or the files that it names are no longer those that
    /// the person saw.
    fn hand_over_approved(
        &self,
        trace_id: TraceId,
        files: &[NamedFile],
        preparation: &Preparation,
    ) -> Result<Option<CallReport>, GatewayError> {
        let recorder = match CallRecorder::open(&self.store, trace_id, Vec::new()) {
            Ok(recorder) => recorder,
            Err(JournalError::Held(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let call = recorder.state();
        let is_approved = call.head.state == Some(State::Authorized);
        let seen = match (&call.request, call.decision.as_ref().map(|(one, _)| &one.decided_by)) {
            (_, Some(DecidedBy::Person { files, .. })) if !files.is_empty() => files.clone(),
            (Some((request, _)), _) => request.files.clone(),
            (None, _) => Vec::new(),
        };
        if !is_approved || first_difference(&seen, files).is_some() {
            return Ok(None);
        }
        self.commit_hand_over(recorder, preparation).map(Some)
    }

    /// The call that a client has been given and reports about: by its key, else the oldest open one of the run with
    /// the same tool and arguments.
    ///
    /// # Errors
    /// [`GatewayError`] if the store fails or the arguments have no canonical form.
    pub fn handed_over(&self, request: CallRequest) -> Result<Option<TraceId>, GatewayError> {
        let mut request = request.compose(&*self.clock, &self.workspace)?;
        if let Some(key) = request.idempotency_key.clone()
            && let Some(record) = self.store.load_idempotency(&slot_of(&request, key))?
        {
            return Ok(Some(record.trace_id));
        }
        request::redact(&mut request, |value| self.supervisor.redact(value));
        let digest = digest_of(&request.proposal, request.trace_id)?;
        Ok(self.open_calls_of(request.plan_id, State::Executing, digest)?.first().copied())
    }

    /// Records what a client reports of a call that it was given. A second report changes nothing.
    ///
    /// # Errors
    /// [`GatewayError`] if there is no such call or the store fails.
    pub fn settle_report(
        &self,
        trace_id: TraceId,
        report: ClientReport,
    ) -> Result<CallReport, GatewayError> {
        let recorder = CallRecorder::open(&self.store, trace_id, Vec::new())?;
        let Some((request, _)) = &recorder.state().request else {
            return Err(GatewayError::missing(trace_id, "request"));
        };
        self.require_workspace(trace_id, request)?;
        if recorder.state().head.state != Some(State::Executing) {
            return Ok(CallReport::of(recorder.into_state(), Vec::new()));
        }
        let mut result = report.result;
        self.supervisor.redact(&mut result);
        let result = match canon::measure(&result) {
            Ok(bytes) if bytes <= RESULT_BYTES_MAX => result,
            Ok(bytes) => json!({ "bytes": bytes, "omitted": "it is too large" }),
            Err(error) => json!({ "omitted": error.to_string() }),
        };
        let error = report.failure.map(|message| EffectError {
            code: Code::ToolFailed,
            may_have_run: true,
            message: one_line(&self.redacted(&message)),
        });
        let outcome = if error.is_none() { Outcome::Success } else { Outcome::Failure };
        let by = SettledBy::Report { client: report.client };
        let settlement = Settlement { outcome, result, error, duration_ms: report.duration_ms, by };
        self.settle(recorder, settlement, Vec::new())
    }

    /// Whether calls of a plan wait for a person, or for the client to make them after a person's approval.
    ///
    /// # Errors
    /// [`GatewayError`] if the store fails.
    pub fn has_waiting_calls(&self, plan_id: PlanId) -> Result<bool, GatewayError> {
        for state in [State::Pending, State::Authorized] {
            let plan_id = Some(plan_id);
            let filter = TraceFilter { state: Some(state), plan_id, ..TraceFilter::open(1) };
            if !self.store.list_traces(&filter)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The open calls of a plan in a state with these arguments and a key of our own, oldest first.
    pub(crate) fn open_calls_of(
        &self,
        plan_id: PlanId,
        state: State,
        digest: Digest,
    ) -> Result<Vec<TraceId>, GatewayError> {
        let (state, plan_id) = (Some(state), Some(plan_id));
        let filter = TraceFilter { state, plan_id, ..TraceFilter::open(OPEN_CALLS_MAX) };
        let mut found = Vec::new();
        for trace in self.store.list_traces(&filter)? {
            let call =
                Reader::<Call>::state_of(&*self.store, trace.head.trace_id, Check::Verified)?;
            let is_same = call.proposal_digest() == Some(digest);
            let key = call.request.and_then(|(request, _)| request.idempotency_key);
            if is_same && key.is_some_and(|key| key.starts_with(OWN_KEY)) {
                found.push(trace.head.trace_id);
            }
        }
        found.reverse();
        Ok(found)
    }
}

/// The preparation of a call that no registry knows and that is never dispatched.
pub(crate) fn unprepared() -> Preparation {
    Preparation {
        target: Target::Client,
        tool: String::new(),
        class: RiskLevel::HighRisk,
        limits: Limits { timeout: Duration::ZERO, output_bytes_max: 0 },
        on_uncertain: OnUncertain::Hold,
        retries_max: 0,
        confinement: None,
        args: None,
        no_match_is_an_answer: false,
        until: None,
    }
}

/// The key of a call for which the client has no id that lasts.
pub(crate) fn own_key(trace_id: TraceId) -> String {
    format!("{OWN_KEY}{trace_id}")
}

/// The message of a client in one line.
fn one_line(text: &str) -> String {
    let shown = text.chars().map(|one| if one.is_control() { ' ' } else { one });
    shown.take(MESSAGE_CHARS_MAX).collect()
}

pub(crate) fn digest_of(proposal: &Proposal, trace_id: TraceId) -> Result<Digest, GatewayError> {
    proposal.digest().map_err(|source| JournalError::NotCanonical { trace_id, source }.into())
}
