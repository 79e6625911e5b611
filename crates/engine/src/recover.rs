//! What becomes of runs whose processes died: as their loops say.

use windlass_kernel::run::plan::{OnRestart, Plan, Requirement};
use windlass_kernel::run::{Event, Run};
use windlass_kernel::{State, TraceId};
use windlass_store::AcquireError;

use crate::book::Book;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::find::RunFilter;
use crate::log::Watch;

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
            let watch = Watch::start();
            let one = self.take_up(trace_id);
            watch.recovery(trace_id, &one);
            match one {
                Ok(None) | Err((_, EngineError::Acquire(AcquireError::Held { .. }))) => {}
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
            if found.trace.head.state == Some(State::Terminal)
                && let Ok(run) = self.read(found.trace.head.trace_id)
            {
                self.projector.show(&run, &[])?;
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
        let mut book = self.open(trace_id).map_err(fail)?;
        // It may have gone on since it was listed.
        if matches!(book.run().head.state, Some(State::Checkpoint | State::Terminal)) {
            return Ok(None);
        }
        if book.run().is_being_taken_back() {
            let run = self.finish_rollback(book).map_err(fail)?;
            if run.hold.is_some() {
                return Ok(Some((on_restart, run)));
            }
            book = self.open(trace_id).map_err(fail)?;
        }
        if on_restart == OnRestart::Terminate {
            self.terminate(&mut book).map_err(fail)?;
        } else {
            self.ask_to_go_on(&mut book).map_err(fail)?;
        }
        Ok(Some((on_restart, book.run().clone())))
    }

    /// Puts a run whose process died on hold.
    fn ask_to_go_on(&self, book: &mut Book) -> Result<(), EngineError> {
        let hold = self.measured(book.run().restart_hold(), book.run())?;
        let mut events = match book.run().head.state {
            Some(State::Init) => vec![Event::Begun {}],
            Some(State::Resumed) => vec![Event::Continued {}],
            Some(_) | None => Vec::new(),
        };
        events.push(hold);
        book.append(events)?;
        self.show(book)
    }
}
