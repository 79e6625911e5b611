//! Agents and their runners.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_kernel::Digest;
use windlass_kernel::run::Usage;

use super::Executors;
use super::input::phase_input;
use super::script::Script;
use super::tool_caller::ToolCaller;
use crate::error::EngineError;
use crate::phase_executor::{Answer, Assignment, PhaseRecorder, WorkResult};
use crate::redaction::redact_work;

/// An agent, as defined by its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The name.
    pub name: String,
    /// The purpose.
    pub description: String,
    /// The requested model.
    pub model: Option<String>,
    /// The tools it may use; `None` means all that the policy allows.
    pub tools: Option<Vec<String>>,
    /// The system prompt.
    pub prompt: String,
    /// The digest of its file.
    pub digest: Digest,
}

/// One invocation of an agent.
pub struct AgentJob<'a> {
    /// The agent.
    pub agent: &'a Agent,
    /// The input: task, phase, findings, earlier answers.
    pub input: Value,
    /// The phase.
    pub phase: &'a str,
    /// The number of the attempt.
    pub attempt: u32,
    /// The folder to work in.
    pub workspace: &'a std::path::Path,
    /// The remaining working time, if it is limited.
    pub time_left: Option<Duration>,
}

/// Runs agents: a recorded script, the client of a coding agent, a model.
pub trait Runner: Send + Sync {
    /// The name, as it is recorded.
    fn name(&self) -> &str;

    /// The model that it uses for an agent, as it is recorded.
    fn model(&self, agent: &Agent) -> Option<String>;

    /// Runs one invocation; a failure of the agent is a result too.
    ///
    /// # Errors
    /// [`EngineError`] only if an event cannot be recorded.
    fn run(&self, job: &AgentJob<'_>, tools: &ToolCaller<'_>) -> Result<WorkResult, EngineError>;
}

/// The runners of agents.
#[derive(Clone, Default)]
pub struct RunnerChoice {
    /// Runners by agent.
    pub by_agent: BTreeMap<String, Arc<dyn Runner>>,
    /// The runner of all other agents.
    pub default: Option<Arc<dyn Runner>>,
}

impl RunnerChoice {
    fn of(&self, agent: &str) -> Option<&Arc<dyn Runner>> {
        self.by_agent.get(agent).or(self.default.as_ref())
    }
}

impl Executors {
    /// Runs an agent; records the start before it and the end after it.
    pub(super) fn run_agent(
        &self,
        name: &str,
        prompt: Option<&str>,
        assignment: &Assignment,
        tools: &ToolCaller<'_>,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult, EngineError> {
        let Some(agent) = self.agents.get(name) else {
            return Ok(WorkResult::failed("unknown_step", format!("there is no agent `{name}`")));
        };
        let options = assignment.run.started.as_ref().map(|started| &started.options);
        let script = match options.and_then(Script::recorded).transpose() {
            Ok(script) => script.map(|script| Arc::new(script) as Arc<dyn Runner>),
            Err(error) => return Ok(WorkResult::failed("validation_error", error.to_string())),
        };
        let Some(runner) = script.as_ref().or_else(|| self.runners.of(name)) else {
            let reason = format!(
                "no runner is set for the agent `{name}`: set one in config.toml, or give --answers"
            );
            return Ok(WorkResult::failed("unknown_step", reason));
        };
        let guard = self.guard.as_deref().filter(|guard| guard.applies_to(&assignment.run));
        // The guard's model replaces the one that the agent requests.
        let mut agent = agent.clone();
        if let Some(guard) = guard {
            match guard.model_for(&recorder.run(), &assignment.phase) {
                Ok(model) => agent.model = Some(model),
                Err(reason) => return Ok(WorkResult::failed("not_admitted", reason)),
            }
        }
        let agent = &agent;
        let mut input = phase_input(assignment);
        if let (Some(prompt), Some(object)) = (prompt, input.as_object_mut()) {
            object.insert("prompt".to_owned(), Value::String(prompt.to_owned()));
        }
        let model = runner.model(agent);
        let invocation =
            recorder.invocation_started(assignment, name, runner.name(), model.as_deref())?;
        let began = Instant::now();
        let result = runner.run(
            &AgentJob {
                agent,
                input,
                phase: &assignment.phase.id,
                attempt: assignment.attempt,
                workspace: &assignment.workspace,
                time_left: assignment.time_left,
            },
            tools,
        )?;
        let result = redact_work(&self.redactor, tools.end(result));
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (ended, usage, note) = result.invocation();
        let note: String = note.chars().take(2000).collect();
        recorder.invocation_ended(invocation, ended, usage, duration_ms, &note);
        if let (Some(guard), WorkResult::Finished(Answer { answer, failure: None, .. })) =
            (guard, &result)
            && let Err(reason) = guard.check_answer(answer)
        {
            return Ok(WorkResult::failed("validation_error", reason));
        }
        // The usage is recorded with the invocation; the phase must not count it again.
        Ok(result.with_usage(Usage::default()))
    }
}
