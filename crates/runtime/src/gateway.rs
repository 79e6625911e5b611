//! The gateway: request, decision, call, effect. Each is recorded before the next step depends on it.

use std::sync::Arc;
use std::time::Duration;

use windlass_connect::{Connect, Target};
use windlass_journal::{Check, JournalError, Reader, Recorder};
use windlass_kernel::artifact::{
    ActionRequest, Artifact, DecidedBy, Decision, Redispatch, SupervisorDecision, ToolCall,
};
use windlass_kernel::{
    ArtifactId, Call, Code, Digest, RiskLevel, SCHEMA_VERSION, State, ToolCallId, TraceId,
    shown_with_files,
};
use windlass_policy::Verdict;
use windlass_store::{After, AppendError, KeyAction, Reservation, Store};

use crate::call_log::CallLog;
use crate::clock::Clock;
use crate::dispatch::Settlement;
use crate::error::GatewayError;
use crate::keys::slot_of;
use crate::people::People;
use crate::report::{CallReport, CallView, HoldQuestion};
use crate::request::{self, CallRequest};
use crate::secrets::FilledArgs;
use crate::supervisor::{Conditions, Examination, Preparation, Ruling, Supervisor};

/// The recorder of one call's trace.
pub(crate) type CallRecorder = Recorder<Call>;

/// When the entries of a read become durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadDurability {
    /// Before the dispatch, as for a write.
    #[default]
    WriteAhead,
    /// Together with the effect: one commit instead of two, because a lost read changed nothing.
    WithEffect,
}

/// The settings of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When the entries of a read become durable.
    pub reads: ReadDurability,
    /// How long to wait for a call with the same idempotency key in another process, in addition to the
    /// time limit of its tool.
    pub key_wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { reads: ReadDurability::WriteAhead, key_wait: Duration::from_secs(10) }
    }
}

/// Judges calls by policy, dispatches them to their tools, and records each step.
pub struct Gateway {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) supervisor: Arc<dyn Supervisor>,
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    /// The name of the workspace in which calls are dispatched.
    pub(crate) workspace: String,
    /// The people whose grants count.
    pub(crate) people: Option<Arc<dyn People>>,
}

