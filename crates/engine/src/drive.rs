//! The engine's loop: determines the next step, records it, then performs it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use serde_json::{Value, json};
use windlass_connect::received_signal;
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Doer, Trigger};
use windlass_kernel::run::{Change, Event, Failure, Next, NoteKind, PhaseResult, Run, Usage, Work};

use windlass_workspace::OnConflict;

use crate::cancel::{detail_of, end_by};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::executors::is_unreadable;
use crate::phase_executor::{Assignment, Completion, PhaseRecorder, Subject, Verdict, WorkResult};
use crate::policy_reader::{PolicyStamp, end_by_policy};
use crate::review::{review_of, reviewer_of, with_conditions};
use crate::rollback::unfinished_phase;
use crate::run_recorder::RunRecorder;
use crate::stop::StopRequest;

/// The result of a piece of work.
struct Performed {
    result: WorkResult<Completion>,
    /// The change of its workspace, if it waits for a person.
    change: Option<Change>,
    /// The events that are committed together with the result.
    events: Vec<Event>,
}

type Report = (Work, Result<Performed, EngineError>);

/// Whether the stop switch and the policy let this run continue.
enum StopState {
    /// The run continues.
    Off,
    /// No new work may begin; the work in progress finishes first.
    Draining,
    /// The run has ended.
    Ended,
}

/// A run that is being driven.
struct Drive<'a> {
    engine: &'a Engine,
    recorder: &'a Mutex<RunRecorder>,
    /// The work in progress, each piece in a thread of its own.
    in_progress: BTreeSet<Work>,
    /// The policy's files as they were when the run was last compared with them.
    policy_stamp: Option<PolicyStamp>,
}

impl Engine {
    /// Continues a run until it ends or waits for a person, and returns it.
    ///
    /// # Errors
    /// [`EngineError`] if an event cannot be recorded; the run stays in its recorded state.
    pub fn drive(&self, recorder: RunRecorder) -> Result<Run, EngineError> {
        let recorder = Mutex::new(recorder);
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            let (in_progress, policy_stamp) = (BTreeSet::new(), None);
            let mut drive = Drive { engine: self, recorder: &recorder, in_progress, policy_stamp };
            let result = drive.run(scope, &sender, &receiver);
            // After an error the results of the other threads are still recorded.
            while result.is_err() && !drive.in_progress.is_empty() {
                drop(drive.wait(&receiver));
            }
            if matches!(&result, Err(error) if error.code() == Code::Interrupted) {
                return Err(drive.interrupted());
            }
            result
        })?;
        Ok(lock(&recorder).run().clone())
    }

    /// Adds the current change of the workspace to a hold, so that people see the state from which the
    /// run will continue. Returns any other event unchanged.
    pub(crate) fn with_current_change(
        &self,
        event: Event,
        run: &Run,
    ) -> Result<Event, EngineError> {
        let Event::Held(mut held) = event else { return Ok(event) };
        let left = self.left_by_rollback(run)?;
        let change = self.repository.change_without(&self.workspace(run), run, &left);
        if let Some(mut change) = readable(change)? {
            if held.trigger == Trigger::RestartRequested && unfinished_phase(run).is_some() {
                // Interrupted work may have committed.
                change.commit = self.repository.moved(&self.workspace(run), run)?;
            }
            held.change = Some(change);
        }
        Ok(Event::Held(held))
    }
}

/// The change of a workspace; none if the work wrote files that git cannot read here, so that the run can still wait
/// for a person.
fn readable(change: Result<Option<Change>, EngineError>) -> Result<Option<Change>, EngineError> {
    match change {
        Err(error) if is_unreadable(&error) => Ok(None),
        change => change,
    }
}

