//! Programs as executors: JSON on standard input, one JSON object on standard output.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_connect::{Job, Limits, Reply, Target};
use windlass_kernel::run::plan::{Check, Effect};
use windlass_kernel::run::{Failure, Usage};
use windlass_kernel::{Code, RiskLevel, ToolCallId, canon};

use super::brief::brief;
use super::{ANSWER_BYTES_MAX, Executors};
use crate::error::EngineError;
use crate::phase_executor::{Answer, Assignment, PhaseRecorder, Subject, WorkResult};

/// How much of a program's output is kept as a reason.
const REASON_CHARS_MAX: usize = 1500;

impl Executors {
    /// Runs a program: on record before it starts and after it ends.
    pub(super) fn run_command(
        &self,
        argv: &[String],
        timeout: Duration,
        assignment: &Assignment,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult, EngineError> {
        let program = argv.first().cloned().unwrap_or_default();
        let invocation = recorder.invocation_started(assignment, &program, "command", None)?;
        let began = Instant::now();
        let timeout = assignment.time_left.map_or(timeout, |left| timeout.min(left));
        let target = Target::Command {
            argv: argv.to_vec(),
            stdin: Some(format!("{}\n", brief(assignment))),
            env: BTreeMap::new(),
            cwd: assignment.workspace.clone(),
        };
        // What it runs may be the work of an agent.
        let confinement = self.gateways.confinement(&assignment.workspace);
        let reply = self.connect.perform(&Job {
            confinement: confinement.as_ref(),
            target: &target,
            tool: "",
            args: &Value::Null,
            class: RiskLevel::Write,
            tool_call_id: ToolCallId(self.clock.new_id()),
            idempotency_key: None,
            limits: Limits { timeout, output_bytes_max: ANSWER_BYTES_MAX },
        });
        let result = match (&assignment.subject, reply) {
            (Subject::Work, reply) => worked(reply),
            (Subject::Check(check), reply) => checked(reply, check),
        };
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (ended, usage, note) = result.invocation();
        recorder.invocation_ended(invocation, ended, usage, duration_ms, &note);
        // What it used is recorded with the invocation; the phase must not count it again.
        Ok(result.using(Usage::default()))
    }
}

fn stdout(result: &Value) -> &str {
    result.get("stdout").and_then(Value::as_str).unwrap_or_default()
}

/// The one JSON object that a program has printed, if it has.
fn object(text: &str) -> Option<Value> {
    let value = canon::parse(text.trim().as_bytes(), ANSWER_BYTES_MAX).ok()?;
    value.is_object().then_some(value)
}

/// The answer of a phase's program.
fn worked(reply: Reply) -> WorkResult {
    match reply {
        Reply::Success { result } => match object(stdout(&result)) {
            Some(answer) => match usage(&answer) {
                Ok(usage) => WorkResult::answer(answer).using(usage),
                Err(reason) => WorkResult::failed("validation_error", reason),
            },
            None => WorkResult::failed(
                "validation_error",
                format!("the program printed no JSON object: {}", tail(&result)),
            ),
        },
        Reply::Failure { code, message, result, .. } => {
            let class = if code == Code::ToolTimeout { "timeout" } else { "critical_failure" };
            let words = result.as_ref().map(tail).unwrap_or_default();
            let answer = result.as_ref().and_then(|result| object(stdout(result)));
            let reason = format!("{message}: {words}");
            WorkResult::Finished(Answer {
                answer: answer.unwrap_or_else(|| json!({})),
                failure: Some(Failure { class: class.to_owned(), reason }),
                usage: Usage::default(),
            })
        }
    }
}

/// The verdict of a check's program: the one it prints, or what its exit says.
fn checked(reply: Reply, check: &Check) -> WorkResult {
    let plain = |verdict: &str, result: &Value| {
        let reason = tail(result);
        let findings = if verdict == "pass" { json!([]) } else { json!([reason]) };
        json!({"verdict": verdict, "reason": reason, "findings": findings})
    };
    match reply {
        Reply::Success { result } => match said(&result) {
            Ok(Some(answer)) => WorkResult::answer(answer),
            Ok(None) => WorkResult::answer(plain("pass", &result)),
            Err(reason) => WorkResult::failed("validation_error", reason),
        },
        Reply::Failure { code: Code::ToolFailed, result: Some(result), .. } => {
            let answer = match said(&result) {
                Ok(answer) => answer.unwrap_or_else(|| plain("fail", &result)),
                Err(reason) => return WorkResult::failed("validation_error", reason),
            };
            // A program that failed cannot have passed, whatever it printed.
            let verdict = answer.get("verdict").and_then(Value::as_str).unwrap_or_default();
            if verdict == "pass" || check.verdicts.get(verdict) == Some(&Effect::Continue) {
                let reason = format!("it says `{verdict}` and failed");
                return WorkResult::failed("validation_error", reason);
            }
            WorkResult::answer(answer)
        }
        Reply::Failure { code, message, .. } => {
            let class = if code == Code::ToolTimeout { "test_timeout" } else { "critical_failure" };
            WorkResult::failed(class, message)
        }
    }
}

/// The answer that a check's program has printed, if it meant to give one.
fn said(result: &Value) -> Result<Option<Value>, String> {
    let text = stdout(result);
    match object(text) {
        Some(answer) => Ok(answer.get("verdict").is_some().then_some(answer)),
        // What was meant as a verdict must not turn into what its exit says.
        None if text.contains("\"verdict\"") => {
            Err("it printed a verdict that is not one JSON object by itself".to_owned())
        }
        None => Ok(None),
    }
}

/// The usage that an answer states.
fn usage(answer: &Value) -> Result<Usage, String> {
    match answer.get("usage") {
        None => Ok(Usage::default()),
        Some(stated) => {
            let number = |key: &str| match stated.get(key) {
                None => Ok(0),
                Some(value) => value.as_u64().ok_or(format!("`usage.{key}` is no count")),
            };
            Ok(Usage {
                cost_micros: number("cost_micros")?,
                input_tokens: number("input_tokens")?,
                output_tokens: number("output_tokens")?,
                unaccounted: stated.get("unaccounted") == Some(&Value::Bool(true)),
            })
        }
    }
}

/// The end of what a program has said.
fn tail(result: &Value) -> String {
    let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    let said = if text("stderr").is_empty() { text("stdout") } else { text("stderr") };
    let skip = said.chars().count().saturating_sub(REASON_CHARS_MAX);
    said.chars().skip(skip).collect()
}
