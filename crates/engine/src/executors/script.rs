//! The `script` runner: answers come from a file; tool calls are real.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::run::Usage;
use windlass_kernel::{Machine, State};

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

/// A file of answers, as far as it is read at once: each part is a value of its own, which is read strictly when it is
/// its turn. A file may have thousands of calls, which as values take ten times the memory of their text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileParts<'a> {
    /// The recorded model; the requested model if absent.
    #[serde(default, borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    phases: Members<'a>,
}

/// The members of an object, each with a name of its own.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, &RawValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry()? {
                    if members.iter().any(|(other, _)| *other == name) {
                        return Err(de::Error::custom(format!("duplicate key `{name}`")));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reading)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttemptParts<'a> {
    #[serde(default, borrow)]
    calls: Vec<&'a RawValue>,
    #[serde(default, borrow)]
    answer: Option<&'a RawValue>,
    #[serde(default, borrow)]
    fail: Option<&'a RawValue>,
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
}

/// One attempt.
#[derive(Clone, Debug)]
struct ScriptedAttempt {
    /// The text of each call, which is valid.
    calls: Vec<Box<RawValue>>,
    answer: Option<Value>,
    fail: Option<ScriptedFailure>,
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
        if bytes.len() > BYTES_MAX {
            let error = CanonError::TooLarge { bytes: bytes.len(), bytes_max: BYTES_MAX };
            return Err(fault(error));
        }
        let file: &RawValue = serde_json::from_slice(bytes).map_err(fault)?;
        let FileParts { model, phases: Members(members) } = object(file)?;
        let mut phases = BTreeMap::new();
        for (phase, attempts) in members {
            let attempts: Vec<&RawValue> = serde_json::from_str(attempts.get()).map_err(fault)?;
            let attempts = attempts.into_iter().enumerate().map(|(at, attempt)| {
                ScriptedAttempt::parse(attempt, &format!("phase `{phase}`, attempt {}", at + 1))
            });
            let attempts = attempts.collect::<Result<_, _>>()?;
            phases.insert(phase, attempts);
        }
        Ok(Self { phases, model: model.map(strict).transpose()? })
    }

    /// The answers that a run was started with, if any. They are recorded in the journal, so that the run
    /// does not depend on a file that may change.
    pub fn recorded(options: &Value) -> Option<Result<Self, ScriptError>> {
        let answers = options.get(OPTION)?;
        // Earlier versions recorded the value instead of its text.
        Some(match answers.as_str() {
            Some(text) => Self::parse(text.as_bytes()),
            None => canon::to_bytes(answers).map_err(fault).and_then(|bytes| Self::parse(&bytes)),
        })
    }

    /// Looks at all that is in it, one value after the other, until something is found.
    pub fn find<T>(&self, mut look: impl FnMut(&Value) -> Option<T>) -> Option<T> {
        let model = self.model.iter().cloned().map(Value::String);
        let names = self.phases.keys().cloned().map(Value::String);
        let attempts = || self.phases.values().flatten();
        let calls = attempts().flat_map(|attempt| &attempt.calls);
        // What is recorded was read before, so that none is left out.
        let calls = calls.filter_map(|call| serde_json::from_str(call.get()).ok());
        let answers = attempts().filter_map(|attempt| attempt.answer.clone());
        let fails = attempts().filter_map(|attempt| attempt.fail.as_ref());
        let fails = fails.flat_map(|fail| [fail.class.clone(), fail.reason.clone()]);
        let fails = fails.map(Value::String);
        model.chain(names).chain(calls).chain(answers).chain(fails).find_map(|value| look(&value))
    }
}

impl ScriptedAttempt {
    fn parse(text: &RawValue, place: &str) -> Result<Self, ScriptError> {
        let AttemptParts { calls, answer, fail, usage } = object(text)?;
        let answer: Option<Value> = answer.map(strict).transpose()?;
        match (&answer, &fail) {
            (Some(Value::Object(_)), None) | (None, Some(_)) => {}
            (Some(_), None) => return Err(fault(format!("{place}: the answer is not an object"))),
            (Some(_), Some(_)) | (None, None) => {
                return Err(fault(format!("{place} needs exactly one of `answer` and `fail`")));
            }
        }
        for call in &calls {
            ScriptedCall::parse(call)?.check(place)?;
        }
        Ok(Self {
            calls: calls.into_iter().map(ToOwned::to_owned).collect(),
            answer,
            fail: fail.map(strict_object).transpose()?,
            usage: usage.map(strict_object).transpose()?.unwrap_or_default(),
        })
    }
}

impl ScriptedCall {
    fn parse(text: &RawValue) -> Result<Self, ScriptError> {
        strict_object(text)
    }

    fn check(&self, place: &str) -> Result<(), ScriptError> {
        let is_named = |(server, tool): (&str, &str)| {
            !server.is_empty() && !tool.is_empty() && !tool.contains('/')
        };
        if !self.tool.split_once('/').is_some_and(is_named) {
            let tool = &self.tool;
            return Err(fault(format!("{place}: `{tool}` is not of the form server/tool")));
        }
        if !(self.args.is_null() || self.args.is_object()) {
            return Err(fault(format!("{place}: the arguments are not an object")));
        }
        if !self.expect.is_terminal() || self.expect.machine() != Machine::Call {
            let expect = self.expect;
            return Err(fault(format!("{place}: a call cannot be expected to end {expect}")));
        }
        Ok(())
    }
}

fn fault(reason: impl ToString) -> ScriptError {
    ScriptError { reason: reason.to_string() }
}

/// Reads an object whose parts are read later. serde would accept a list of the fields, too.
fn object<'a, T: Deserialize<'a>>(text: &'a RawValue) -> Result<T, ScriptError> {
    if text.get().starts_with('[') {
        return Err(fault("a list is used instead of an object"));
    }
    serde_json::from_str(text.get()).map_err(fault)
}

/// Reads a whole value strictly.
fn strict<T: DeserializeOwned>(text: &RawValue) -> Result<T, ScriptError> {
    let value = canon::parse(text.get().as_bytes(), BYTES_MAX).map_err(fault)?;
    serde_json::from_value(value).map_err(fault)
}

/// Reads a whole object strictly.
fn strict_object<T: DeserializeOwned>(text: &RawValue) -> Result<T, ScriptError> {
    object::<&RawValue>(text).and_then(strict)
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
            let call = match ScriptedCall::parse(call) {
                Ok(call) => call,
                Err(error) => {
                    return Ok(WorkResult::failed("validation_error", error.to_string()));
                }
            };
            let reply = tools.call(ToolRequest {
                tool: call.tool,
                args: if call.args.is_null() { serde_json::json!({}) } else { call.args },
                intent: call.intent,
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
