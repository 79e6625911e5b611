//! The engine's loop: what comes next, on record, then done.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_kernel::run::plan::{BudgetedResource, RunOutcome};
use windlass_kernel::run::{Change, Event, Failure, Next, PhaseResult, Run, Usage, Work};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::phase_executor::{Assignment, Completion, PhaseRecorder, Subject, Verdict, WorkResult};
use crate::review::{review_of, reviewer_of};
use crate::run_recorder::RunRecorder;
use crate::stop::StopRequest;

/// A piece of work that was performed.
struct Performed {
    result: WorkResult<Completion>,
    /// What has changed in its workspace, when it waits for a person.
    change: Option<Change>,
    /// The events that are committed together with the result.
    events: Vec<Event>,
}

type Report = (Work, Result<Performed, EngineError>);

/// What the stop switch says.
enum Switch {
    /// Go on.
    Off,
    /// Nothing new may begin; what is under way comes to its end first.
    Waits,
    /// The run has been ended.
    Ended,
}

/// A piece of a loop that a run is taken through.
struct Drive<'a> {
    engine: &'a Engine,
    recorder: &'a Mutex<RunRecorder>,
    /// What is being done, each in a thread of its own.
    under_way: BTreeSet<Work>,
}

impl Engine {
    /// Takes a run on until it ends or waits for a person; returns it as it is then.
    ///
    /// # Errors
    /// [`EngineError`] when something cannot be recorded; the run stays where the journal has it.
    pub fn drive(&self, recorder: RunRecorder) -> Result<Run, EngineError> {
        let recorder = Mutex::new(recorder);
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            let mut drive = Drive { engine: self, recorder: &recorder, under_way: BTreeSet::new() };
            let result = drive.run(scope, &sender, &receiver);
            // What the others have done meanwhile is not lost because one of them was.
            while result.is_err() && !drive.under_way.is_empty() {
                drop(drive.wait(&receiver));
            }
            result
        })?;
        Ok(lock(&recorder).run().clone())
    }

    /// A hold with the workspace as it is now, so that a person is shown just what will be gone on
    /// from; any other event as it is.
    pub(crate) fn measured(&self, event: Event, run: &Run) -> Result<Event, EngineError> {
        let Event::Held(mut held) = event else { return Ok(event) };
        if let Some(change) = self.repository.change(&self.workspace(run), run)? {
            held.change = Some(change);
        }
        Ok(Event::Held(held))
    }

    fn run_name(run: &Run) -> Option<&str> {
        run.started.as_ref().map(|started| started.run_id.as_str())
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
            let next = lock(self.recorder).run().next();
            match next {
                Next::Record(event) if !matches!(*event, Event::PhaseStarted { .. }) => {
                    self.append(*event)?;
                }
                Next::Record(event) => match self.stop()? {
                    Switch::Off => self.append(*event)?,
                    Switch::Waits => self.wait(receiver)?,
                    Switch::Ended => return Ok(()),
                },
                // A person has asked for it; a switch that stops runs does not leave it half done.
                Next::Perform(works) if works == [Work::Restore] => {
                    self.engine.restore(self.recorder)?;
                }
                Next::Perform(works) => match self.stop()? {
                    Switch::Off => self.perform(works, scope, sender, receiver)?,
                    Switch::Waits => self.wait(receiver)?,
                    Switch::Ended => return Ok(()),
                },
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
            works.into_iter().filter(|work| !self.under_way.contains(work)).collect();
        if let Some(checkpointer) = &self.engine.recording.checkpointer {
            checkpointer.mark_stale();
        }
        // Merges are made here, so one at a time.
        if let Some(Work::Merge { phase, attempt }) =
            new.iter().find(|work| matches!(work, Work::Merge { .. }))
        {
            return self.engine.merge(self.recorder, *phase, *attempt);
        }
        // One thing at a time needs no thread.
        if let ([work], true) = (new.as_slice(), self.under_way.is_empty()) {
            let report = perform(self.engine, self.recorder, *work);
            return self.report(*work, report);
        }
        for work in new {
            self.under_way.insert(work);
            let (engine, recorder, sender) = (self.engine, self.recorder, sender.clone());
            scope.spawn(move || {
                // Nobody listens any more only when the run has been given up.
                drop(sender.send((work, perform(engine, recorder, work))));
            });
        }
        self.wait(receiver)
    }

    /// Waits for the next of those at work, and records what came of it.
    fn wait(&mut self, receiver: &Receiver<Report>) -> Result<(), EngineError> {
        let Ok((work, outcome)) = receiver.recv() else { return Ok(()) };
        self.under_way.remove(&work);
        self.report(work, outcome)
    }

    /// Records what came of a piece of work.
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
            Work::Restore => return Ok(()),
        };
        let (phase, check) = {
            let recorder = lock(self.recorder);
            let Some((phase, _)) = recorder.run().phase(at) else { return Ok(()) };
            let check = match work {
                Work::Check { check, .. } => phase.checks.get(check).map(|check| check.id.clone()),
                Work::Review { reviewer, .. } => reviewer_of(phase, reviewer),
                Work::Merge { .. } | Work::Restore | Work::Do { .. } => None,
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
            (_, WorkResult::Waiting { call, question, .. }) => {
                events.push(Event::Waiting { phase, attempt, call, change, question });
            }
            // The switch is looked at again before anything else is done.
            (_, WorkResult::Stopped) => {}
            (
                Work::Do { .. } | Work::Merge { .. } | Work::Restore,
                WorkResult::Finished(Completion::Judged(_)),
            )
            | (
                Work::Check { .. } | Work::Review { .. } | Work::Merge { .. } | Work::Restore,
                WorkResult::Finished(Completion::Done(_)),
            ) => {
                let failure = failed("internal", "the work gave an answer of the wrong kind");
                events.push(Event::PhaseDone { phase, attempt, done: Box::new(failure) });
            }
        }
        if events.is_empty() { Ok(()) } else { self.append_all(events) }
    }

    fn append(&self, event: Event) -> Result<(), EngineError> {
        let mut recorder = lock(self.recorder);
        let event = self.engine.measured(event, recorder.run())?;
        recorder.append(vec![event])
    }

    fn append_all(&self, events: Vec<Event>) -> Result<(), EngineError> {
        let mut recorder = lock(self.recorder);
        recorder.append(events)
    }

    /// Ends the run if the switch is on and nothing is under way any more.
    fn stop(&self) -> Result<Switch, EngineError> {
        let request = {
            let recorder = lock(self.recorder);
            self.engine.stop.requested(Engine::run_name(recorder.run()))
        };
        match request {
            Some(StopRequest { by, reason }) if self.under_way.is_empty() => {
                let detail = format!("stopped by {by}: {reason}");
                let (outcome, reason) = (RunOutcome::Blocked, "kill_switch_active".to_owned());
                self.append(Event::Ended { outcome, reason, detail })?;
                Ok(Switch::Ended)
            }
            Some(_) => Ok(Switch::Waits),
            None => Ok(Switch::Off),
        }
    }
}

