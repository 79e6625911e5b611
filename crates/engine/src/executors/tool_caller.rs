//! Tool calls of phases: every call goes through the gateway under its own idempotency key.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use windlass_kernel::run::plan::Phase;
use windlass_kernel::run::{CallRecord, Run, Usage};
use windlass_kernel::{Code, Digest, RiskLevel, State};
use windlass_policy::{Judgement, Question};
use windlass_runtime::{CallReport, CallRequest, Gateway, GatewayError};

use crate::error::EngineError;
use crate::gateway_provider::GatewayProvider;
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

/// When the calls of an attempt are broken off; 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// How often the same call may be made in a row.
    pub identical_max: u32,
    /// How many calls in a row may be denied.
    pub denied_max: u32,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { identical_max: 5, denied_max: 10 }
    }
}

/// The calls in a row that lead nowhere. A repeated attempt makes the same calls, so it counts the same.
#[derive(Default)]
struct Streak {
    /// The digest of the last call's tool and arguments.
    last: Option<Digest>,
    identical: u32,
    denied: u32,
    /// Why the attempt makes no more calls.
    broken: Option<String>,
}

impl Streak {
    /// Counts a request; returns why it is refused.
    fn request(&mut self, limits: CallLimits, request: &CallRequest) -> Option<(Code, String)> {
        let text = serde_json::json!([request.server, request.tool, request.args]).to_string();
        let digest = Digest::of(text.as_bytes());
        self.identical = if self.last == Some(digest) { self.identical + 1 } else { 1 };
        self.last = Some(digest);
        let CallLimits { identical_max, denied_max } = limits;
        let refusal = if identical_max > 0 && self.identical > identical_max {
            let reason = format!(
                "this call was made {identical_max} times in a row with the same arguments, and its result \
                 will not change: use what it returned, change the arguments, or finish and say what is missing"
            );
            Some((Code::CallsRepeated, reason))
        } else if denied_max > 0 && self.denied >= denied_max {
            let reason = format!(
                "{denied_max} calls in a row were denied: do what the reasons of the denials say, or finish \
                 and say which permission is missing"
            );
            Some((Code::DenialsRepeated, reason))
        } else {
            None
        };
        self.broken = refusal.as_ref().map(|(code, reason)| format!("[{code}] {reason}"));
        refusal
    }

    /// Counts the end of a call.
    const fn ended(&mut self, state: State) {
        self.denied = if matches!(state, State::Denied) { self.denied + 1 } else { 0 };
    }
}

/// Makes the calls of one attempt.
///
/// The key of a call consists of run, phase, attempt and the number of the call. So an attempt that is
/// repeated after a crash gets the recorded effects of its earlier calls and makes only the others.
pub struct ToolCaller<'a> {
    gateway: Arc<Gateway>,
    gateways: &'a dyn GatewayProvider,
    stop: &'a StopSwitch,
    assignment: &'a Assignment,
    guard: Option<&'a dyn AgentGuard>,
    prefix: String,
    run_id: String,
    /// The number of requested calls.
    requested: AtomicUsize,
    calls: Mutex<Vec<CallRecord>>,
    limits: CallLimits,
    streak: Mutex<Streak>,
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
        }
    }

    fn streak(&self) -> MutexGuard<'_, Streak> {
        self.streak.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of the attempt: a failure if its calls were broken off, whatever else was made of them.
    pub(crate) fn end(&self, result: WorkResult) -> WorkResult {
        match (&self.streak().broken, result) {
            (Some(reason), WorkResult::Finished(Answer { usage, .. })) => {
                WorkResult::failed("tool_failure", reason.clone()).with_usage(usage)
            }
            (Some(reason), WorkResult::Waiting { usage, .. }) => {
                WorkResult::failed("tool_failure", reason.clone()).with_usage(usage)
            }
            (Some(_), WorkResult::Stopped) => WorkResult::Stopped,
            (None, result) => result,
        }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`EngineError`] if it cannot be recorded.
    pub fn call(&self, request: ToolRequest) -> Result<CallResult, EngineError> {
        if self.stop.requested(Some(&self.run_id)).is_some() {
            return Ok(WorkResult::Stopped);
        }
        if let Some(reason) = &self.streak().broken {
            return Ok(WorkResult::Finished(Err(reason.clone())));
        }
        // Counted on request, so that no two calls share a key.
        let number = self.requested.fetch_add(1, Ordering::SeqCst) + 1;
        if number > CALLS_MAX {
            let reason = format!("an attempt may make at most {CALLS_MAX} calls");
            return Ok(WorkResult::Finished(Err(reason)));
        }
        let (server, tool) = request.tool.split_once('/').unwrap_or((&request.tool, ""));
        let class = self.gateways.class_of(server, tool).unwrap_or(RiskLevel::Write);
        let request = CallRequest {
            server: server.to_owned(),
            tool: tool.to_owned(),
            args: request.args,
            intent: intent(&request.intent, &request.tool),
            resources: Vec::new(),
            declared_class: class,
            key: Some(format!("{}/{number}", self.prefix)),
            plan_id: Some(self.assignment.plan_id),
            agent: request.agent,
            phase: Some(self.assignment.phase.id.clone()),
            run: Some(self.assignment.run.head.trace_id),
        };
        let broken = self.streak().request(self.limits, &request);
        let by_guard = || Some((Code::PolicyDenied, self.refusal_by_guard(&request)?));
        let report = match broken.or_else(by_guard) {
            None => self.gateway.call(request),
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
            let (call, usage) = (report.trace_id, Usage::default());
            let mut evidence = serde_json::to_value(&hold.view).unwrap_or_default();
            // The hold is the run's own.
            drop(evidence.as_object_mut().map(|view| view.remove("run")));
            return Ok(WorkResult::Waiting { call, evidence, question, usage });
        }
        self.streak().ended(report.state);
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(CallRecord {
            entry_digest: report.latest_entry_digest,
            state: report.state,
            tool: report.tool.clone(),
            trace_id: report.trace_id,
        });
        Ok(WorkResult::Finished(Ok(Box::new(report))))
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

    /// The calls that have ended.
    #[must_use]
    pub fn calls(&self) -> Vec<CallRecord> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
    let error = report.error.as_ref().map(|error| format!("[{}] {}", error.code, error.message));
    let text = |key: &str| report.result.get(key).and_then(Value::as_str).unwrap_or_default();
    let output = if text("stderr").trim().is_empty() { text("stdout") } else { text("stderr") };
    let mut last: Vec<&str> = output.trim().lines().rev().take(5).collect();
    last.reverse();
    let reason = refusal.or(error).unwrap_or_else(|| report.state.to_string());
    let output = if last.is_empty() { String::new() } else { format!(": {}", last.join(" | ")) };
    Some(format!("{} {}: {reason}{output}", report.tool, report.state))
}
