//! The hands of the engine: builtins, programs and agents at work.

mod agent;
mod brief;
mod builtin;
mod command;
mod governance;
mod outputs;
mod script;
mod toolbox;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_connect::Connect;
use windlass_kernel::TraceId;
use windlass_kernel::run::plan::Doer;
use windlass_kernel::run::{Done, Failure, Usage};
use windlass_runtime::Source;

pub use agent::{Agent, AgentJob, AgentReply, Runner, RunnerChoice};
pub use builtin::{BUILTINS, Builtin, Deed, Job, texts};
pub use script::{OPTION as ANSWERS_OPTION, Script, ScriptError};
pub use toolbox::{Guard, ToolReply, ToolRequest, Toolbox};

use self::governance::Inspectors;
use crate::engine::Workshop;
use crate::error::EngineError;
use crate::hands::{Assignment, Desk, Hands, Outcome, Subject, Verdict};
use crate::repository::Repository;
use crate::stop::Stop;

/// The largest answer of a doer, in bytes of JSON.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The longest value of a fact, and the most facts of one answer.
const FACT_BYTES_MAX: usize = 256;
const FACTS_MAX: usize = 64;

/// Performs phases and checks by what the plan says.
pub struct Doers {
    pub(crate) workshop: Arc<dyn Workshop>,
    pub(crate) place: Arc<dyn Repository>,
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) stop: Stop,
    pub(crate) agents: BTreeMap<String, Agent>,
    pub(crate) runners: RunnerChoice,
    pub(crate) builtins: BTreeMap<String, Box<dyn Builtin>>,
    pub(crate) guard: Option<Arc<dyn Guard>>,
    inspectors: Inspectors,
}

/// What came of a doer, before it is weighed.
#[derive(Debug)]
pub(crate) enum Product {
    /// An answer.
    Answer {
        /// An object.
        answer: Value,
        /// What it used.
        usage: Usage,
    },
    /// A failure.
    Failed {
        /// Its class.
        class: String,
        /// For a person.
        reason: String,
        /// What it said nevertheless.
        answer: Value,
        /// What it used.
        usage: Usage,
    },
    /// A call waits for a person.
    Waiting {
        /// The call.
        call: TraceId,
        /// What is asked.
        question: String,
    },
    /// The stop switch was seen.
    Stopped,
}

impl Product {
    pub(crate) fn failed(class: &str, reason: impl Into<String>) -> Self {
        Self::Failed {
            class: class.to_owned(),
            reason: reason.into(),
            answer: Value::Object(serde_json::Map::new()),
            usage: Usage::default(),
        }
    }
}

impl Doers {
    /// Puts the hands together; the builtins are those that ship.
    #[must_use]
    pub fn new(
        workshop: Arc<dyn Workshop>,
        place: Arc<dyn Repository>,
        connect: Arc<dyn Connect>,
        source: Arc<dyn Source>,
        stop: Stop,
        agents: BTreeMap<String, Agent>,
        runners: RunnerChoice,
    ) -> Self {
        let builtins = builtin::shipped();
        let (guard, inspectors) = (None, Inspectors::default());
        Self {
            workshop,
            place,
            connect,
            source,
            stop,
            agents,
            runners,
            builtins,
            guard,
            inspectors,
        }
    }