/// Has one piece of work done; one that panics has failed.
fn perform(
    engine: &Engine,
    recorder: &Mutex<RunRecorder>,
    work: Work,
) -> Result<Performed, EngineError> {
    let Some(assignment) = assign(engine, recorder, work) else {
        return Ok(Performed { result: WorkResult::Stopped, change: None, events: Vec::new() });
    };
    if let Work::Do { phase, attempt } = work {
        engine.prepare_branch(&assignment.run, phase, attempt)?;
    }
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
            engine.repository.change(&assignment.workspace, &assignment.run)?
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
        Work::Merge { .. } | Work::Restore => return None,
    };
    let phase = run.phase(at)?.0.clone();
    let subject = match work {
        Work::Check { check, .. } => Subject::Check(Box::new(phase.checks.get(check)?.clone())),
        Work::Review { reviewer, .. } => {
            Subject::Check(Box::new(review_of(&run, &phase, reviewer)?))
        }
        Work::Merge { .. } | Work::Restore | Work::Do { .. } => Subject::Work,
    };
    let time_left = run.limit(BudgetedResource::WallMs).map(|limit| {
        Duration::from_millis(limit.saturating_sub(run.used(BudgetedResource::WallMs)))
    });
    let workspace = match subject {
        Subject::Work => engine.workplace(&run, &phase, attempt),
        // What is judged is what has become of the run's workspace.
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
    })
}

/// A try that failed without having done anything.
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
