//! The default phase executor: performs builtins, programs and agents.

mod agent;
mod audit;
mod builtin;
mod command;
mod governance;
mod input;
mod outputs;
mod script;
mod spend;
mod subagent;
mod tool_caller;
mod transcript;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_connect::Connect;
use windlass_kernel::Code;
use windlass_kernel::run::plan::Doer;
use windlass_kernel::run::{Failure, PhaseResult};
use windlass_redact::Redactor;
use windlass_runtime::{CallLimits, Clock};

pub(crate) use builtin::commit_message;

pub use agent::{
    AGENTS_OPTION, Agent, AgentJob, BUDGET_EXHAUSTED, DEFAULT_AGENT, INSTRUCTIONS_OPTION,
    JobBudget, Runner, RunnerChoice, TROUBLE,
};
pub use builtin::{BUILTINS, Builtin, BuiltinJob, task_strings};
pub use script::{OPTION as ANSWERS_OPTION, Script, ScriptError};
pub use spend::SpendCap;
pub use subagent::SUBAGENT_TOOL;
pub use tool_caller::{
    AgentGuard, CallResult, EarlierCall, ToolCaller, ToolRequest, failure_reason,
};
pub use transcript::{Transcript, Transcripts, live_files, read_lines};

use self::audit::Audit;
use self::governance::Validators;
use crate::error::EngineError;
use crate::gateway_provider::GatewayProvider;
use crate::kept_outputs::KeptOutputs;
use crate::phase_executor::{
    Answer, Assignment, Completion, PhaseExecutor, PhaseRecorder, Subject, Verdict, WorkResult,
};
use crate::redaction::redact_work;
use crate::repository::Repository;
use crate::stop::StopSwitch;

/// The maximum size of an answer, in bytes of JSON.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The maximum length of the name or value of a fact, and the maximum number of facts of one answer.
const FACT_BYTES_MAX: usize = 256;
const FACTS_MAX: usize = 64;

/// Performs phases and checks with the executors that the plan names.
pub struct Executors {
    pub(crate) gateways: Arc<dyn GatewayProvider>,
    pub(crate) repository: Arc<dyn Repository>,
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: StopSwitch,
    pub(crate) agents: BTreeMap<String, Agent>,
    pub(crate) runners: RunnerChoice,
    pub(crate) builtins: BTreeMap<String, Box<dyn Builtin>>,
    pub(crate) guard: Option<Arc<dyn AgentGuard>>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) call_limits: CallLimits,
    pub(crate) transcripts: Option<Transcripts>,
    pub(crate) outputs: Option<Arc<KeptOutputs>>,
    pub(crate) spend: Option<SpendCap>,
    validators: Validators,
}

impl Executors {
    /// Creates the executor with the builtins that every loop can use.
    #[must_use]
    pub fn new(
        gateways: Arc<dyn GatewayProvider>,
        repository: Arc<dyn Repository>,
        connect: Arc<dyn Connect>,
        clock: Arc<dyn Clock>,
        stop: StopSwitch,
        agents: BTreeMap<String, Agent>,
        runners: RunnerChoice,
    ) -> Self {
        let builtins = builtin::shipped();
        let (guard, validators) = (None, Validators::default());
        Self {
            gateways,
            repository,
            connect,
            clock,
            stop,
            agents,
            runners,
            builtins,
            guard,
            redactor: Arc::default(),
            call_limits: CallLimits::default(),
            transcripts: None,
            outputs: None,
            spend: None,
            validators,
        }
    }

    /// Sets the redactor of what programs and agents print.
    #[must_use]
    pub fn with_redactor(mut self, redactor: Arc<Redactor>) -> Self {
        self.redactor = redactor;
        self
    }

    /// Sets where the transcripts of agents are kept; without, there are none.
    #[must_use]
    pub fn with_transcripts(mut self, transcripts: Transcripts) -> Self {
        self.transcripts = Some(transcripts);
        self
    }

    /// Sets where the connectors keep outputs that are too long to be recorded, to search them.
    #[must_use]
    pub fn with_outputs(mut self, outputs: Arc<KeptOutputs>) -> Self {
        self.outputs = Some(outputs);
        self
    }

    /// Sets the most that all runs may use in a day.
    #[must_use]
    pub fn with_spend_cap(mut self, cap: Option<SpendCap>) -> Self {
        self.spend = cap;
        self
    }

