//! The `script` runner: answers come from a file; tool calls are real.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use windlass_kernel::run::Usage;
use windlass_kernel::{Machine, State, canon};

use super::agent::{Agent, AgentJob, Runner};
use super::tool_caller::{ToolCaller, ToolRequest, failure_reason};
use crate::error::EngineError;
use crate::phase_executor::WorkResult;

/// The maximum size of a file of answers.
const BYTES_MAX: usize = 4 << 20;

/// The option of a run that has its answers.
pub const OPTION: &str = "answers";

/// A file of answers is not valid.
#[derive(Debug, Error)]
#[error("the answers are not valid: {reason}")]
pub struct ScriptError {
    reason: String,
}

/// Recorded answers by phase and attempt.
#[derive(Clone, Debug)]
pub struct Script {
    phases: BTreeMap<String, Vec<ScriptedAttempt>>,
    model: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The recorded model; the requested model if absent.
    #[serde(default)]
    model: Option<String>,
    phases: BTreeMap<String, Vec<ScriptedAttempt>>,
}

/// One attempt.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedAttempt {
    #[serde(default)]
    calls: Vec<ScriptedCall>,
    #[serde(default)]
    answer: Option<Value>,
    #[serde(default)]
    fail: Option<ScriptedFailure>,
    #[serde(default)]
    usage: ScriptedUsage,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    tool: String,
    #[serde(default)]
    args: Value,
    #[serde(default)]
    intent: String,
    /// The state that the call must end in.
    #[serde(default = "completed")]
    expect: State,
}

const fn completed() -> State {
    State::Completed
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedFailure {
    class: String,
    reason: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScriptedUsage {
    input_tokens: u64,
    output_tokens: u64,
    cost_micros: u64,
    unaccounted: bool,
}

impl Script {
    /// Parses a file of answers; unknown fields are refused.
    ///
    /// # Errors
    /// [`ScriptError`] if it is not valid.
    pub fn parse(bytes: &[u8]) -> Result<Self, ScriptError> {
        let fault = |reason: String| ScriptError { reason };
        let value = canon::parse(bytes, BYTES_MAX).map_err(|error| fault(error.to_string()))?;
        if !has_objects(&value) {
            return Err(fault("a list is used instead of an object".to_owned()));
        }
        let file: File = serde_json::from_value(value).map_err(|error| fault(error.to_string()))?;
        for (phase, attempts) in &file.phases {
            for (at, scripted) in attempts.iter().enumerate() {
                let place = format!("phase `{phase}`, attempt {}", at + 1);
                match (&scripted.answer, &scripted.fail) {
                    (Some(Value::Object(_)), None) | (None, Some(_)) => {}
                    (Some(_), None) => {
                        return Err(fault(format!("{place}: the answer is not an object")));
                    }
                    (Some(_), Some(_)) | (None, None) => {
                        return Err(fault(format!(
                            "{place} needs exactly one of `answer` and `fail`"
                        )));
                    }
                }
                for call in &scripted.calls {
                    if call.tool.split_once('/').is_none_or(|(server, tool)| {
                        server.is_empty() || tool.is_empty() || tool.contains('/')
                    }) {
                        return Err(fault(format!(
                            "{place}: `{}` is not of the form server/tool",
                            call.tool
                        )));
                    }
                    if !(call.args.is_null() || call.args.is_object()) {
                        return Err(fault(format!("{place}: the arguments are not an object")));
                    }
                    if !call.expect.is_terminal() || call.expect.machine() != Machine::Call {
                        return Err(fault(format!(
                            "{place}: a call cannot be expected to end {}",
                            call.expect
                        )));
                    }
                }
            }
        }
        Ok(Self { phases: file.phases, model: file.model })
    }

    /// The answers that a run was started with, if any. They are recorded in the journal, so that the run
    /// does not depend on a file that may change.
    pub fn recorded(options: &Value) -> Option<Result<Self, ScriptError>> {
        let answers = options.get(OPTION)?;
        let bytes =
            canon::to_bytes(answers).map_err(|error| ScriptError { reason: error.to_string() });
        Some(bytes.and_then(|bytes| Self::parse(&bytes)))
    }
}

/// Whether no list is used instead of an object: serde would accept a list of the fields.
fn has_objects(file: &Value) -> bool {
    // Borrowed: the calls of a long run need not be in memory twice.
    fn list(value: Option<&Value>) -> &[Value] {
        value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    let phases = file.get("phases").and_then(Value::as_object);
    let no_list = |value: Option<&Value>| !value.is_some_and(Value::is_array);
    let sound = |scripted: &Value| {
        no_list(Some(scripted))
            && no_list(scripted.get("fail"))
            && no_list(scripted.get("usage"))
            && list(scripted.get("calls")).iter().all(|call| no_list(Some(call)))
    };
    no_list(Some(file))
        && phases.is_none_or(|phases| {
            phases.values().all(|attempts| list(Some(attempts)).iter().all(sound))
        })
}

impl Runner for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn model(&self, agent: &Agent) -> Option<String> {
        self.model.clone().or_else(|| agent.model.clone())
    }

    fn run(&self, job: &AgentJob<'_>, tools: &ToolCaller<'_>) -> Result<WorkResult, EngineError> {
        let at = usize::try_from(job.attempt).unwrap_or(usize::MAX).saturating_sub(1);
        // Each of several agents in one phase may have its own answers.
        let own = self.phases.get(&format!("{}/{}", job.phase, job.agent.name));
        // Those of the phase are not those of its subagents.
        let attempts = own.or_else(|| self.phases.get(job.phase).filter(|_| job.subtask.is_none()));
        let scripted = attempts.and_then(|attempts| attempts.get(at));
        let Some(scripted) = scripted else {
            let reason = format!(
                "the answers have no entry for attempt {} of phase `{}`",
                job.attempt, job.phase
            );
            return Ok(WorkResult::failed("validation_error", reason));
        };
        let usage = Usage {
            cost_micros: scripted.usage.cost_micros,
            input_tokens: scripted.usage.input_tokens,
            output_tokens: scripted.usage.output_tokens,
            unaccounted: scripted.usage.unaccounted,
        };
        for call in &scripted.calls {
            let reply = tools.call(ToolRequest {
                tool: call.tool.clone(),
                args: if call.args.is_null() { serde_json::json!({}) } else { call.args.clone() },
                intent: call.intent.clone(),
                agent: Some(job.agent.name.clone()),
                id: None,
            })?;
            match reply.finished() {
                Ok(Ok(report)) if report.state == call.expect => {}
                Ok(Ok(report)) => {
                    let reason = failure_reason(&report).unwrap_or_else(|| {
                        format!("{} ended {}, not {}", report.tool, report.state, call.expect)
                    });
                    return Ok(WorkResult::failed("tool_failure", reason).with_usage(usage));
                }
                Ok(Err(reason)) => {
                    return Ok(WorkResult::failed("validation_error", reason).with_usage(usage));
                }
                // The attempt runs again later; its usage is counted when it ends.
                Err(unfinished) => return Ok(unfinished),
            }
        }
        let result = match (&scripted.answer, &scripted.fail) {
            (Some(answer), _) => WorkResult::answer(answer.clone()),
            (None, Some(fail)) => WorkResult::failed(&fail.class, fail.reason.clone()),
            (None, None) => {
                WorkResult::failed("unknown", "the answers have neither an answer nor a failure")
            }
        };
        Ok(result.with_usage(usage))
    }
}