impl Gateway {
    /// Creates a gateway whose calls work in the workspace of this name. It continues no call of another one.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        supervisor: Arc<dyn Supervisor>,
        connect: Arc<dyn Connect>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        workspace: &str,
    ) -> Self {
        let workspace = workspace.to_owned();
        Self { store, supervisor, connect, clock, settings, workspace, people: None }
    }

    /// The store behind the gateway.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Makes a call: judges it, records it, dispatches it and records its effect.
    ///
    /// A refused call, a call on hold and a failed call are reports, not errors.
    ///
    /// # Errors
    /// [`GatewayError`] if the request is invalid or the store fails.
    pub fn call(&self, request: CallRequest) -> Result<CallReport, GatewayError> {
        self.call_within(request, None)
    }

    /// Makes a call as [`Self::call`] does. What it starts is ended when the time is over.
    ///
    /// # Errors
    /// [`GatewayError`] if the request is invalid or the store fails.
    pub fn call_within(
        &self,
        request: CallRequest,
        time_left: Option<Duration>,
    ) -> Result<CallReport, GatewayError> {
        self.call_under(request, Conditions::within(time_left))
    }

    pub(crate) fn call_under(
        &self,
        request: CallRequest,
        conditions: Conditions,
    ) -> Result<CallReport, GatewayError> {
        let log = CallLog::start();
        let result = self.judge_and_start(request, conditions);
        log.call(&result);
        result
    }

    fn judge_and_start(
        &self,
        request: CallRequest,
        conditions: Conditions,
    ) -> Result<CallReport, GatewayError> {
        let request = request.compose(self.clock.as_ref(), &self.workspace)?;
        let ruling = self.supervisor.judge(&request);
        match ruling.verdict {
            Verdict::Deny => self.deny(request, ruling),
            Verdict::Ask => match self.key_record(&request)? {
                // A repeated request needs no answer: the first call with its key was decided.
                Some(record) => {
                    let timeout = self.supervisor.prepare(&request).map(|how| how.limits.timeout);
                    self.repeat(request, record, timeout.unwrap_or_default(), conditions)
                }
                None => self.ask(request, ruling, conditions),
            },
            Verdict::Allow => match self.supervisor.prepare(&request) {
                Ok(preparation) => self.start(request, ruling, preparation, conditions),
                Err(refusal) => {
                    let (code, reason) = (Some(refusal.code), refusal.reason);
                    self.deny(request, Ruling { verdict: Verdict::Deny, code, reason, ..ruling })
                }
            },
        }
    }

    /// Records a call as DENIED without judging it.
    ///
    /// # Errors
    /// [`GatewayError`] if the request is invalid or the store fails.
    pub fn refuse(
        &self,
        request: CallRequest,
        code: Code,
        reason: String,
    ) -> Result<CallReport, GatewayError> {
        let request = request.compose(self.clock.as_ref(), &self.workspace)?;
        let (verdict, code, rules) = (Verdict::Deny, Some(code), Vec::new());
        self.deny(request, Ruling { verdict, code, reason, rules })
    }

    /// Returns the recorded state of a call.
    ///
    /// # Errors
    /// [`GatewayError`] if there is no such call or its trace is corrupt.
    pub fn show(&self, trace_id: TraceId) -> Result<CallReport, GatewayError> {
        let call = Reader::<Call>::state_of(self.store.as_ref(), trace_id, Check::Verified)?;
        let redispatches = self.store.list_redispatches(trace_id)?;
        let held = self.store.is_held(&self.store.load_state(trace_id)?)?;
        let question = match &call.request {
            Some((request, _)) if call.head.state == Some(State::Pending) && !held => {
                self.judge(request).reason
            }
            _ => String::new(),
        };
        let view = self.view_of(&call);
        let report = CallReport::of(call, redispatches);
        Ok(if held {
            report
        } else if report.state == State::Pending {
            report.on_hold(HoldQuestion::MayItRun, question, view)
        } else if report.state == State::Executing && !report.made_by_client {
            let reason = "it was dispatched and its effect was never recorded".to_owned();
            report.on_hold(HoldQuestion::DidItRun, reason, view)
        } else {
            report
        })
    }

    /// Returns the call as a person should see it now.
    ///
    /// # Errors
    /// [`GatewayError`] if there is no such call or its trace is corrupt.
    pub fn view(&self, trace_id: TraceId) -> Result<CallView, GatewayError> {
        let call = Reader::<Call>::state_of(self.store.as_ref(), trace_id, Check::Verified)?;
        Ok(self.view_of(&call))
    }

    /// The call as a person should see it now.
    pub(crate) fn view_of(&self, call: &Call) -> CallView {
        let Some((request, digest)) = &call.request else { return CallView::default() };
        let is_here = request.proposal.workspace == self.workspace;
        let examination = if is_here {
            self.examine(request)
        } else {
            let folder = request.proposal.workspace.clone();
            let findings = vec!["not examined: it belongs to another folder".to_owned()];
            Examination { folder, findings, ..Examination::default() }
        };
        let interrupted = call.head.state == Some(State::Executing);
        let is_asked =
            call.head.state == Some(State::Pending) || (interrupted && !request.files.is_empty());
        let changed_files = if is_here && is_asked && request.files != examination.files {
            examination.files.clone()
        } else {
            Vec::new()
        };
        CallView {
            interrupted,
            agent: request.agent.clone(),
            args: request.proposal.args.clone(),
            asked_at: Some(request.ts),
            shown: Some(shown_with_files(*digest, &changed_files)),
            changed_files,
            examination,
            intent: request.intent.clone(),
            phase: request.phase.clone(),
            run: request.run,
            tool: [&*request.proposal.tool_server, "/", &*request.proposal.tool_name].concat(),
        }
    }

    /// Records a refused call. Its request is never dispatched, so it is recorded without secrets.
    pub(crate) fn deny(
        &self,
        mut request: ActionRequest,
        ruling: Ruling,
    ) -> Result<CallReport, GatewayError> {
        request::redact(&mut request, |value| self.supervisor.redact(value));
        let mut recorder = self.open(request)?;
        let Ruling { code, reason, rules, .. } = ruling;
        let by = DecidedBy::Policy { rules };
        self.add_decision(&mut recorder, Decision::Deny, reason, code, by)?;
        recorder.commit(KeyAction::None, After::Release)?;
        Ok(CallReport::of(recorder.into_state(), Vec::new()))
    }

    /// Records a request that a person must decide on, and dispatches it if a person has granted it.
    fn ask(
        &self,
        mut request: ActionRequest,
        ruling: Ruling,
        conditions: Conditions,
    ) -> Result<CallReport, GatewayError> {
        request.files = self.supervisor.examine(&request).files;
        let preparation = self.supervisor.prepare(&request).map(|how| how.under(conditions));
        let question = question_to_person(&request, preparation.as_ref().ok());
        let mut recorder = self.open(request)?;
        recorder.commit(KeyAction::None, After::Keep)?;
        if let Ok(preparation) = preparation {
            GatewayError::check_signal()?;
            if let Some(taken) = self.take_use(&recorder)? {
                return self.start_granted(recorder, taken, &preparation);
            }
        }
        recorder.write_replay_point(self.clock.now())?;
        let call = recorder.into_state();
        let view = self.view_of(&call);
        let report = CallReport::of(call, Vec::new());
        Ok(report.on_hold(HoldQuestion::MayItRun, question.unwrap_or(ruling.reason), view))
    }

    /// Records and dispatches a call that the policy allows.
    fn start(
        &self,
        request: ActionRequest,
        ruling: Ruling,
        preparation: Preparation,
        conditions: Conditions,
    ) -> Result<CallReport, GatewayError> {
        GatewayError::check_signal()?;
        let preparation = &preparation.under(conditions);
        let single_commit = self.settings.reads == ReadDurability::WithEffect
            && preparation.class == RiskLevel::Read
            && request.idempotency_key.is_none();
        let mut recorder = self.open(request)?;
        let Ruling { code, reason, rules, .. } = ruling;
        let by = DecidedBy::Policy { rules };
        self.add_decision(&mut recorder, Decision::Approve, reason, code, by)?;
        let key = self.add_tool_call(&mut recorder, preparation)?;
        if !single_commit {
            match recorder.commit(key, After::Keep) {
                Ok(()) => {}
                Err(JournalError::Append(AppendError::KeyTaken(record))) => {
                    // Nothing was committed, so the request can be answered from the other call.
                    let Some((request, _)) = recorder.into_state().request else {
                        return Err(JournalError::Append(AppendError::KeyTaken(record)).into());
                    };
                    let timeout = preparation.limits.timeout;
                    return self.repeat(request, *record, timeout, conditions);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.dispatch_and_settle(recorder, preparation, Vec::new())
    }

    /// Begins the trace of a request.
    pub(crate) fn open(&self, request: ActionRequest) -> Result<CallRecorder, GatewayError> {
        let mut recorder =
            CallRecorder::begin(&self.store, request.trace_id, request.plan_id, Vec::new());
        recorder.add(&Artifact::Request(request))?;
        Ok(recorder)
    }

    /// Adds a decision on the recorder's request.
    pub(crate) fn add_decision(
        &self,
        recorder: &mut CallRecorder,
        decision: Decision,
        rationale: String,
        code: Option<Code>,
        decided_by: DecidedBy,
    ) -> Result<Digest, GatewayError> {
        let ts = self.clock.now();
        let trace_id = recorder.state().head.trace_id;
        let request_digest =
            recorder.state().request.as_ref().map_or(Digest::GENESIS, |(_, digest)| *digest);
        let decision = SupervisorDecision {
            schema_id: SupervisorDecision::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            artifact_id: ArtifactId(self.clock.new_id()),
            trace_id,
            ts,
            request_digest,
            decision,
            rationale: match decided_by {
                DecidedBy::Policy { .. } | DecidedBy::Prompt { .. } => self.redacted(&rationale),
                // What a person signed is without secrets already.
                DecidedBy::Person { .. } | DecidedBy::Grant { .. } => rationale,
            },
            decided_by,
            policy_hash: self.supervisor.policy_hash(),
            code,
        };
        Ok(recorder.add(&Artifact::Decision(decision))?)
    }

    /// Adds the call; returns the action on its idempotency key for the same transaction.
    pub(crate) fn add_tool_call(
        &self,
        recorder: &mut CallRecorder,
        preparation: &Preparation,
    ) -> Result<KeyAction, GatewayError> {
        let ts = self.clock.now();
        let trace_id = recorder.state().head.trace_id;
        let missing = |artifact| GatewayError::missing(trace_id, artifact);
        let (request, _) = recorder.state().request.as_ref().ok_or_else(|| missing("request"))?;
        let (_, decision_digest) =
            recorder.state().decision.as_ref().ok_or_else(|| missing("decision"))?;
        let proposal_digest =
            recorder.state().proposal_digest().ok_or_else(|| missing("request"))?;
        let tool_call_id = ToolCallId(self.clock.new_id());
        let key = request.idempotency_key.clone().map_or(KeyAction::None, |idempotency_key| {
            let slot = slot_of(request, idempotency_key);
            let reservation = Reservation { slot, request_digest: proposal_digest, tool_call_id };
            match request.run {
                // A repeated attempt gets the result that it got before, whatever that was.
                Some(_) => KeyAction::Reserve(reservation),
                None => KeyAction::Retake(reservation),
            }
        });
        let foreseen = recorder.state().effective_request().and_then(|request| {
            let args = preparation.args.as_ref().map_or(&request.proposal.args, FilledArgs::expose);
            self.connect.foresee(&preparation.target, &preparation.tool, args)
        });
        let call = ToolCall {
            foreseen,
            schema_id: ToolCall::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            artifact_id: ArtifactId(self.clock.new_id()),
            trace_id,
            ts,
            decision_digest: *decision_digest,
            tool_call_id,
            proposal_digest: recorder.state().effective_digest().unwrap_or(proposal_digest),
            idempotency_key: request.idempotency_key.clone(),
        };
        recorder.add(&Artifact::Call(call))?;
        Ok(key)
    }

    /// Records the effect of a call and releases the lease of its trace in one transaction.
    pub(crate) fn settle(
        &self,
        mut recorder: CallRecorder,
        settlement: Settlement,
        redispatches: Vec<Redispatch>,
    ) -> Result<CallReport, GatewayError> {
        let ts = self.clock.now();
        let effect = self.effect(&recorder, settlement, redispatches.clone(), ts)?;
        recorder.add(&Artifact::Effect(effect))?;
        recorder.commit(KeyAction::None, After::Release)?;
        Ok(CallReport::of(recorder.into_state(), redispatches))
    }
}

/// The question of a call that asks a person.
fn question_to_person(
    request: &ActionRequest,
    preparation: Option<&Preparation>,
) -> Option<String> {
    preparation.filter(|preparation| preparation.target == Target::Person)?;
    request.proposal.args.get("question")?.as_str().map(str::to_owned)
}
