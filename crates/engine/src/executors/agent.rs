//! Agents and their runners.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_kernel::run::plan::BudgetedResource;
use windlass_kernel::run::plan::FAILED;
use windlass_kernel::run::{Event, Failure, NoteKind, Run, Usage, WaitsFor};
use windlass_kernel::{Digest, Timestamp};

use super::Executors;
use super::input::{phase_input, subtask_input};
use super::script::Script;
use super::spend::tomorrow;
use super::subagent::{SUBAGENT_TOOL, Subtask, checked};
use super::tool_caller::ToolCaller;
use super::transcript::Transcript;
use crate::error::EngineError;
use crate::phase_executor::{
    Answer, Assignment, PhaseRecorder, StartingInvocation, Subject, WorkResult,
};
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
    /// The agents that it may start within its work.
    pub subagents: Vec<String>,
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
    /// The verdicts that the answer may have; none if it needs no verdict.
    pub verdicts: Vec<String>,
    /// The number of the invocation in the run.
    pub invocation: u64,
    /// What tells the work of a subagent from all other work of the run; `None` for the agent of the phase.
    pub subtask: Option<String>,
    /// The run's id.
    pub run_id: String,
    /// Where notes about the invocation are recorded.
    pub recorder: &'a PhaseRecorder<'a>,
    /// Where what the agent says and does is written.
    pub transcript: &'a Transcript,
    /// What the invocation may use up.
    pub budget: JobBudget,
}

/// What is left for an invocation; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobBudget {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Cost, in millionths.
    pub cost_micros: Option<u64>,
}

impl JobBudget {
    pub(super) fn of(run: &Run) -> Self {
        let left = |resource| Some(run.limit(resource)?.saturating_sub(run.used(resource)));
        Self {
            tokens: left(BudgetedResource::Tokens),
            cost_micros: left(BudgetedResource::CostMicros),
        }
    }

    /// Both limits.
    fn and(self, other: Self) -> Self {
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        Self {
            tokens: least(self.tokens, other.tokens),
            cost_micros: least(self.cost_micros, other.cost_micros),
        }
    }

    pub(super) fn is_used_up(self) -> bool {
        self.tokens == Some(0) || self.cost_micros == Some(0)
    }

    /// The resource of which more was used than is left.
    #[must_use]
    pub fn exceeded(&self, usage: Usage) -> Option<BudgetedResource> {
        let over = |used: u64, left: Option<u64>| left.is_some_and(|left| used > left);
        if over(usage.tokens(), self.tokens) {
            Some(BudgetedResource::Tokens)
        } else if over(usage.cost_micros, self.cost_micros) {
            Some(BudgetedResource::CostMicros)
        } else {
            None
        }
    }
}

/// The class of a failure when the budget was used up in the middle of an invocation.
pub const BUDGET_EXHAUSTED: &str = "budget_exhausted";

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

/// The classes of failures after which the next runner of the list does the work.
pub const TROUBLE: [&str; 9] = [
    "authentication",
    "context_full",
    "crash",
    "model_unavailable",
    "no_credit",
    "overloaded",
    "rate_limited",
    "silence",
    "unreachable",
];

/// How long a rate limit is taken to last, if nobody says how long.
const RATE_LIMIT_MINUTES: i64 = 15;
/// How long an overload is taken to last.
const OVERLOAD_MINUTES: i64 = 2;

/// The option of a run that says who runs which agent.
pub const AGENTS_OPTION: &str = "agents";

/// The option of a run with the repository's own instructions for agents: paths, digests and texts.
pub const INSTRUCTIONS_OPTION: &str = "instructions";

/// The name under which lists of runners hold for all other agents.
pub const DEFAULT_AGENT: &str = "default";

/// The runners of agents.
#[derive(Clone, Default)]
pub struct RunnerChoice {
    /// All runners, by name.
    pub runners: BTreeMap<String, Arc<dyn Runner>>,
    /// The names of each agent's runners, in the order in which they are tried; `default` stands for all other
    /// agents.
    pub by_agent: BTreeMap<String, Vec<String>>,
}

