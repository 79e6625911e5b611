//! Recovers runs whose processes died, as their loops specify.

use tracing::{info, warn};
use windlass_journal::{JournalError, RunFilter};
use windlass_kernel::run::plan::{OnRestart, Plan, Requirement};
use windlass_kernel::run::{Event, Resolution, Run, RunName};
use windlass_kernel::{Code, State, TraceId};
use windlass_workspace::OnConflict;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::run_recorder::RunRecorder;

/// The number of newest runs whose views are refreshed if they have ended.
const RECENT_RUNS: usize = 20;

/// The file in the state folder that names the ended runs whose views were refreshed.
const REFRESHED: &str = "refreshed";

/// The result of recovering an interrupted run.
#[derive(Debug)]
pub struct RecoveredRun {
    /// The run's trace.
    pub trace_id: TraceId,
    /// The setting of its loop.
    pub on_restart: OnRestart,
    /// The run, or the error.
    pub result: Result<Run, EngineError>,
}

impl Engine {
    /// Recovers every run whose process died: it continues, waits for a person, or ends. A run on hold goes on if
    /// people have answered it, and ends if nobody did in time; one of a loop that ends interrupted runs and allows one
    /// at a time ends in any case.
    ///
    /// A run that cannot be recovered is not changed, and its error is reported; the others continue.
    ///
    /// # Errors
    /// [`EngineError`] if the store cannot be read.
    pub fn recover(&self) -> Result<Vec<RecoveredRun>, EngineError> {
        let filter = RunFilter { open_only: true, state: None, limit: usize::MAX };
        let mut recovered = Vec::new();
        for found in self.list(&filter)?.into_iter().rev() {
            if found.live {
                continue;
            }
            let trace_id = found.trace.head.trace_id;
            let one = self.recover_run(trace_id);
            log(trace_id, &one);
            match one {
                Ok(None) | Err((_, EngineError::Journal(JournalError::Held(_)))) => {}
                Ok(Some((on_restart, run))) => {
                    recovered.push(RecoveredRun { trace_id, on_restart, result: Ok(run) });
                }
                Err((on_restart, error)) => {
                    let interrupted = error.code() == Code::Interrupted;
                    recovered.push(RecoveredRun { trace_id, on_restart, result: Err(error) });
                    if interrupted {
                        return Ok(recovered);
                    }
                }
            }
        }
        self.refresh_ended_runs()?;
        Ok(recovered)
    }

    /// Ends the interrupted runs of a loop that allows one run at a time and resumes none. The caller
    /// holds the loop's lock, so no other run of it is alive.
    pub(crate) fn end_interrupted_runs(&self, plan: &Plan) -> Result<(), EngineError> {
        if plan.on_restart != OnRestart::Terminate || !plan.require.contains(&Requirement::Single) {
            return Ok(());
        }
        let filter = RunFilter { open_only: true, state: None, limit: usize::MAX };
        for found in self.list(&filter)?.into_iter().rev() {
            if found.live || found.trace.head.state == Some(State::Checkpoint) {
                continue;
            }
            let trace_id = found.trace.head.trace_id;
            if self.read(trace_id)?.plan().is_some_and(|other| other.id == plan.id) {
                self.recover_run(trace_id).map_err(|(_, error)| error)?;
            }
        }
        Ok(())
    }

    /// Refreshes the views of runs that have ended recently: a process may have died after the end was
    /// recorded and before the views were written. What was refreshed once is not refreshed again, so that an idle
    /// recovery does not take longer with each run.
    fn refresh_ended_runs(&self) -> Result<(), EngineError> {
        let filter = RunFilter { open_only: false, state: None, limit: RECENT_RUNS };
        let path = self.settings.state.join(REFRESHED);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let mut now = String::new();
        for found in self.list(&filter)? {
            let head = &found.trace.head;
            if head.state != Some(State::Terminal) {
                continue;
            }
            let line = format!("{} {}", head.trace_id, head.entry_digest);
            if !before.lines().any(|known| known == line) {
                match self.refresh(head.trace_id) {
                    // Whoever repairs it wants it refreshed.
                    Err(EngineError::Journal(error)) if error.is_damage() => continue,
                    refreshed => refreshed?,
                }
            }
            now.push_str(&line);
            now.push('\n');
        }
        if now != before {
            // Where it cannot be kept, the runs are refreshed again.
            drop(std::fs::write(&path, now));
        }
        Ok(())
    }