pub(crate) fn lock(recorder: &Mutex<RunRecorder>) -> MutexGuard<'_, RunRecorder> {
    recorder.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Drive<'a> {
    fn run<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        sender: &Sender<Report>,
        receiver: &Receiver<Report>,
    ) -> Result<(), EngineError>
    where
        'a: 'scope,
    {
        loop {
            if received_signal().is_some() {
                return Err(EngineError::interrupted(lock(self.recorder).run()));
            }
            let next = lock(self.recorder).run().next();
            match next {
                Next::Record(event) if !matches!(*event, Event::PhaseStarted { .. }) => {
                    self.append(*event)?;
                }
                Next::Record(event) => match self.stop_before_phase()? {
                    StopState::Off => self.append(*event)?,
                    StopState::Draining => self.wait(receiver)?,
                    StopState::Ended => return Ok(()),
                },
                // A person requested the rollback; the stop switch must not leave it incomplete.
                Next::Perform(works) if works == [Work::Restore] => {
                    self.engine.restore(self.recorder, OnConflict::Refuse)?;
                }
                Next::Perform(works) => match self.stop()? {
                    StopState::Off => self.perform(works, scope, sender, receiver)?,
                    StopState::Draining => self.wait(receiver)?,
                    StopState::Ended => return Ok(()),
                },
                // Whoever cancels a run waits for its process.
                Next::Wait if self.stop_request().is_some_and(|request| request.cancel) => {
                    self.stop()?;
                    return Ok(());
                }
                Next::Wait | Next::Done | Next::Nothing => return Ok(()),
            }
        }
    }

    fn perform<'scope>(
        &mut self,
        works: Vec<Work>,
        scope: &'scope Scope<'scope, '_>,
        sender: &Sender<Report>,
        receiver: &Receiver<Report>,
    ) -> Result<(), EngineError>
    where
        'a: 'scope,
    {
        let new: Vec<Work> =
            works.into_iter().filter(|work| !self.in_progress.contains(work)).collect();
        if let Some(checkpointer) = &self.engine.recording.checkpointer {
            checkpointer.mark_stale();
        }
        // Merges run in this thread, so one at a time.
        if let Some(Work::Merge { phase, attempt }) =
            new.iter().find(|work| matches!(work, Work::Merge { .. }))
        {
            return self.engine.merge(self.recorder, *phase, *attempt);
        }
        if new == [Work::Setup] {
            return self.engine.set_up(self.recorder);
        }
        // A single piece of work needs no thread.
        if let ([work], true) = (new.as_slice(), self.in_progress.is_empty()) {
            let report = perform(self.engine, self.recorder, *work);
            return self.report(*work, report);
        }
        for work in new {
            self.in_progress.insert(work);
            let (engine, recorder, sender) = (self.engine, self.recorder, sender.clone());
            scope.spawn(move || {
                // The receiver is gone only after an error has ended the loop.
                drop(sender.send((work, perform(engine, recorder, work))));
            });
        }
        self.wait(receiver)
    }

    /// Records that a signal ended the work, and returns the error that says so.
    fn interrupted(&self) -> EngineError {
        let mut recorder = lock(self.recorder);
        let error = EngineError::interrupted(recorder.run());
        if let EngineError::Interrupted { signal, .. } = &error {
            let body = json!({ "signal": signal });
            // Without the note the run is as after a crash.
            drop(recorder.append(vec![Event::Noted { what: NoteKind::Interrupt, body }]));
        }
        error
    }

    /// Waits for the next result and records it.
    fn wait(&mut self, receiver: &Receiver<Report>) -> Result<(), EngineError> {
        let Ok((work, outcome)) = receiver.recv() else { return Ok(()) };
        self.in_progress.remove(&work);
        self.report(work, outcome)
    }

    /// Records the result of a piece of work.
    fn report(
        &self,
        work: Work,
        outcome: Result<Performed, EngineError>,
    ) -> Result<(), EngineError> {
        let (at, attempt) = match work {
            Work::Check { phase, attempt, .. }
            | Work::Review { phase, attempt, .. }
            | Work::Merge { phase, attempt }
            | Work::Do { phase, attempt } => (phase, attempt),
            Work::Restore | Work::Setup => return Ok(()),
        };
        let (phase, check) = {
            let recorder = lock(self.recorder);
            let Some((phase, _)) = recorder.run().phase(at) else { return Ok(()) };
            let check = match work {
                Work::Check { check, .. } => phase.checks.get(check).map(|check| check.id.clone()),
                Work::Review { reviewer, .. } => reviewer_of(phase, reviewer),
                Work::Merge { .. } | Work::Restore | Work::Setup | Work::Do { .. } => None,
            };
            (phase.id.clone(), check.unwrap_or_default())
        };
        let Performed { result, change, mut events } = outcome?;
        match (work, result) {
            (Work::Do { .. }, WorkResult::Finished(Completion::Done(done))) => {
                events.push(Event::PhaseDone { phase, attempt, done });
            }
            (Work::Check { .. }, WorkResult::Finished(Completion::Judged(verdict))) => {
                let Verdict { verdict, reason, findings, usage, duration_ms, .. } = verdict;
                events.push(Event::Checked {
                    phase,
                    attempt,
                    check,
                    verdict,
                    reason,
                    findings,
                    usage,
                    duration_ms,
                });
            }
            (Work::Review { .. }, WorkResult::Finished(Completion::Judged(verdict))) => {
                let verdict = with_conditions(verdict);
                let Verdict { verdict, reason, findings, conditions, usage, duration_ms } = verdict;
                events.push(Event::Reviewed {
                    phase,
                    attempt,
                    reviewer: check,
                    verdict,
                    conditions,
                    reason,
                    findings,
                    usage,
                    duration_ms,
                });
            }
            (_, WorkResult::Waiting { waits_for, evidence, question, .. }) => {
                events.push(Event::Waiting {
                    phase,
                    attempt,
                    change,
                    evidence,
                    question,
                    waits_for,
                });
            }
            // The loop checks the switch again before any other work.
            (_, WorkResult::Stopped { .. }) => {}
            (
                Work::Do { .. } | Work::Merge { .. } | Work::Restore | Work::Setup,
                WorkResult::Finished(Completion::Judged(_)),
            )
            | (
                Work::Check { .. }
                | Work::Review { .. }
                | Work::Merge { .. }
                | Work::Restore
                | Work::Setup,
                WorkResult::Finished(Completion::Done(_)),
            ) => {
                let failure =
                    failed("internal", "the executor returned a result of the wrong kind");
                events.push(Event::PhaseDone { phase, attempt, done: Box::new(failure) });
            }
        }
        if events.is_empty() { Ok(()) } else { self.append_all(events) }
    }

    fn append(&self, event: Event) -> Result<(), EngineError> {
        let mut recorder = lock(self.recorder);
        let event = self.engine.with_current_change(event, recorder.run())?;
        recorder.append(vec![event])
    }

    fn append_all(&self, events: Vec<Event>) -> Result<(), EngineError> {
        let mut recorder = lock(self.recorder);
        recorder.append(events)
    }

    fn stop_request(&self) -> Option<StopRequest> {
        let recorder = lock(self.recorder);
        let started = recorder.run().started.as_ref();
        self.engine.stop.requested(started.map(|started| started.run_id.as_str()))
    }

    /// Ends the run if the switch is on and no work is in progress.
    fn stop(&self) -> Result<StopState, EngineError> {
        match self.stop_request() {
            Some(request) if self.in_progress.is_empty() => {
                let run = lock(self.recorder).snapshot();
                self.engine.withdraw_call(&run, &detail_of(&request))?;
                self.append(end_by(&request))?;
                Ok(StopState::Ended)
            }
            Some(_) => Ok(StopState::Draining),
            None => Ok(StopState::Off),
        }
    }

    /// As [`Self::stop`], and ends the run if its policy has changed.
    fn stop_before_phase(&mut self) -> Result<StopState, EngineError> {
        let stopped = self.stop()?;
        let (StopState::Off, Some(policy)) = (&stopped, &self.engine.policy) else {
            return Ok(stopped);
        };
        let stamp = policy.stamp();
        if self.policy_stamp.as_ref() == Some(&stamp) {
            return Ok(StopState::Off);
        }
        let run = lock(self.recorder).snapshot();
        if self.engine.has_its_policy(&run)? {
            self.policy_stamp = Some(stamp);
            return Ok(StopState::Off);
        }
        if !self.in_progress.is_empty() {
            return Ok(StopState::Draining);
        }
        self.append(end_by_policy())?;
        Ok(StopState::Ended)
    }
}

