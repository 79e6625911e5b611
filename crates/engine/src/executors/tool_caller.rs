//! The tools of those at work: every call goes through the gateway, under a key of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use windlass_kernel::run::plan::Phase;
use windlass_kernel::run::{CallRecord, Run, Usage};
use windlass_kernel::{Code, RiskLevel, State};
use windlass_policy::{Judgement, Question};
use windlass_runtime::{CallReport, CallRequest, Gateway, GatewayError};

use crate::engine::GatewayProvider;
use crate::error::EngineError;
use crate::phase_executor::{Assignment, Subject, WorkResult};
use crate::stop::Stop;

/// The most calls of one try.
const CALLS_MAX: usize = 10_000;

/// A call that someone at work wants made.
#[derive(Clone, Debug)]
pub struct ToolRequest {
    /// The tool, as `server/tool`.
    pub tool: String,
    /// Its arguments.
    pub args: Value,
    /// What it is for.
    pub intent: String,
    /// Who asks.
    pub agent: Option<String>,
}

/// The result of a call: its report, or why it could not be recorded as a call at all.
pub type CallResult = WorkResult<Result<Box<CallReport>, String>>;

/// Stands before everything that agents do in the runs of a loop with rules of its own.
pub trait Guard: Send + Sync {
    /// Whether the run is one of its loop's.
    fn minds(&self, run: &Run) -> bool;

    /// The model that an agent of this phase works with; a refusal is why it may not work at all.
    ///
    /// # Errors
    /// Why not, for a person.
    fn admits(&self, run: &Run, phase: &Phase) -> Result<String, String>;

    /// Whether an agent's answer may be taken at all.
    ///
    /// # Errors
    /// Why not, for a person.
    fn takes(&self, answer: &Value) -> Result<(), String>;

    /// Whether a call may be made; policy judges it too.
    ///
    /// # Errors
    /// Why not, for a person.
    fn permits(
        &self,
        assignment: &Assignment,
        class: RiskLevel,
        judgement: Option<&Judgement>,
    ) -> Result<(), String>;
}

/// Makes the calls of one try.
///
/// The key of a call is made of run, phase, try and the call's place in it. So a try that is done
/// again after a crash gets the recorded effects of the calls it made before, and makes the others.
pub struct ToolCaller<'a> {
    gateway: Arc<Gateway>,
    gateways: &'a dyn GatewayProvider,
    stop: &'a Stop,
    assignment: &'a Assignment,
    guard: Option<&'a dyn Guard>,
    prefix: String,
    run_id: String,
    /// How many calls were asked for.
    asked: AtomicUsize,
    calls: Mutex<Vec<CallRecord>>,
}

impl<'a> ToolCaller<'a> {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        gateways: &'a dyn GatewayProvider,
        stop: &'a Stop,
        assignment: &'a Assignment,
        guard: Option<&'a dyn Guard>,
    ) -> Self {
        let run = assignment.run.started.as_ref();
        let run_id = run.map(|started| started.run_id.clone()).unwrap_or_default();
        let subject = match &assignment.subject {
            Subject::Work => String::new(),
            Subject::Check(check) => format!("/{}", check.id),
        };
        let prefix = format!("{run_id}/{}{subject}/{}", assignment.phase.id, assignment.attempt);
        let (asked, calls) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let guard = guard.filter(|guard| guard.minds(&assignment.run));
        Self { gateway, gateways, stop, assignment, guard, prefix, run_id, asked, calls }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be recorded.
    pub fn call(&self, request: ToolRequest) -> Result<CallResult, EngineError> {
        if self.stop.requested(Some(&self.run_id)).is_some() {
            return Ok(WorkResult::Stopped);
        }
        // Counted when it is asked for, so that no two calls ever get one key.
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        if number > CALLS_MAX {
            let reason = format!("a try makes at most {CALLS_MAX} calls");
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
        };
        let report = match self.objection(&request) {
            None => self.gateway.call(request),
            Some(reason) => self.gateway.refuse(request, Code::PolicyDenied, reason),
        };
        let report = match report {
            Ok(report) => report,
            // Whoever asks for what is no call has made a mistake; the run can go on from that.
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
            return Ok(WorkResult::Waiting { call, question, usage });
        }
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(CallRecord {
            entry_digest: report.latest_entry_digest,
            state: report.state,
            tool: report.tool.clone(),
            trace_id: report.trace_id,
        });
        Ok(WorkResult::Finished(Ok(Box::new(report))))
    }

    /// Why the loop's guard does not permit a call, if it does not.
    fn objection(&self, request: &CallRequest) -> Option<String> {
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
        guard.permits(self.assignment, request.declared_class, judgement.as_ref()).err()
    }

    /// The calls that have ended.
    #[must_use]
    pub fn calls(&self) -> Vec<CallRecord> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An intent that the gateway takes.
fn intent(text: &str, tool: &str) -> String {
    let text: String = text.trim().chars().take(1000).collect();
    if text.chars().count() >= 10 { text } else { format!("call {tool} as the phase asks: {text}") }
}

/// What went wrong with a call that has ended, for a person; `None` when it did well.
#[must_use]
pub fn complaint(report: &CallReport) -> Option<String> {
    if report.state == State::Completed {
        return None;
    }
    let refusal =
        report.refusal.as_ref().map(|refusal| format!("[{}] {}", refusal.code, refusal.reason));
    let error = report.error.as_ref().map(|error| format!("[{}] {}", error.code, error.message));
    let text = |key: &str| report.result.get(key).and_then(Value::as_str).unwrap_or_default();
    let said = if text("stderr").trim().is_empty() { text("stdout") } else { text("stderr") };
    let mut last: Vec<&str> = said.trim().lines().rev().take(5).collect();
    last.reverse();
    let why = refusal.or(error).unwrap_or_else(|| report.state.to_string());
    let said = if last.is_empty() { String::new() } else { format!(": {}", last.join(" | ")) };
    Some(format!("{} {}: {why}{said}", report.tool, report.state))
}
