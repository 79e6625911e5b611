//! What the engine has done outside, and how those who do it put things on record.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use windlass_kernel::run::plan::{Check, Phase};
use windlass_kernel::run::{Change, Done, Event, InvocationResult, Note, Run, Usage};
use windlass_kernel::{PlanId, TraceId};

use crate::error::EngineError;
use crate::run_recorder::RunRecorder;

/// Performs the work of phases and checks.
pub trait Hands: Send + Sync {
    /// Does one piece of work and says what came of it. Whatever goes wrong is an [`Outcome`].
    ///
    /// # Errors
    /// [`EngineError`] only when something could not be recorded: the run stops where it is.
    fn perform(&self, assignment: &Assignment, desk: &Desk<'_>) -> Result<Outcome, EngineError>;
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

/// What came of it.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The work has ended.
    Done(Box<Done>),
    /// A check has judged.
    Judged(Verdict),
    /// A call waits for a person.
    Waiting {
        /// The call.
        call: TraceId,
        /// The workspace as it is now.
        change: Option<Change>,
        /// What is asked.
        question: String,
    },
    /// The stop switch was seen: nothing was done that is not recorded.
    Stopped,
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
pub struct Desk<'a> {
    recorder: &'a Mutex<RunRecorder>,
    /// Ends of invocations that become durable together with what comes next.
    ended: Mutex<Vec<Event>>,
}

impl<'a> Desk<'a> {
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
    pub fn note(&self, what: Note, body: Value) -> Result<(), EngineError> {
        self.record(Event::Noted { what, body })
    }

    /// The run as it is now.
    #[must_use]
    pub fn run(&self) -> Arc<Run> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).snapshot()
    }
}
