//! The interface between the engine and the executors of phases and checks.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use windlass_kernel::run::plan::{Check, Phase};
use windlass_kernel::run::{
    Event, Failure, InvocationResult, NoteKind, PhaseResult, Run, Usage, WaitsFor,
};
use windlass_kernel::{PlanId, Timestamp};

use crate::error::EngineError;
use crate::run_recorder::RunRecorder;

/// Performs the work of phases and checks.
pub trait PhaseExecutor: Send + Sync {
    /// Performs one piece of work and returns the result; a failure of the work is a result too.
    ///
    /// # Errors
    /// [`EngineError`] only if an event cannot be recorded: the run stops in its recorded state.
    fn perform(
        &self,
        assignment: &Assignment,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult<Completion>, EngineError>;
}

/// One piece of work.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The run at the start of the work.
    pub run: Arc<Run>,
    /// The phase.
    pub phase: Phase,
    /// The index of the phase in the plan.
    pub at: usize,
    /// The number of the attempt.
    pub attempt: u32,
    /// The phase's own work, or one of its checks.
    pub subject: Subject,
    /// The folder to work in.
    pub workspace: PathBuf,
    /// The plan id of the calls.
    pub plan_id: PlanId,
    /// The remaining working time, if it is limited.
    pub time_left: Option<Duration>,
    /// Whether commits that the run's branch has after the work are the work's own.
    pub owns_commits: bool,
}

/// The part of a phase to perform.
#[derive(Clone, Debug)]
pub enum Subject {
    /// The work of the phase.
    Work,
    /// A check.
    Check(Box<Check>),
}

/// The result of a tool call, a program, an agent or a phase.
#[derive(Clone, Debug)]
pub enum WorkResult<T = Answer> {
    /// The work has ended.
    Finished(T),
    /// The work waits; it goes on later.
    Waiting {
        /// What it waits for.
        waits_for: WaitsFor,
        /// What a person should see.
        evidence: Value,
        /// The question to the person.
        question: String,
        /// The usage so far.
        usage: Usage,
    },
    /// The stop switch was on. All effects so far are recorded.
    Stopped {
        /// The usage so far.
        usage: Usage,
    },
}

impl<T> WorkResult<T> {
    /// Stopped without usage.
    #[must_use]
    pub fn stopped() -> Self {
        Self::Stopped { usage: Usage::default() }
    }

    /// What the work returned, or else the result of all work of which it is a part.
    ///
    /// # Errors
    /// The result, if the work waits or was stopped.
    pub fn finished<U>(self) -> Result<T, WorkResult<U>> {
        match self {
            Self::Finished(value) => Ok(value),
            Self::Waiting { waits_for, evidence, question, usage } => {
                Err(WorkResult::Waiting { waits_for, evidence, question, usage })
            }
            Self::Stopped { usage } => Err(WorkResult::Stopped { usage }),
        }
    }
}

/// The answer of an agent, a program or a builtin.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// A JSON object.
    pub answer: Value,
    /// The failure, if the work failed.
    pub failure: Option<Failure>,
    /// When failed work can be tried again, if that is known.
    pub until: Option<Timestamp>,
    /// The usage.
    pub usage: Usage,
}

/// The result of the work of a phase or of a check.
#[derive(Clone, Debug)]
pub enum Completion {
    /// The work has ended.
    Done(Box<PhaseResult>),
    /// The check has a verdict.
    Judged(Verdict),
}

impl WorkResult {
    /// A successful answer without usage.
    #[must_use]
    pub fn answer(answer: Value) -> Self {
        Self::Finished(Answer { answer, ..Answer::default() })
    }

    /// A failure without an answer.
    pub fn failed(class: &str, reason: impl Into<String>) -> Self {
        let failure = Some(Failure { class: class.to_owned(), reason: reason.into() });
        let answer = Value::Object(serde_json::Map::new());
        Self::Finished(Answer { answer, failure, ..Answer::default() })
    }

    /// Sets when failed work can be tried again.
    #[must_use]
    pub fn with_until(mut self, time: Option<Timestamp>) -> Self {
        match &mut self {
            Self::Finished(Answer { until, .. }) => *until = time,
            Self::Waiting { .. } | Self::Stopped { .. } => {}
        }
        self
    }

    /// Sets the usage.
    #[must_use]
    pub fn with_usage(mut self, used: Usage) -> Self {
        match &mut self {
            Self::Finished(Answer { usage, .. })
            | Self::Waiting { usage, .. }
            | Self::Stopped { usage } => *usage = used.recordable(),
        }
        self
    }