/// Performs one piece of work; a panic counts as a failure.
fn perform(
    engine: &Engine,
    recorder: &Mutex<RunRecorder>,
    work: Work,
) -> Result<Performed, EngineError> {
    let Some(mut assignment) = assign(engine, recorder, work) else {
        return Ok(Performed { result: WorkResult::stopped(), change: None, events: Vec::new() });
    };
    if let Work::Do { phase, attempt } = work {
        engine.prepare_branch(&assignment.run, phase, attempt)?;
    }
    assignment.owns_commits = !lock(recorder).moved_by_others && owns_commits(engine, &assignment)?;
    let phase_recorder = PhaseRecorder::new(recorder);
    let done =
        catch_unwind(AssertUnwindSafe(|| engine.executor.perform(&assignment, &phase_recorder)));
    let result = done.unwrap_or_else(|_| {
        let reason = "the work failed inside Windlass";
        Ok(match assignment.subject {
            Subject::Work => {
                WorkResult::Finished(Completion::Done(Box::new(failed("internal", reason))))
            }
            Subject::Check(_) => WorkResult::Finished(Completion::Judged(Verdict {
                verdict: String::new(),
                reason: reason.to_owned(),
                findings: Value::Null,
                conditions: Vec::new(),
                usage: Usage::default(),
                duration_ms: 0,
            })),
        })
    })?;
    let change = match (&assignment.subject, &result) {
        (Subject::Work, WorkResult::Waiting { .. }) => {
            let change = engine.repository.change(&assignment.workspace, &assignment.run);
            let mut change = readable(change)?;
            if let Some(change) = change.as_mut().filter(|_| assignment.owns_commits) {
                change.commit = engine.repository.moved(&assignment.workspace, &assignment.run)?;
            }
            change
        }
        _ => None,
    };
    Ok(Performed { result, change, events: phase_recorder.ended() })
}