    /// Sets when the calls of an attempt are broken off.
    #[must_use]
    pub const fn with_call_limits(mut self, limits: CallLimits) -> Self {
        self.call_limits = limits;
        self
    }

    /// Adds the builtins of a loop.
    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = (String, Box<dyn Builtin>)>) -> Self {
        self.builtins.extend(more);
        self
    }

    /// Sets the guard of agents in the runs that it applies to.
    #[must_use]
    pub fn with_guard(mut self, guard: Arc<dyn AgentGuard>) -> Self {
        self.guard = Some(guard);
        self
    }

    fn produce(
        &self,
        doer: &Doer,
        assignment: &Assignment,
        tools: &ToolCaller<'_>,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult, EngineError> {
        match doer {
            Doer::Builtin { name, with } => match self.builtins.get(name) {
                Some(builtin) => builtin.perform(&builtin::BuiltinJob {
                    assignment,
                    with,
                    tools,
                    recorder,
                    repository: self.repository.as_ref(),
                    gateways: self.gateways.as_ref(),
                    clock: self.clock.as_ref(),
                    agents: &self.agents,
                    executors: self,
                }),
                None => {
                    Ok(WorkResult::failed("unknown_step", format!("there is no builtin `{name}`")))
                }
            },
            Doer::Command { argv, timeout_ms, .. } => {
                self.run_command(argv, Duration::from_millis(*timeout_ms), assignment, recorder)
            }
            Doer::Agent { agent, prompt } => {
                self.run_agent(agent, prompt.as_deref(), assignment, tools, recorder)
            }
            // The state machine puts these phases on hold; no executor performs them.
            Doer::Person { .. } | Doer::Consensus { .. } => {
                Ok(WorkResult::failed("unknown_step", "a person does this phase"))
            }
        }
    }

    /// Validates an answer, collects the outputs and applies the governance rules.
    fn complete(
        &self,
        result: WorkResult,
        assignment: &Assignment,
        tools: &ToolCaller<'_>,
        recorder: &PhaseRecorder<'_>,
        began: Instant,
    ) -> Result<WorkResult<Completion>, EngineError> {
        let Answer { mut answer, mut failure, usage, .. } = match result.finished() {
            Ok(answer) => answer,
            Err(unfinished) => return Ok(unfinished),
        };
        let mut facts = BTreeMap::new();
        let mut outputs = BTreeMap::new();
        if failure.is_none() {
            let checked = check_answer(&answer).and_then(|stated| {
                outputs = outputs::collect(&assignment.workspace, &assignment.phase.outputs)?;
                facts = stated;
                Ok(())
            });
            failure = checked
                .err()
                .map(|reason| Failure { class: "validation_error".to_owned(), reason });
        }
        if too_large(&answer) {
            answer = serde_json::json!({});
        }
        // The rules need the outputs, so they are evaluated last.
        let evidence = match &failure {
            None => Some(self.gather_evidence(assignment, recorder, began.elapsed())?),
            Some(_) => None,
        };
        let ran = evidence.as_ref().is_some_and(|evidence| evidence.ran);
        let mut unreadable = None;
        let change = if ran || may_change(&assignment.phase.doer, tools) {
            match self.repository.change(&assignment.workspace, &assignment.run) {
                // What the work wrote is the work's failure: the run must be able to go on or end.
                Err(error) if is_unreadable(&error) => {
                    let reason = format!("[{}] {error}", error.code());
                    unreadable = Some(Failure { class: "critical_failure".to_owned(), reason });
                    None
                }
                change => {
                    let mut change = change?;
                    if let Some(change) = change.as_mut().filter(|_| assignment.owns_commits) {
                        change.commit =
                            self.repository.moved(&assignment.workspace, &assignment.run)?;
                    }
                    change
                }
            }
        } else {
            None
        };
        let governance = evidence.and_then(|evidence| {
            governance::judge(&self.validators, evidence, assignment, change.as_ref())
        });
        if let Some(governed) = &governance {
            failure = governance::failure(governed, &assignment.run);
        }
        failure = unreadable.or(failure);
        let summary = failure.as_ref().map_or_else(
            || answer.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned(),
            |failure| failure.reason.clone(),
        );
        Ok(WorkResult::Finished(Completion::Done(Box::new(PhaseResult {
            answer,
            calls: tools.calls(),
            change,
            duration_ms: milliseconds(began),
            facts,
            failure,
            governance,
            outputs,
            summary: summary.chars().take(2000).collect(),
            usage,
        }))))
    }
}