    /// The recorded form of an invocation with this result: result, usage and note.
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
            Self::Stopped { usage } => (InvocationResult::Failure, *usage, "stopped".to_owned()),
        }
    }
}

/// The verdict of a check.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// One of the check's verdicts; anything else is a failed check.
    pub verdict: String,
    /// The reason.
    pub reason: String,
    /// The findings that the next attempt must fix.
    pub findings: Value,
    /// The conditions of an approval.
    pub conditions: Vec<String>,
    /// The usage.
    pub usage: Usage,
    /// The duration.
    pub duration_ms: u64,
}

/// An agent or a program that is about to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartingInvocation<'a> {
    /// The agent or the program.
    pub agent: &'a str,
    /// The runner.
    pub runner: &'a str,
    /// The model, if there is one.
    pub model: Option<&'a str>,
    /// The invocation whose agent asked for it, if it is a subagent's.
    pub parent: Option<u64>,
}

/// Records the events of one piece of work.
pub struct PhaseRecorder<'a> {
    recorder: &'a Mutex<RunRecorder>,
    /// Ends of invocations, committed together with the next event.
    ended: Mutex<Vec<Event>>,
}

impl<'a> PhaseRecorder<'a> {
    pub(crate) const fn new(recorder: &'a Mutex<RunRecorder>) -> Self {
        Self { recorder, ended: Mutex::new(Vec::new()) }
    }

    /// Records one event of the work.
    ///
    /// # Errors
    /// [`EngineError`] if it cannot be recorded; then the caller must not act on it.
    pub fn record(&self, event: Event) -> Result<(), EngineError> {
        self.with(|_| event).map(|_| ())
    }

    /// Records an event that depends on the current run, after the pending ends of invocations.
    fn with(&self, event: impl FnOnce(&Run) -> Event) -> Result<Arc<Run>, EngineError> {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = self.ended();
        events.push(event(recorder.run()));
        recorder.append(events)?;
        Ok(recorder.snapshot())
    }

    /// Takes the ends of invocations that are not recorded yet.
    pub(crate) fn ended(&self) -> Vec<Event> {
        std::mem::take(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records that an agent or a program is about to start; returns the number of the invocation.
    ///
    /// # Errors
    /// [`EngineError`] if it cannot be recorded; then it must not be started.
    pub fn invocation_started(
        &self,
        assignment: &Assignment,
        agent: &str,
        runner: &str,
        model: Option<&str>,
    ) -> Result<u64, EngineError> {
        let starting = StartingInvocation { agent, runner, model, parent: None };
        self.start_invocation(assignment, &starting)
    }

    /// Records that an agent is about to start, for a phase or for another agent.
    pub(crate) fn start_invocation(
        &self,
        assignment: &Assignment,
        starting: &StartingInvocation<'_>,
    ) -> Result<u64, EngineError> {
        let run = self.with(|run| Event::InvocationStarted {
            phase: assignment.phase.id.clone(),
            attempt: assignment.attempt,
            invocation: run.invocations + 1,
            agent: starting.agent.to_owned(),
            runner: starting.runner.to_owned(),
            model: starting.model.map(str::to_owned),
            parent: starting.parent,
        })?;
        Ok(run.invocations)
    }

    /// Records that an invocation has ended, in one transaction with its result: if only its end were
    /// durable, a program that has ended would be started again.
    pub fn invocation_ended(
        &self,
        invocation: u64,
        result: InvocationResult,
        usage: Usage,
        duration_ms: u64,
        note: &str,
    ) {
        let note = note.to_owned();
        self.add_ended(Event::InvocationEnded { invocation, result, usage, duration_ms, note });
    }

    /// Records the end of an invocation together with the next event.
    pub(crate) fn add_ended(&self, event: Event) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Records the end of a subagent and its answer in one transaction: others may record meanwhile.
    pub(crate) fn record_both(&self, first: Event, second: Event) -> Result<(), EngineError> {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = self.ended();
        events.extend([first, second]);
        recorder.append(events)
    }

    /// Records a note.
    ///
    /// # Errors
    /// [`EngineError`] if it cannot be recorded.
    pub fn note(&self, what: NoteKind, body: Value) -> Result<(), EngineError> {
        self.record(Event::Noted { what, body })
    }

    /// The current run.
    #[must_use]
    pub fn run(&self) -> Arc<Run> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).snapshot()
    }
}
