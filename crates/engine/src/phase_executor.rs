//! What the engine has done outside, and how those who do it put things on record.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use windlass_kernel::run::plan::{Check, Phase};
use windlass_kernel::run::{Event, Failure, InvocationResult, NoteKind, PhaseResult, Run, Usage};
use windlass_kernel::{PlanId, TraceId};

use crate::error::EngineError;
use crate::run_recorder::RunRecorder;

/// Performs the work of phases and checks.
pub trait PhaseExecutor: Send + Sync {
    /// Does one piece of work and says what came of it. Whatever goes wrong is a result.
    ///
    /// # Errors
    /// [`EngineError`] only when something could not be recorded: the run stops where it is.
    fn perform(
        &self,
        assignment: &Assignment,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult<Completion>, EngineError>;
}

/// One piece of work.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The run as it was when the work began.
    pub run: Arc<Run>,
    /// The phase.
    pub phase: Phase,
    /// Its place in the plan.
    pub at: usize,
    /// The try.
    pub attempt: u32,
    /// The phase's own work, or one of its checks.
    pub subject: Subject,
    /// The folder to work in.
    pub workspace: PathBuf,
    /// The plan that calls belong to.
    pub plan_id: PlanId,
    /// How much working time is left, if it is limited.
    pub time_left: Option<Duration>,
}

/// What is to be done of a phase.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Its work.
    Work,
    /// A check.
    Check(Box<Check>),
}

/// The result of a piece of work, whoever does it: a tool, a program, an agent, a phase.
#[derive(Clone, Debug)]
pub enum WorkResult<T = Answer> {
    /// The work has ended.
    Finished(T),
    /// A call waits for a person.
    Waiting {
        /// The call.
        call: TraceId,
        /// What the person is asked.
        question: String,
        /// What was used so far.
        usage: Usage,
    },
    /// The stop switch was on. Everything that was done is recorded.
    Stopped,
}

/// The answer of an agent, a program or a builtin.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// A JSON object.
    pub answer: Value,
    /// Why the work failed, if it did.
    pub failure: Option<Failure>,
    /// What it used.
    pub usage: Usage,
}

/// How a phase's work or a check ended.
#[derive(Clone, Debug)]
pub enum Completion {
    /// The work has ended.
    Done(Box<PhaseResult>),
    /// A check has judged.
    Judged(Verdict),
}

impl WorkResult {
    /// A successful answer, which used nothing that is counted.
    #[must_use]
    pub fn answer(answer: Value) -> Self {
        Self::Finished(Answer { answer, ..Answer::default() })
    }

    /// A failure without an answer.
    pub fn failed(class: &str, reason: impl Into<String>) -> Self {
        let failure = Some(Failure { class: class.to_owned(), reason: reason.into() });
        let answer = Value::Object(serde_json::Map::new());
        Self::Finished(Answer { answer, failure, usage: Usage::default() })
    }

    /// This result with what it used.
    #[must_use]
    pub fn using(mut self, used: Usage) -> Self {
        match &mut self {
            Self::Finished(Answer { usage, .. }) | Self::Waiting { usage, .. } => *usage = used,
            Self::Stopped => {}
        }
        self
    }

    /// How an invocation with this result is recorded: its result, what it used, and a note.
    pub(crate) fn invocation(&self) -> (InvocationResult, Usage, String) {
        match self {
            Self::Finished(Answer { failure: None, usage, .. }) => {
                (InvocationResult::Success, *usage, String::new())
            }
            Self::Finished(Answer { failure: Some(Failure { class, reason }), usage, .. }) => {
                (InvocationResult::Failure, *usage, format!("{class}: {reason}"))
            }
            Self::Waiting { question, usage, .. } => {
                (InvocationResult::OnHold, *usage, question.clone())
            }
            Self::Stopped => (InvocationResult::Failure, Usage::default(), "stopped".to_owned()),
        }
    }
}

/// What a check says.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// One of the check's verdicts; anything else is a failed check.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// What is to be done better.
    pub findings: Value,
    /// What an approval is bound to.
    pub conditions: Vec<String>,
    /// What it used.
    pub usage: Usage,
    /// How long it took.
    pub duration_ms: u64,
}

/// Where those at work put things on record.
pub struct PhaseRecorder<'a> {
    recorder: &'a Mutex<RunRecorder>,
    /// Ends of invocations that become durable together with what comes next.
    ended: Mutex<Vec<Event>>,
}

impl<'a> PhaseRecorder<'a> {
    pub(crate) const fn new(recorder: &'a Mutex<RunRecorder>) -> Self {
        Self { recorder, ended: Mutex::new(Vec::new()) }
    }

    /// Records one event of a phase at work.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be recorded; then it must not be acted on.
    pub fn record(&self, event: Event) -> Result<(), EngineError> {
        self.with(|_| event).map(|_| ())
    }

    /// Records the event that follows from the run as it is, after what has ended before it.
    fn with(&self, event: impl FnOnce(&Run) -> Event) -> Result<Arc<Run>, EngineError> {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = self.ended();
        events.push(event(recorder.run()));
        recorder.append(events)?;
        Ok(recorder.snapshot())
    }

    /// The ends of invocations that are not on record yet.
    pub(crate) fn ended(&self) -> Vec<Event> {
        std::mem::take(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records that an agent or a program is about to be started; returns its number.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be recorded; then it must not be started.
    pub fn invocation_started(
        &self,
        assignment: &Assignment,
        agent: &str,
        runner: &str,
        model: Option<&str>,
    ) -> Result<u64, EngineError> {
        let run = self.with(|run| Event::InvocationStarted {
            phase: assignment.phase.id.clone(),
            attempt: assignment.attempt,
            invocation: run.invocations + 1,
            agent: agent.to_owned(),
            runner: runner.to_owned(),
            model: model.map(str::to_owned),
        })?;
        Ok(run.invocations)
    }

    /// Records that it has ended, in one transaction with what came of it: while only one of them
    /// were durable, a program would be known to have ended and be started again.
    pub fn invocation_ended(
        &self,
        invocation: u64,
        result: InvocationResult,
        usage: Usage,
        duration_ms: u64,
        note: &str,
    ) {
        let note = note.to_owned();
        let event = Event::InvocationEnded { invocation, result, usage, duration_ms, note };
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Records something for later reading.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be recorded.
    pub fn note(&self, what: NoteKind, body: Value) -> Result<(), EngineError> {
        self.record(Event::Noted { what, body })
    }

    /// The run as it is now.
    #[must_use]
    pub fn run(&self) -> Arc<Run> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).snapshot()
    }
}