impl RunnerChoice {
    /// The names of an agent's runners. What the run was started with outranks the settings.
    #[must_use]
    pub fn names(&self, agent: &str, options: Option<&Value>) -> Vec<String> {
        let chosen = options.and_then(|options| options.get(AGENTS_OPTION));
        let listed = |name: &str| -> Option<Vec<String>> {
            let list = chosen?.get(name)?.as_array()?.iter();
            Some(list.filter_map(Value::as_str).map(str::to_owned).collect())
        };
        listed(agent)
            .or_else(|| listed(DEFAULT_AGENT))
            .or_else(|| self.by_agent.get(agent).cloned())
            .or_else(|| self.by_agent.get(DEFAULT_AGENT).cloned())
            .unwrap_or_default()
    }

    /// The runners of an agent; those of a list that are not installed are left out.
    fn of(&self, agent: &str, options: Option<&Value>) -> Result<Vec<Arc<dyn Runner>>, String> {
        let names = self.names(agent, options);
        if names.is_empty() {
            return Err(format!(
                "nobody is set to run the agent `{agent}`: start the run with `--agent claude` (or another \
                 client), name one below [agents] in .windlass/config.toml, or give --answers"
            ));
        }
        let found: Vec<_> =
            names.iter().filter_map(|name| self.runners.get(name).cloned()).collect();
        if found.is_empty() {
            let known: Vec<&str> = self.runners.keys().map(String::as_str).collect();
            return Err(format!(
                "there is no runner `{}`; there are {}",
                names.join("`, `"),
                known.join(", ")
            ));
        }
        Ok(found)
    }
}

/// What is said when the day's cap is reached.
const CAP_REACHED: &str =
    "the runs of this project have used what [spend] in your settings allows for a day";

impl Executors {
    /// What an invocation may use: what is left of the run's budget and of the day's cap.
    fn job_budget(&self, recorder: &PhaseRecorder<'_>) -> Result<JobBudget, String> {
        let own = JobBudget::of(&recorder.run());
        let Some(cap) = &self.spend else { return Ok(own) };
        let left = cap.left(self.clock.now()).map_err(|error| {
            format!("what the runs of this project have used today is not known: {error}")
        })?;
        if left.is_used_up() { Err(CAP_REACHED.to_owned()) } else { Ok(own.and(left)) }
    }

    /// The attempt goes on tomorrow, or when the cap was raised.
    fn over_cap(&self, agent: &str, reason: String) -> WorkResult {
        let now = self.clock.now();
        let failure = Failure { class: "spend_cap".to_owned(), reason };
        unavailable(agent, &[Tried { runner: String::new(), failure, until: tomorrow(now) }])
    }

    /// Runs the agent of a phase or check; records the start before it and the end after it.
    pub(super) fn run_agent(
        &self,
        name: &str,
        prompt: Option<&str>,
        assignment: &Assignment,
        tools: &ToolCaller<'_>,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult, EngineError> {
        self.run_agent_for(name, prompt, None, assignment, tools, recorder)
    }