    /// Recovers one run whose process died; a run that has ended or waits for an answer is not changed.
    #[must_use]
    pub fn recover_one(&self, trace_id: TraceId) -> RecoveredRun {
        let (on_restart, result) = match self.recover_run(trace_id) {
            Ok(Some((on_restart, run))) => (on_restart, Ok(run)),
            Ok(None) => {
                let result = self.read(trace_id);
                let plan = result.as_ref().ok().and_then(Run::plan);
                (plan.map_or(OnRestart::Hold, |plan| plan.on_restart), result)
            }
            Err((on_restart, error)) => (on_restart, Err(error)),
        };
        RecoveredRun { trace_id, on_restart, result }
    }

    fn recover_run(
        &self,
        trace_id: TraceId,
    ) -> Result<Option<(OnRestart, Run)>, (OnRestart, EngineError)> {
        let seen = self.read(trace_id).map_err(|error| (OnRestart::Hold, error))?;
        let on_restart = seen.plan().map_or(OnRestart::Hold, |plan| plan.on_restart);
        let fail = |error| (on_restart, error);
        let is_session = seen.plan().is_some_and(Plan::is_session);
        if is_session || seen.head.state == Some(State::Terminal) {
            return Ok(None);
        }
        if let Some(hold) =
            seen.hold.as_ref().filter(|_| seen.head.state == Some(State::Checkpoint))
        {
            if hold.is_expired(self.recording.clock.now()) {
                let has_ended = self.expire_hold(trace_id).map_err(fail)?;
                let run = self.read(trace_id).map_err(fail)?;
                return Ok(has_ended.then_some((on_restart, run)));
            }
            // What a restart ends does not go on by itself, answered or not.
            let single =
                seen.plan().is_some_and(|plan| plan.require.contains(&Requirement::Single));
            if on_restart == OnRestart::Terminate && single {
                let mut recorder = self.open(trace_id).map_err(fail)?;
                self.terminate(&mut recorder).map_err(fail)?;
                return Ok(Some((on_restart, recorder.run().clone())));
            }
            return match hold.resolution() {
                Resolution::Open => Ok(None),
                Resolution::Approved | Resolution::Rejected => {
                    self.resume(trace_id).map(|run| Some((on_restart, run))).map_err(fail)
                }
            };
        }
        if on_restart == OnRestart::Resume {
            return self.resume(trace_id).map(|run| Some((on_restart, run))).map_err(fail);
        }
        let mut recorder = self.open(trace_id).map_err(fail)?;
        // The run may have changed since it was listed.
        if matches!(recorder.run().head.state, Some(State::Checkpoint | State::Terminal)) {
            return Ok(None);
        }
        if recorder.run().is_rolling_back() {
            let run = self.finish_rollback(recorder, OnConflict::Refuse).map_err(fail)?;
            if run.hold.is_some() || run.ended.is_some() {
                return Ok(Some((on_restart, run)));
            }
            recorder = self.open(trace_id).map_err(fail)?;
        }
        if on_restart == OnRestart::Terminate {
            self.terminate(&mut recorder).map_err(fail)?;
        } else {
            self.hold_after_restart(&mut recorder).map_err(fail)?;
        }
        Ok(Some((on_restart, recorder.run().clone())))
    }

    /// Puts a run whose process died on hold.
    fn hold_after_restart(&self, recorder: &mut RunRecorder) -> Result<(), EngineError> {
        self.hold_with_question(recorder, None)
    }

    /// Puts a run that stopped on hold, with a question that tells why.
    pub(crate) fn hold_with_question(
        &self,
        recorder: &mut RunRecorder,
        question: Option<String>,
    ) -> Result<(), EngineError> {
        let mut hold = recorder.run().restart_hold();
        if let (Event::Held(held), Some(question)) = (&mut hold, question) {
            held.question = question;
        }
        let hold = self.with_current_change(hold, recorder.run())?;
        let mut events = match recorder.run().head.state {
            Some(State::Init) => vec![Event::Begun {}],
            Some(State::Resumed) => vec![Event::Continued {}],
            Some(_) | None => Vec::new(),
        };
        events.push(hold);
        recorder.append(events)
    }
}

fn log(trace_id: TraceId, result: &Result<Option<(OnRestart, Run)>, (OnRestart, EngineError)>) {
    let run_id = RunName::of(trace_id);
    match result {
        Ok(None) => {}
        Ok(Some((on_restart, run))) => {
            let state = run.head.state.map(State::as_str);
            info!(%run_id, %trace_id, ?on_restart, state, "run recovered");
        }
        Err((on_restart, error)) => {
            let code = error.code().as_str();
            warn!(%run_id, %trace_id, ?on_restart, code, "run not recovered");
        }
    }
}