fn assign(engine: &Engine, recorder: &Mutex<RunRecorder>, work: Work) -> Option<Assignment> {
    let recorder = lock(recorder);
    let run = recorder.snapshot();
    let (at, attempt) = match work {
        Work::Check { phase, attempt, .. }
        | Work::Review { phase, attempt, .. }
        | Work::Do { phase, attempt } => (phase, attempt),
        Work::Merge { .. } | Work::Restore | Work::Setup => return None,
    };
    let phase = run.phase(at)?.0.clone();
    let subject = match work {
        Work::Check { check, .. } => Subject::Check(Box::new(phase.checks.get(check)?.clone())),
        Work::Review { reviewer, .. } => {
            Subject::Check(Box::new(review_of(&run, &phase, reviewer)?))
        }
        Work::Merge { .. } | Work::Restore | Work::Setup | Work::Do { .. } => Subject::Work,
    };
    let time_left = run.time_left();
    let workspace = match subject {
        Subject::Work => engine.phase_workspace(&run, &phase, attempt),
        // A check judges the run's workspace.
        Subject::Check(_) => engine.workspace(&run),
    };
    Some(Assignment {
        workspace,
        plan_id: recorder.plan_id(),
        run,
        phase,
        at,
        attempt,
        subject,
        time_left,
        owns_commits: false,
    })
}

/// Whether commits that appear on the run's branch during a piece of work are its own. They are not if others have
/// moved the branch before, unless the same work was interrupted, which may have done that.
fn owns_commits(engine: &Engine, assignment: &Assignment) -> Result<bool, EngineError> {
    let Assignment { phase, run, at, workspace, .. } = assignment;
    let may_commit = match &phase.doer {
        Doer::Agent { .. } | Doer::Command { .. } => true,
        // It records its commit itself.
        Doer::Builtin { name, .. } => name != "commit",
        Doer::Person { .. } | Doer::Consensus { .. } => false,
    };
    if phase.branch || !may_commit || !matches!(assignment.subject, Subject::Work) {
        return Ok(false);
    }
    let was_interrupted = run.phase(*at).is_some_and(|(_, state)| state.interrupted);
    Ok(was_interrupted || engine.repository.moved(workspace, run)?.is_none())
}

/// The result of an attempt that failed without doing anything.
pub(crate) fn failed(class: &str, reason: &str) -> PhaseResult {
    PhaseResult {
        answer: json!({}),
        calls: Vec::new(),
        change: None,
        duration_ms: 0,
        facts: std::collections::BTreeMap::new(),
        failure: Some(Failure { class: class.to_owned(), reason: reason.to_owned() }),
        governance: None,
        outputs: std::collections::BTreeMap::new(),
        summary: reason.to_owned(),
        usage: Usage::default(),
    }
}
