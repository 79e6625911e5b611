//! The `script` runner: answers from a file, tool calls for real.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use windlass_kernel::run::Usage;
use windlass_kernel::{Digest, Machine, State, canon};

use super::agent::{Agent, AgentJob, Runner};
use super::tool_caller::{ToolCaller, ToolRequest, complaint};
use crate::error::EngineError;
use crate::phase_executor::WorkResult;

/// The largest file of answers.
const BYTES_MAX: usize = 4 << 20;

/// The option of a run that holds its answers.
pub const OPTION: &str = "answers";

/// A file of answers that cannot be used.
#[derive(Debug, Error)]
#[error("the answers cannot be used: {reason}")]
pub struct ScriptError {
    reason: String,
}

/// Recorded answers, by phase and try.
#[derive(Clone, Debug)]
pub struct Script {
    phases: BTreeMap<String, Vec<Take>>,
    model: Option<String>,
    digest: Digest,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The model that the answers stand for; the one that is asked for when absent.
    #[serde(default)]
    model: Option<String>,
    phases: BTreeMap<String, Vec<Take>>,
}

/// One try.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Take {
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
    /// The state it must end in.
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
    /// Reads a file of answers: JSON, strictly.
    ///
    /// # Errors
    /// [`ScriptError`] when it is not one.
    pub fn parse(bytes: &[u8]) -> Result<Self, ScriptError> {
        let fault = |reason: String| ScriptError { reason };
        let value = canon::parse(bytes, BYTES_MAX).map_err(|error| fault(error.to_string()))?;
        if !has_objects(&value) {
            return Err(fault("a list stands where an object must".to_owned()));
        }
        let file: File = serde_json::from_value(value).map_err(|error| fault(error.to_string()))?;
        for (phase, takes) in &file.phases {
            for (at, take) in takes.iter().enumerate() {
                let place = format!("phase `{phase}`, try {}", at + 1);
                match (&take.answer, &take.fail) {
                    (Some(Value::Object(_)), None) | (None, Some(_)) => {}
                    (Some(_), None) => {
                        return Err(fault(format!("{place}: the answer is not an object")));
                    }
                    (Some(_), Some(_)) | (None, None) => {
                        return Err(fault(format!(
                            "{place} needs `answer` or `fail`, one of them"
                        )));
                    }
                }
                for call in &take.calls {
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
        Ok(Self { phases: file.phases, model: file.model, digest: Digest::of(bytes) })
    }

    /// The answers that a run was started with, if it was. They lie in the journal, so that the run
    /// does not depend on a file that may change.
    pub fn recorded(options: &Value) -> Option<Result<Self, ScriptError>> {
        let answers = options.get(OPTION)?;
        let bytes =
            canon::to_bytes(answers).map_err(|error| ScriptError { reason: error.to_string() });
        Some(bytes.and_then(|bytes| Self::parse(&bytes)))
    }

    /// The digest of the file.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

/// Whether objects stand where they must: a list of their fields would be read as one, too.
fn has_objects(file: &Value) -> bool {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let phases = file.get("phases").and_then(Value::as_object);
    let no_list = |value: Option<&Value>| !value.is_some_and(Value::is_array);
    let sound = |take: &Value| {
        no_list(Some(take))
            && no_list(take.get("fail"))
            && no_list(take.get("usage"))
            && list(take.get("calls")).iter().all(|call| no_list(Some(call)))
    };
    no_list(Some(file))
        && phases
            .is_none_or(|phases| phases.values().all(|takes| list(Some(takes)).iter().all(sound)))
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
        // Of several agents in one phase each may have answers of its own.
        let own = self.phases.get(&format!("{}/{}", job.phase, job.agent.name));
        let takes = own.or_else(|| self.phases.get(job.phase));
        let take = takes.and_then(|takes| takes.get(at));
        let Some(take) = take else {
            let reason = format!(
                "the answers have nothing for attempt {} of phase `{}`",
                job.attempt, job.phase
            );
            return Ok(WorkResult::failed("validation_error", reason));
        };
        let usage = Usage {
            cost_micros: take.usage.cost_micros,
            input_tokens: take.usage.input_tokens,
            output_tokens: take.usage.output_tokens,
            unaccounted: take.usage.unaccounted,
        };
        for call in &take.calls {
            let reply = tools.call(ToolRequest {
                tool: call.tool.clone(),
                args: if call.args.is_null() { serde_json::json!({}) } else { call.args.clone() },
                intent: call.intent.clone(),
                agent: Some(job.agent.name.clone()),
            })?;
            match reply {
                WorkResult::Finished(Ok(report)) if report.state == call.expect => {}
                WorkResult::Finished(Ok(report)) => {
                    let reason = complaint(&report).unwrap_or_else(|| {
                        format!("{} ended {}, not {}", report.tool, report.state, call.expect)
                    });
                    return Ok(WorkResult::failed("tool_failure", reason).using(usage));
                }
                WorkResult::Finished(Err(reason)) => {
                    return Ok(WorkResult::failed("validation_error", reason).using(usage));
                }
                // It will be performed again: what it used is counted when it ends.
                WorkResult::Waiting { call, question, usage } => {
                    return Ok(WorkResult::Waiting { call, question, usage });
                }
                WorkResult::Stopped => return Ok(WorkResult::Stopped),
            }
        }
        let result = match (&take.answer, &take.fail) {
            (Some(answer), _) => WorkResult::answer(answer.clone()),
            (None, Some(fail)) => WorkResult::failed(&fail.class, fail.reason.clone()),
            (None, None) => WorkResult::failed("unknown", "the answers say nothing"),
        };
        Ok(result.using(usage))
    }
}
