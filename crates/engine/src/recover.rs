//! What becomes of runs whose processes died: as their loops say.

use tracing::{info, warn};
use windlass_journal::{JournalError, RunFilter};
use windlass_kernel::run::plan::{OnRestart, Plan, Requirement};
use windlass_kernel::run::{Event, Run, RunName};
use windlass_kernel::{State, TraceId};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::run_recorder::RunRecorder;

/// How many of the newest runs are looked at for one whose end was not shown.
const LATELY: usize = 20;

/// What was done with an interrupted run.
#[derive(Debug)]
pub struct Recovered {
    /// The run's trace.
    pub trace_id: TraceId,
    /// What its loop says.
    pub on_restart: OnRestart,
    /// The run as it is now, or why it could not be taken up.
    pub result: Result<Run, EngineError>,
}

impl Engine {
    /// Takes up every run whose process died: it goes on, waits for a person, or ends.
    ///
    /// A run that cannot be taken up is left as it is and reported; the others go on.
    ///
    /// # Errors
    /// [`EngineError`] when the store cannot be read at all.
    pub fn recover(&self) -> Result<Vec<Recovered>, EngineError> {
        let filter = RunFilter { open_only: true, state: None, limit: usize::MAX };
        let mut recovered = Vec::new();
        for found in self.list(&filter)?.into_iter().rev() {
            if found.live || found.trace.head.state == Some(State::Checkpoint) {
                continue;
            }
            let trace_id = found.trace.head.trace_id;
            let one = self.take_up(trace_id);
            log(trace_id, &one);
            match one {
                Ok(None) | Err((_, EngineError::Journal(JournalError::Held(_)))) => {}
                Ok(Some((on_restart, run))) => {
                    recovered.push(Recovered { trace_id, on_restart, result: Ok(run) });
                }
                Err((on_restart, error)) => {
                    recovered.push(Recovered { trace_id, on_restart, result: Err(error) });
                }
            }
        }
        self.show_ends()?;
        Ok(recovered)
    }

    /// Ends the tasks of a loop that takes one at a time and goes on with none: whoever begins the
    /// next one holds the loop's lock, so no other is alive.
    pub(crate) fn end_left_over(&self, plan: &Plan) -> Result<(), EngineError> {
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
                self.take_up(trace_id).map_err(|(_, error)| error)?;
            }
        }
        Ok(())
    }

    /// Writes what is missing of the files of runs that have ended lately: a process may have died
    /// after the end was on record and before it was shown.
    fn show_ends(&self) -> Result<(), EngineError> {
        let filter = RunFilter { open_only: false, state: None, limit: LATELY };
        for found in self.list(&filter)? {
            if found.trace.head.state == Some(State::Terminal) {
                match self.refresh(found.trace.head.trace_id) {
                    Err(EngineError::Journal(error)) if error.is_damage() => {}
                    shown => shown?,
                }
            }
        }
        Ok(())
    }

    /// Takes one run up whose process died; one that has ended or waits is left as it is.
    #[must_use]
    pub fn recover_one(&self, trace_id: TraceId) -> Recovered {
        let (on_restart, result) = match self.take_up(trace_id) {
            Ok(Some((on_restart, run))) => (on_restart, Ok(run)),
            Ok(None) => {
                let result = self.read(trace_id);
                let plan = result.as_ref().ok().and_then(Run::plan);
                (plan.map_or(OnRestart::Hold, |plan| plan.on_restart), result)
            }
            Err((on_restart, error)) => (on_restart, Err(error)),
        };
        Recovered { trace_id, on_restart, result }
    }

    fn take_up(
        &self,
        trace_id: TraceId,
    ) -> Result<Option<(OnRestart, Run)>, (OnRestart, EngineError)> {
        let seen = self.read(trace_id).map_err(|error| (OnRestart::Hold, error))?;
        let on_restart = seen.plan().map_or(OnRestart::Hold, |plan| plan.on_restart);
        let fail = |error| (on_restart, error);
        if matches!(seen.head.state, Some(State::Checkpoint | State::Terminal)) {
            return Ok(None);
        }
        if on_restart == OnRestart::Resume {
            return self.resume(trace_id).map(|run| Some((on_restart, run))).map_err(fail);
        }
        let mut recorder = self.open(trace_id).map_err(fail)?;
        // It may have gone on since it was listed.
        if matches!(recorder.run().head.state, Some(State::Checkpoint | State::Terminal)) {
            return Ok(None);
        }
        if recorder.run().is_rolling_back() {
            let run = self.finish_rollback(recorder).map_err(fail)?;
            if run.hold.is_some() {
                return Ok(Some((on_restart, run)));
            }
            recorder = self.open(trace_id).map_err(fail)?;
        }
        if on_restart == OnRestart::Terminate {
            self.terminate(&mut recorder).map_err(fail)?;
        } else {
            self.ask_to_go_on(&mut recorder).map_err(fail)?;
        }
        Ok(Some((on_restart, recorder.run().clone())))
    }

    /// Puts a run whose process died on hold.
    fn ask_to_go_on(&self, recorder: &mut RunRecorder) -> Result<(), EngineError> {
        let hold = self.measured(recorder.run().restart_hold(), recorder.run())?;
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