    /// Adds builtins of a loop that brings its own.
    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = (String, Box<dyn Builtin>)>) -> Self {
        self.builtins.extend(more);
        self
    }

    /// Puts a guard before everything that agents do in the runs that it minds.
    #[must_use]
    pub fn with_guard(mut self, guard: Arc<dyn Guard>) -> Self {
        self.guard = Some(guard);
        self
    }

    fn produce(
        &self,
        doer: &Doer,
        assignment: &Assignment,
        tools: &Toolbox<'_>,
        desk: &Desk<'_>,
    ) -> Result<Product, EngineError> {
        match doer {
            Doer::Builtin { name, with } => match self.builtins.get(name) {
                Some(builtin) => {
                    let deed = builtin.perform(&builtin::Job {
                        assignment,
                        with,
                        tools,
                        desk,
                        place: self.place.as_ref(),
                        workshop: self.workshop.as_ref(),
                        source: self.source.as_ref(),
                        agents: &self.agents,
                    })?;
                    Ok(deed.into())
                }
                None => {
                    Ok(Product::failed("unknown_step", format!("there is no builtin `{name}`")))
                }
            },
            Doer::Command { argv, timeout_ms, .. } => {
                self.run_command(argv, Duration::from_millis(*timeout_ms), assignment, desk)
            }
            Doer::Agent { agent, prompt } => {
                self.run_agent(agent, prompt.as_deref(), assignment, tools, desk)
            }
            // The machine puts these on hold; nobody is to do them.
            Doer::Person { .. } | Doer::Consensus { .. } => {
                Ok(Product::failed("unknown_step", "a person does this phase"))
            }
        }
    }

    /// Weighs what a phase's doer has produced.
    fn settle(
        &self,
        product: Product,
        assignment: &Assignment,
        tools: &Toolbox<'_>,
        desk: &Desk<'_>,
        began: Instant,
    ) -> Result<Outcome, EngineError> {
        let (mut answer, usage, mut failure) = match product {
            Product::Answer { answer, usage } => (answer, usage, None),
            Product::Failed { class, reason, answer, usage } => {
                (answer, usage, Some(Failure { class, reason }))
            }
            Product::Waiting { call, question } => {
                let change = self.place.change(&assignment.workspace, &assignment.run)?;
                return Ok(Outcome::Waiting { call, change, question });
            }
            Product::Stopped => return Ok(Outcome::Stopped),
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
        // What was left behind is there: now it is measured.
        let measured = match &failure {
            None => Some(self.measure(assignment, desk, began.elapsed())?),
            Some(_) => None,
        };
        let ran = measured.as_ref().is_some_and(|measured| measured.ran);
        let change = if ran || may_change(&assignment.phase.doer, tools) {
            self.place.change(&assignment.workspace, &assignment.run)?
        } else {
            None
        };
        let governance = measured.and_then(|measured| {
            governance::judge(&self.inspectors, measured, assignment, change.as_ref())
        });
        if let Some(governed) = &governance {
            failure = governance::failure(governed, &assignment.run);
        }
        let summary = failure.as_ref().map_or_else(
            || answer.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned(),
            |failure| failure.reason.clone(),
        );
        Ok(Outcome::Done(Box::new(Done {
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
        })))
    }
}

impl Hands for Doers {
    fn perform(&self, assignment: &Assignment, desk: &Desk<'_>) -> Result<Outcome, EngineError> {
        let began = Instant::now();
        let gateway = self.workshop.gateway(&assignment.workspace)?;
        let doer = match &assignment.subject {
            Subject::Work => &assignment.phase.doer,
            Subject::Check(check) => &check.doer,
        };
        let tools = Toolbox::new(
            gateway,
            self.workshop.as_ref(),
            &self.stop,
            assignment,
            self.guard.as_deref(),
        );
        let product = self.produce(doer, assignment, &tools, desk)?;
        match (&assignment.subject, product) {
            (Subject::Work, product) => self.settle(product, assignment, &tools, desk, began),
            (Subject::Check(_), product) => Ok(judged(product, milliseconds(began))),
        }
    }
}

fn milliseconds(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// What a check has said; one that failed has said nothing that counts.
fn judged(product: Product, duration_ms: u64) -> Outcome {
    let mut conditions = Vec::new();
    let (verdict, reason, findings, usage) = match product {
        Product::Answer { answer, usage } => match check_answer(&answer) {
            Ok(_) => {
                let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
                let findings = answer.get("findings").cloned().unwrap_or(Value::Null);
                let stated = answer.get("conditions").and_then(Value::as_array);
                let texts = stated.into_iter().flatten().filter_map(Value::as_str);
                conditions.extend(texts.map(str::to_owned));
                (text("verdict").to_owned(), text("reason").to_owned(), findings, usage)
            }
            Err(reason) => {
                (String::new(), format!("validation_error: {reason}"), Value::Null, usage)
            }
        },
        Product::Failed { class, reason, usage, .. } => {
            (String::new(), format!("{class}: {reason}"), Value::Null, usage)
        }
        Product::Waiting { call, question } => {
            return Outcome::Waiting { call, change: None, question };
        }
        Product::Stopped => return Outcome::Stopped,
    };
    Outcome::Judged(Verdict { verdict, reason, findings, conditions, usage, duration_ms })
}

/// Whether a phase can have changed the workspace: git is asked only then.
fn may_change(doer: &Doer, tools: &Toolbox<'_>) -> bool {
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

/// The facts of an answer, once it is what an answer must be.
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
            return Err(format!("the answer's `{key}` is not a text"));
        }
    }
    let Some(facts) = object.get("facts") else { return Ok(BTreeMap::new()) };
    let Some(facts) = facts.as_object() else {
        return Err("the answer's `facts` are not an object".to_owned());
    };
    if facts.len() > FACTS_MAX {
        return Err(format!("the answer states more than {FACTS_MAX} facts"));
    }
    facts
        .iter()
        .map(|(name, value)| match value.as_str() {
            Some(text) if text.len() <= FACT_BYTES_MAX && name.len() <= FACT_BYTES_MAX => {
                Ok((name.clone(), text.to_owned()))
            }
            _ => Err(format!("the fact `{name}` is not a text of at most {FACT_BYTES_MAX} bytes")),
        })
        .collect()
}
