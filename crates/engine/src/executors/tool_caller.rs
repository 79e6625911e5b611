//! Tool calls of phases: every call goes through the gateway under its own idempotency key.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_connect::received_signal;
use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::artifact::ActionRequest;
use windlass_kernel::run::plan::{BudgetedResource, Phase};
use windlass_kernel::run::{CallRecord, Run, Usage, WaitsFor};
use windlass_kernel::{Call, Code, Digest, Machine, RiskLevel, State, Timestamp, TraceId};
use windlass_policy::{Judgement, Question};
use windlass_runtime::{CallLimits, CallReport, CallRequest, CallStreak, Gateway, GatewayError};
use windlass_store::TraceFilter;

use super::audit::Audit;
use super::subagent::{SUBAGENT_TOOL, Subagents};
use crate::error::EngineError;
use crate::gateway_provider::{GatewayProvider, ToolDefinition};
use crate::phase_executor::{Answer, Assignment, Subject, WorkResult};
use crate::stop::StopSwitch;

/// The maximum number of calls of one attempt.
const CALLS_MAX: usize = 10_000;

/// A request for a tool call.
#[derive(Clone, Debug)]
pub struct ToolRequest {
    /// The tool, as `server/tool`.
    pub tool: String,
    /// The arguments.
    pub args: Value,
    /// The purpose of the call.
    pub intent: String,
    /// The agent that requests it.
    pub agent: Option<String>,
    /// What tells this call from the others of its attempt, if the agent's client has such an id; otherwise the
    /// number of the call does.
    pub id: Option<String>,
}

/// A call that an earlier invocation of the same attempt made.
#[derive(Clone, Debug)]
pub struct EarlierCall {
    /// The tool, as `server/tool`.
    pub tool: String,
    /// The arguments.
    pub args: Value,
    /// The id that it had.
    pub id: String,
    /// When it was requested.
    pub requested: Timestamp,
    /// When its end was recorded, if that was before the interruption.
    pub ended: Option<Timestamp>,
    /// Its end.
    pub report: Box<CallReport>,
}

/// The result of a call for which no working time is left.
fn out_of_time() -> CallResult {
    WorkResult::Waiting {
        waits_for: WaitsFor::Budget { resource: BudgetedResource::WallMs },
        evidence: Value::Null,
        question: "the working time is used up".to_owned(),
        usage: Usage::default(),
    }
}

/// The result of a call: its report, or the reason why the request is not a valid call.
pub type CallResult = WorkResult<Result<Box<CallReport>, String>>;

/// The loop-specific rules for agents: which model they use, which answers and calls are allowed.
pub trait AgentGuard: Send + Sync {
    /// Whether the guard applies to this run.
    fn applies_to(&self, run: &Run) -> bool;

    /// The model for an agent of this phase.
    ///
    /// # Errors
    /// The reason, for a person, why the agent must not run.
    fn model_for(&self, run: &Run, phase: &Phase) -> Result<String, String>;

    /// Checks the answer of an agent.
    ///
    /// # Errors
    /// The reason, for a person, why the answer is refused.
    fn check_answer(&self, answer: &Value) -> Result<(), String>;

    /// Checks a call of an agent, in addition to the policy.
    ///
    /// # Errors
    /// The reason, for a person, why the call is refused.
    fn check_call(
        &self,
        assignment: &Assignment,
        class: RiskLevel,
        judgement: Option<&Judgement>,
    ) -> Result<(), String>;
}

/// Makes the calls of one attempt.
///
/// The key of a call consists of run, phase, attempt and the number of the call. So an attempt that is
/// repeated after a crash gets the recorded effects of its earlier calls and makes only the others.
pub struct ToolCaller<'a> {
    pub(super) gateway: Arc<Gateway>,
    pub(super) gateways: &'a dyn GatewayProvider,
    pub(super) stop: &'a StopSwitch,
    pub(super) assignment: &'a Assignment,
    pub(super) guard: Option<&'a dyn AgentGuard>,
    pub(super) prefix: String,
    pub(super) run_id: String,
    /// The number of requested calls.
    pub(super) requested: AtomicUsize,
    pub(super) calls: Mutex<Vec<CallRecord>>,
    pub(super) limits: CallLimits,
    pub(super) streak: Mutex<CallStreak>,
    /// When the work began, for the budget of working time.
    pub(super) began: Instant,
    pub(super) audit: Option<Arc<Audit<'a>>>,
    /// What starts the subagents of the agent.
    pub(super) subagents: Option<Subagents<'a>>,
}