impl PhaseExecutor for Executors {
    fn perform(
        &self,
        assignment: &Assignment,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult<Completion>, EngineError> {
        let began = Instant::now();
        let gateway = self.gateways.gateway(&assignment.workspace)?;
        let doer = match &assignment.subject {
            Subject::Work => &assignment.phase.doer,
            Subject::Check(check) => &check.doer,
        };
        let tools = ToolCaller::new(
            gateway,
            self.gateways.as_ref(),
            &self.stop,
            assignment,
            self.guard.as_deref(),
            self.call_limits,
        )
        .audited(Audit::of(self, assignment, recorder))
        .with_subagents(self, recorder);
        let result = tools.end(self.produce(doer, assignment, &tools, recorder)?);
        let result = redact_work(&self.redactor, result);
        match &assignment.subject {
            Subject::Work => self.complete(result, assignment, &tools, recorder, began),
            Subject::Check(_) => Ok(verdict_of(result, milliseconds(began))),
        }
    }
}

fn milliseconds(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Converts the answer of a check to its verdict; a check that failed has none.
fn verdict_of(result: WorkResult, duration_ms: u64) -> WorkResult<Completion> {
    let Answer { answer, failure, usage, .. } = match result.finished() {
        Ok(answer) => answer,
        Err(unfinished) => return unfinished,
    };
    let failed = |reason: String| Verdict {
        verdict: String::new(),
        reason,
        findings: Value::Null,
        conditions: Vec::new(),
        usage,
        duration_ms,
    };
    WorkResult::Finished(Completion::Judged(match (failure, check_answer(&answer)) {
        (Some(Failure { class, reason }), _) => failed(format!("{class}: {reason}")),
        (None, Err(reason)) => failed(format!("validation_error: {reason}")),
        (None, Ok(_)) => {
            let text =
                |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let conditions = answer.get("conditions").and_then(Value::as_array);
            let conditions = conditions.into_iter().flatten().filter_map(Value::as_str);
            Verdict {
                verdict: text("verdict"),
                reason: text("reason"),
                findings: answer.get("findings").cloned().unwrap_or(Value::Null),
                conditions: conditions.map(str::to_owned).collect(),
                usage,
                duration_ms,
            }
        }
    }))
}

/// Whether the files of a workspace are such that git cannot make a tree of them here.
pub(crate) fn is_unreadable(error: &EngineError) -> bool {
    matches!(error.code(), Code::GitFilterRefused | Code::GitUnrecordable)
}

/// Whether a phase can have changed the workspace; git is called only then.
fn may_change(doer: &Doer, tools: &ToolCaller<'_>) -> bool {
    match doer {
        Doer::Command { .. } | Doer::Agent { .. } => true,
        Doer::Builtin { .. } | Doer::Consensus { .. } | Doer::Person { .. } => {
            !tools.calls().is_empty()
        }
    }
}

fn too_large(answer: &Value) -> bool {
    serde_json::to_vec(answer).map_or(true, |bytes| bytes.len() > ANSWER_BYTES_MAX)
}

/// Validates an answer and returns its facts.
fn check_answer(answer: &Value) -> Result<BTreeMap<String, String>, String> {
    let Some(object) = answer.as_object() else {
        return Err("the answer is not a JSON object".to_owned());
    };
    if too_large(answer) {
        return Err(format!("the answer is larger than {ANSWER_BYTES_MAX} bytes"));
    }
    if let Err(error) = windlass_kernel::canon::check(answer) {
        return Err(format!("the answer cannot be recorded: {error}"));
    }
    for key in ["summary", "verdict", "reason"] {
        if object.get(key).is_some_and(|value| !value.is_string()) {
            return Err(format!("the answer's `{key}` is not a string"));
        }
    }
    let Some(facts) = object.get("facts") else { return Ok(BTreeMap::new()) };
    let Some(facts) = facts.as_object() else {
        return Err("the answer's `facts` is not an object".to_owned());
    };
    if facts.len() > FACTS_MAX {
        return Err(format!("the answer has more than {FACTS_MAX} facts"));
    }
    facts
        .iter()
        .map(|(name, value)| match value.as_str() {
            Some(text) if text.len() <= FACT_BYTES_MAX && name.len() <= FACT_BYTES_MAX => {
                Ok((name.clone(), text.to_owned()))
            }
            _ => {
                Err(format!("the fact `{name}` is not a string of at most {FACT_BYTES_MAX} bytes"))
            }
        })
        .collect()
}
