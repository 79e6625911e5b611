//! Agents, and what performs them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_kernel::Digest;
use windlass_kernel::run::Usage;

use super::Executors;
use super::brief::brief;
use super::script::Script;
use super::tool_caller::ToolCaller;
use crate::error::EngineError;
use crate::phase_executor::{Answer, Assignment, PhaseRecorder, WorkResult};

/// An agent as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The model it asks for.
    pub model: Option<String>,
    /// The tools it may use; all that policy allows when absent.
    pub tools: Option<Vec<String>>,
    /// What it is told to be.
    pub prompt: String,
    /// The digest of its file.
    pub digest: Digest,
}

/// One invocation of an agent.
pub struct AgentJob<'a> {
    /// The agent.
    pub agent: &'a Agent,
    /// What it is told: task, phase, findings, answers before it.
    pub brief: Value,
    /// The phase.
    pub phase: &'a str,
    /// The try.
    pub attempt: u32,
    /// Where it works.
    pub workspace: &'a std::path::Path,
    /// How long it may take, if that is limited.
    pub time_left: Option<Duration>,
}

/// Performs agents: a recorded script, a coding agent's client, a model.
pub trait Runner: Send + Sync {
    /// Its name, for the record.
    fn name(&self) -> &str;

    /// The model that it would use for an agent, for the record.
    fn model(&self, agent: &Agent) -> Option<String>;

    /// Performs one invocation. Whatever goes wrong is a result.
    ///
    /// # Errors
    /// [`EngineError`] only when something could not be recorded.
    fn run(&self, job: &AgentJob<'_>, tools: &ToolCaller<'_>) -> Result<WorkResult, EngineError>;
}

/// Which runner performs which agent.
#[derive(Clone, Default)]
pub struct RunnerChoice {
    /// By the agent's name.
    pub by_agent: BTreeMap<String, Arc<dyn Runner>>,
    /// For all others.
    pub default: Option<Arc<dyn Runner>>,
}

impl RunnerChoice {
    fn of(&self, agent: &str) -> Option<&Arc<dyn Runner>> {
        self.by_agent.get(agent).or(self.default.as_ref())
    }
}

impl Executors {
    /// Performs an agent: on record before it starts and after it ends.
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
                "nothing performs the agent `{name}`: set a runner in config.toml, or give --answers"
            );
            return Ok(WorkResult::failed("unknown_step", reason));
        };
        let guard = self.guard.as_deref().filter(|guard| guard.minds(&assignment.run));
        // It works with the model that the loop's rules have selected, not with one of its own.
        let mut agent = agent.clone();
        if let Some(guard) = guard {
            match guard.admits(&recorder.run(), &assignment.phase) {
                Ok(model) => agent.model = Some(model),
                Err(reason) => return Ok(WorkResult::failed("not_admitted", reason)),
            }
        }
        let agent = &agent;
        let mut brief = brief(assignment);
        if let (Some(prompt), Some(object)) = (prompt, brief.as_object_mut()) {
            object.insert("prompt".to_owned(), Value::String(prompt.to_owned()));
        }
        let model = runner.model(agent);
        let invocation =
            recorder.invocation_started(assignment, name, runner.name(), model.as_deref())?;
        let began = Instant::now();
        let result = runner.run(
            &AgentJob {
                agent,
                brief,
                phase: &assignment.phase.id,
                attempt: assignment.attempt,
                workspace: &assignment.workspace,
                time_left: assignment.time_left,
            },
            tools,
        )?;
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (ended, usage, note) = result.invocation();
        let note: String = note.chars().take(2000).collect();
        recorder.invocation_ended(invocation, ended, usage, duration_ms, &note);
        if let (Some(guard), WorkResult::Finished(Answer { answer, failure: None, .. })) =
            (guard, &result)
            && let Err(reason) = guard.takes(answer)
        {
            return Ok(WorkResult::failed("validation_error", reason));
        }
        // What it used is recorded with the invocation; the phase must not count it again.
        Ok(result.using(Usage::default()))
    }
}