    /// Runs an agent, for a phase or check or for another agent.
    pub(super) fn run_agent_for(
        &self,
        name: &str,
        prompt: Option<&str>,
        subtask: Option<&Subtask>,
        assignment: &Assignment,
        tools: &ToolCaller<'_>,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult, EngineError> {
        let Some(agent) = self.agents.get(name) else {
            return Ok(WorkResult::failed("unknown_step", format!("there is no agent `{name}`")));
        };
        let started = assignment.run.started.as_ref();
        let run_id = started.map(|started| started.run_id.clone());
        let options = started.map(|started| &started.options);
        let script = match options.and_then(Script::recorded).transpose() {
            Ok(script) => script.map(|script| Arc::new(script) as Arc<dyn Runner>),
            Err(error) => return Ok(WorkResult::failed("validation_error", error.to_string())),
        };
        // Recorded answers have nothing to tell.
        let transcripts = self.transcripts.as_ref().filter(|_| script.is_none());
        let runners = match script {
            Some(script) => vec![script],
            None => match self.runners.of(name, options) {
                Ok(runners) => runners,
                Err(reason) => return Ok(WorkResult::failed("unknown_step", reason)),
            },
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
        if !agent.subagents.is_empty() && self.gateways.class_of("agent", "run").is_none() {
            let reason = format!(
                "`{name}` has subagents, but tools.toml does not register `{SUBAGENT_TOOL}`: add [server.agent] \
                 with connector = \"agent\", and [server.agent.tool.run] with class = \"write\""
            );
            return Ok(WorkResult::failed("validation_error", reason));
        }
        let mut input = match subtask {
            Some(subtask) => subtask_input(assignment, subtask),
            None => phase_input(assignment),
        };
        if let (Some(prompt), Some(object)) = (prompt, input.as_object_mut()) {
            object.insert("prompt".to_owned(), Value::String(prompt.to_owned()));
        }
        if let (Some(texts), Some(object)) =
            (options.and_then(|options| options.get(INSTRUCTIONS_OPTION)), input.as_object_mut())
        {
            object.insert(INSTRUCTIONS_OPTION.to_owned(), texts.clone());
        }
        let mut left = runners.len();
        let mut result = WorkResult::failed("unknown_step", "there is no runner");
        let mut tried = Vec::new();
        let subject = match &assignment.subject {
            Subject::Work => String::new(),
            Subject::Check(check) => format!(".{}", check.id),
        };
        let label = subtask.map(Subtask::label);
        let subject = label.iter().fold(subject, |subject, label| format!("{subject}.{label}"));
        let transcript = Transcript::open(
            transcripts,
            &run_id.clone().unwrap_or_default(),
            &format!("{}.{}.{name}{subject}", assignment.phase.id, assignment.attempt),
            Arc::clone(&self.redactor),
            Arc::clone(&self.clock),
        );
        for runner in runners {
            let budget = match self.job_budget(recorder) {
                Ok(budget) => budget,
                Err(reason) => return Ok(self.over_cap(name, reason)),
            };
            left -= 1;
            let model = runner.model(agent);
            let starting = StartingInvocation {
                agent: name,
                runner: runner.name(),
                model: model.as_deref(),
                parent: subtask.map(|subtask| subtask.parent),
            };
            let invocation = recorder.start_invocation(assignment, &starting)?;
            tools.set_caller(invocation, agent);
            let began = Instant::now();
            let job = AgentJob {
                agent,
                input: input.clone(),
                phase: &assignment.phase.id,
                attempt: assignment.attempt,
                workspace: &assignment.workspace,
                time_left: tools.time_left(),
                verdicts: if subtask.is_some() { Vec::new() } else { verdicts(assignment) },
                invocation,
                subtask: label.clone(),
                run_id: run_id.clone().unwrap_or_default(),
                recorder,
                transcript: &transcript,
                budget,
            };
            transcript.add(
                "started",
                json!({ "invocation": invocation, "runner": runner.name(), "model": model }),
            );
            result = runner.run(&job, tools)?;
            result = redact_work(&self.redactor, tools.end(result));
            if subtask.is_some() {
                result = checked(result);
            }
            let is_over = matches!(result, WorkResult::Finished(_)) && trouble(&result).is_none();
            transcript.add("ended", describe_end(&result));
            if transcripts.is_some() {
                recorder.note(NoteKind::Agent, transcript.store(&job, is_over))?;
            }
            let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let (ended, usage, note) = result.invocation();
            let note: String = note.chars().take(2000).collect();
            let ended =
                Event::InvocationEnded { invocation, result: ended, usage, duration_ms, note };
            match (subtask, &result) {
                (Some(subtask), WorkResult::Finished(answer))
                    if is_over && !is_exhausted(&result) =>
                {
                    let body = subtask.record(invocation, answer);
                    recorder.record_both(ended, Event::Noted { what: NoteKind::Agent, body })?;
                }
                (Some(_) | None, _) => recorder.add_ended(ended),
            }
            if subtask.is_some() {
                tools.add_usage(usage);
            }
            if is_exhausted(&result) {
                let run = recorder.run();
                let own = JobBudget::of(&run).exceeded(usage);
                let Some(resource) = own else {
                    return Ok(self.over_cap(name, CAP_REACHED.to_owned()));
                };
                return Ok(WorkResult::Waiting {
                    waits_for: WaitsFor::Budget { resource },
                    evidence: Value::Null,
                    question: format!("the budget of {} is used up", resource.as_str()),
                    usage: Usage::default(),
                });
            }
            let Some(trouble) = trouble(&result) else { break };
            tried.push(Tried::new(runner.name(), trouble, self.clock.now()));
            if left == 0 {
                return Ok(unavailable(name, &tried));
            }
        }
        if let (Some(guard), None, WorkResult::Finished(Answer { answer, failure: None, .. })) =
            (guard, subtask, &result)
            && let Err(reason) = guard.check_answer(answer)
        {
            return Ok(WorkResult::failed("validation_error", reason));
        }
        // The usage is recorded with the invocation; the phase must not count it again.
        Ok(result.with_usage(Usage::default()))
    }
}

/// Whether a budget was used up in the middle of an invocation.
fn is_exhausted(result: &WorkResult) -> bool {
    match result {
        WorkResult::Finished(Answer { failure, .. }) => {
            failure.as_ref().is_some_and(|failure| failure.class == BUDGET_EXHAUSTED)
        }
        WorkResult::Waiting { .. } | WorkResult::Stopped { .. } => false,
    }
}

/// The end of an invocation, for its transcript.
fn describe_end(result: &WorkResult) -> Value {
    match result {
        WorkResult::Finished(Answer { failure: Some(failure), .. }) => {
            json!({ "failure": failure.class, "reason": failure.reason })
        }
        WorkResult::Finished(Answer { answer, .. }) => json!({ "answer": answer }),
        WorkResult::Waiting { question, .. } => json!({ "waits": question }),
        WorkResult::Stopped { .. } => json!({ "stopped": true }),
    }
}

/// The failure of a runner after which another one, or the same one later, may do the work.
fn trouble(result: &WorkResult) -> Option<(&Failure, Option<Timestamp>)> {
    match result {
        WorkResult::Finished(Answer { failure: Some(failure), until, .. })
            if TROUBLE.contains(&failure.class.as_str()) =>
        {
            Some((failure, *until))
        }
        WorkResult::Finished(_) | WorkResult::Waiting { .. } | WorkResult::Stopped { .. } => None,
    }
}

/// A runner that could not reach its agent.
struct Tried {
    runner: String,
    failure: Failure,
    until: Option<Timestamp>,
}

impl Tried {
    fn new(runner: &str, (failure, until): (&Failure, Option<Timestamp>), now: Timestamp) -> Self {
        let later = |minutes: i64| Timestamp::from_unix_ms(now.unix_ms() + minutes * 60_000).ok();
        let until = until.or_else(|| match failure.class.as_str() {
            "rate_limited" => later(RATE_LIMIT_MINUTES),
            "overloaded" | "silence" | "unreachable" => later(OVERLOAD_MINUTES),
            // Somebody has to do something about it.
            _ => None,
        });
        Self { runner: runner.to_owned(), failure: failure.clone(), until }
    }
}

/// The attempt waits until one of its runners can be tried again.
fn unavailable(agent: &str, tried: &[Tried]) -> WorkResult {
    let until = tried.iter().filter_map(|one| one.until).min();
    let reasons = tried.iter().map(|one| format!("{}: {}", one.failure.class, one.failure.reason));
    let reasons: Vec<String> = reasons.collect();
    let evidence = tried.iter().map(|one| {
        json!({
            "runner": one.runner,
            "class": one.failure.class,
            "reason": one.failure.reason,
            "until": one.until,
        })
    });
    WorkResult::Waiting {
        waits_for: WaitsFor::Agent { until },
        evidence: json!({ "agent": agent, "tried": evidence.collect::<Vec<Value>>(), "until": until }),
        question: format!("the agent `{agent}` cannot be reached: {}", reasons.join("; ")),
        usage: Usage::default(),
    }
}

/// The verdicts that the answer of an agent may have.
fn verdicts(assignment: &Assignment) -> Vec<String> {
    let of = match &assignment.subject {
        Subject::Work => assignment.phase.gate.as_ref().map(|gate| &gate.verdicts),
        Subject::Check(check) => Some(&check.verdicts),
    };
    let names = of.into_iter().flat_map(|verdicts| verdicts.keys());
    // The engine gives this one itself.
    names.filter(|name| *name != FAILED).cloned().collect()
}