impl<'a> ToolCaller<'a> {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        gateways: &'a dyn GatewayProvider,
        stop: &'a StopSwitch,
        assignment: &'a Assignment,
        guard: Option<&'a dyn AgentGuard>,
        limits: CallLimits,
    ) -> Self {
        let run = assignment.run.started.as_ref();
        let run_id = run.map(|started| started.run_id.clone()).unwrap_or_default();
        let subject = match &assignment.subject {
            Subject::Work => String::new(),
            Subject::Check(check) => format!("/{}", check.id),
        };
        let prefix = format!("{run_id}/{}{subject}/{}", assignment.phase.id, assignment.attempt);
        let (requested, calls) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let guard = guard.filter(|guard| guard.applies_to(&assignment.run));
        let streak = Mutex::default();
        Self {
            gateway,
            gateways,
            stop,
            assignment,
            guard,
            prefix,
            run_id,
            requested,
            calls,
            limits,
            streak,
            began: Instant::now(),
            audit: None,
            subagents: None,
        }
    }

    /// The working time that the run has left, if it is limited.
    pub(super) fn time_left(&self) -> Option<Duration> {
        self.assignment.time_left.map(|left| left.saturating_sub(self.began.elapsed()))
    }

    /// Audits the calls.
    pub(crate) fn audited(mut self, audit: Option<Audit<'a>>) -> Self {
        self.audit = audit.map(Arc::new);
        self
    }

    fn streak(&self) -> MutexGuard<'_, CallStreak> {
        self.streak.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of the attempt: a failure if its calls were broken off, whatever else was made of them.
    pub(crate) fn end(&self, result: WorkResult) -> WorkResult {
        if let Some(reason) = self.audit.as_deref().and_then(Audit::blocked) {
            let usage = result.invocation().1;
            return WorkResult::failed("audit_blocked", reason).with_usage(usage);
        }
        match (&self.streak().broken, result) {
            (Some(reason), WorkResult::Finished(Answer { usage, .. })) => {
                WorkResult::failed("tool_failure", reason.clone()).with_usage(usage)
            }
            (Some(reason), WorkResult::Waiting { usage, .. }) => {
                WorkResult::failed("tool_failure", reason.clone()).with_usage(usage)
            }
            (Some(_), stopped @ WorkResult::Stopped { .. }) => stopped,
            (None, result) => result,
        }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`EngineError`] if it cannot be recorded.
    pub fn call(&self, request: ToolRequest) -> Result<CallResult, EngineError> {
        if self.stop.requested(Some(&self.run_id)).is_some() {
            return Ok(WorkResult::stopped());
        }
        if let Some(reason) = &self.streak().broken {
            return Ok(WorkResult::Finished(Err(reason.clone())));
        }
        if self.time_left() == Some(Duration::ZERO) {
            return Ok(out_of_time());
        }
        if let Some(audit) = &self.audit {
            match audit.before(&request)?.finished() {
                Ok(None) => {}
                Ok(Some(reason)) => return Ok(WorkResult::Finished(Err(reason))),
                Err(unfinished) => return Ok(unfinished),
            }
        }
        // Counted on request, so that no two calls share a key.
        let number = self.requested.fetch_add(1, Ordering::SeqCst) + 1;
        if number > CALLS_MAX {
            let reason = format!("an attempt may make at most {CALLS_MAX} calls");
            return Ok(WorkResult::Finished(Err(reason)));
        }
        let (server, tool) = request.tool.split_once('/').unwrap_or((&request.tool, ""));
        let class = self.gateways.class_of(server, tool).unwrap_or(RiskLevel::Write);
        let key = match &request.id {
            Some(id) => self.key_of(id),
            None => format!("{}/{number}", self.prefix),
        };
        let starts_agent =
            (request.tool == SUBAGENT_TOOL).then(|| (request.args.clone(), key.clone()));
        let request = CallRequest {
            server: server.to_owned(),
            tool: tool.to_owned(),
            args: request.args,
            intent: intent(&self.gateway.without_secrets(&request.intent), &request.tool),
            resources: Vec::new(),
            declared_class: class,
            key: Some(key),
            plan_id: Some(self.assignment.plan_id),
            agent: request.agent,
            phase: Some(self.assignment.phase.id.clone()),
            run: Some(self.assignment.run.head.trace_id),
        };
        let broken = self.streak().request(self.limits, &request);
        let by_guard = || Some((Code::PolicyDenied, self.refusal_by_guard(&request)?));
        let of_agent = || {
            let (args, key) = starts_agent.as_ref()?;
            self.subagent_refusal(args, key)
        };
        let report = match broken.or_else(by_guard).or_else(of_agent) {
            None => self.gateway.call_within(request, self.time_left()),
            Some((code, reason)) => self.gateway.refuse(request, code, reason),
        };
        let report = match report {
            Ok(report) => report,
            // An invalid request is a mistake of the agent; the run can continue.
            Err(GatewayError::Request(error)) => {
                let reason = match std::error::Error::source(&error) {
                    Some(cause) => format!("{error}: {cause}"),
                    None => error.to_string(),
                };
                return Ok(WorkResult::Finished(Err(reason)));
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(hold) = &report.hold {
            let question = format!("{}: {}", report.tool, hold.reason);
            let (waits_for, usage) = (WaitsFor::Call { call: report.trace_id }, Usage::default());
            let mut evidence = serde_json::to_value(&hold.view).unwrap_or_default();
            // The hold is the run's own.
            drop(evidence.as_object_mut().map(|view| view.remove("run")));
            return Ok(WorkResult::Waiting { waits_for, evidence, question, usage });
        }
        // A call that was interrupted because of the budget is for a person to decide about.
        if report.state == State::Failed && self.time_left() == Some(Duration::ZERO) {
            return Ok(out_of_time());
        }
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(record_of(&report));
        let result = match starts_agent.filter(|_| report.state == State::Completed) {
            Some((args, key)) => self.run_subagent(report, &args, &key)?,
            None => WorkResult::Finished(Ok(Box::new(report))),
        };
        if let WorkResult::Finished(Ok(report)) = &result {
            self.streak().ended(report.state);
        }
        Ok(result)
    }

    /// The key of a call with this id. A long id is replaced by its digest, because keys are short.
    fn key_of(&self, id: &str) -> String {
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/';
        if (1..=64).contains(&id.len()) && id.bytes().all(plain) {
            return format!("{}/id:{id}", self.prefix);
        }
        format!("{}/id:{}", self.prefix, Digest::of(id.as_bytes()).hex().as_str())
    }

    /// The calls that earlier invocations of this attempt made with an id, oldest first. Those that were
    /// interrupted are completed.
    ///
    /// # Errors
    /// [`EngineError`] if the journal cannot be read or written.
    pub fn earlier_calls(&self) -> Result<WorkResult<Vec<EarlierCall>>, EngineError> {
        let mut calls = Vec::new();
        for RecordedCall { trace_id, request, ended } in self.recorded_calls()? {
            let Some(id) = self.id_of(&request) else { continue };
            let tool = format!("{}/{}", request.proposal.tool_server, request.proposal.tool_name);
            let shown = self.gateway.show(trace_id)?;
            // The answer of a subagent is in the run, or the subagent was interrupted.
            let starts_agent = tool == SUBAGENT_TOOL && shown.state == State::Completed;
            let report = if shown.state.is_terminal() && !starts_agent {
                self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(record_of(&shown));
                Box::new(shown)
            } else {
                let repeated = ToolRequest {
                    tool: tool.clone(),
                    args: request.proposal.args.clone(),
                    intent: request.intent.clone(),
                    agent: request.agent.clone(),
                    id: Some(id.clone()),
                };
                match self.call(repeated)?.finished() {
                    Ok(Ok(report)) => report,
                    // What can no longer be requested was never made.
                    Ok(Err(_)) => continue,
                    Err(unfinished) => return Ok(unfinished),
                }
            };
            let (args, requested) = (request.proposal.args, request.ts);
            calls.push(EarlierCall { tool, args, id, requested, ended, report });
        }
        Ok(WorkResult::Finished(calls))
    }

    /// The id of a request of this attempt.
    fn id_of(&self, request: &ActionRequest) -> Option<String> {
        let key = request.idempotency_key.as_deref()?;
        Some(key.strip_prefix(&self.prefix)?.strip_prefix("/id:")?.to_owned())
    }

    /// The recorded calls of this run, oldest first.
    fn recorded_calls(&self) -> Result<Vec<RecordedCall>, EngineError> {
        let store = self.gateway.store();
        let filter = TraceFilter {
            machine: Some(Machine::Call),
            plan_id: Some(self.assignment.plan_id),
            ..TraceFilter::all(usize::MAX)
        };
        let mut found = Vec::new();
        for state in store.list_traces(&filter).map_err(JournalError::from)?.iter().rev() {
            let trace_id = state.head.trace_id;
            let call = Reader::<Call>::state_of(store, trace_id, Check::Verified)?;
            let ended = call.effect.as_ref().map(|effect| effect.ts);
            let recorded = |(request, _)| RecordedCall { trace_id, request, ended };
            found.extend(call.request.map(recorded));
        }
        Ok(found)
    }

    /// The reason why the guard refuses a call, if it does.
    fn refusal_by_guard(&self, request: &CallRequest) -> Option<String> {
        let guard = self.guard?;
        let question = Question {
            server: request.server.clone(),
            tool: request.tool.clone(),
            declared_class: Some(request.declared_class),
            args: request.args.clone(),
            has_key: request.key.is_some(),
            phase: request.phase.clone(),
            agent: request.agent.clone(),
        };
        let judgement = self.gateways.judgement(&self.assignment.workspace, &question);
        guard.check_call(self.assignment, request.declared_class, judgement.as_ref()).err()
    }

    /// Whether the stop switch of the run is on.
    ///
    /// # Errors
    /// [`EngineError`] if a signal asks Windlass to end.
    pub fn is_stopped(&self) -> Result<bool, EngineError> {
        if received_signal().is_some() {
            return Err(EngineError::interrupted(&self.assignment.run));
        }
        Ok(self.stop.requested(Some(&self.run_id)).is_some())
    }

    /// The tools that the agent of this attempt can be offered.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let mut all = self.gateways.definitions(&self.assignment.workspace);
        all.extend(self.subagent_tool(self.gateways));
        all
    }

    /// The calls that have ended.
    #[must_use]
    pub fn calls(&self) -> Vec<CallRecord> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A call of the run, as the journal has it.
struct RecordedCall {
    trace_id: TraceId,
    request: ActionRequest,
    ended: Option<Timestamp>,
}

/// What a phase records of an ended call.
fn record_of(report: &CallReport) -> CallRecord {
    CallRecord {
        entry_digest: report.latest_entry_digest,
        state: report.state,
        tool: report.tool.clone(),
        trace_id: report.trace_id,
    }
}

/// Returns an intent of a length that the gateway accepts.
fn intent(text: &str, tool: &str) -> String {
    let text: String = text.trim().chars().take(1000).collect();
    if text.chars().count() >= 10 { text } else { format!("call {tool} as the phase asks: {text}") }
}

/// Describes the failure of an ended call for a person; `None` if it completed.
#[must_use]
pub fn failure_reason(report: &CallReport) -> Option<String> {
    if report.state == State::Completed {
        return None;
    }
    let refusal =
        report.refusal.as_ref().map(|refusal| format!("[{}] {}", refusal.code, refusal.reason));
    let error = report.error.as_ref().map(|error| {
        let effect = if error.may_have_run { "; it may have taken effect anyway" } else { "" };
        format!("[{}] {}{effect}", error.code, error.message)
    });
    let text = |key: &str| report.result.get(key).and_then(Value::as_str).unwrap_or_default();
    let output = if text("stderr").trim().is_empty() { text("stdout") } else { text("stderr") };
    let mut last: Vec<&str> = output.trim().lines().rev().take(5).collect();
    last.reverse();
    let reason = refusal.or(error).unwrap_or_else(|| report.state.to_string());
    let output = if last.is_empty() { String::new() } else { format!(": {}", last.join(" | ")) };
    Some(format!("{} {}: {reason}{output}", report.tool, report.state))
}
