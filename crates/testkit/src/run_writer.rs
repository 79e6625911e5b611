//! Recording a run event by event, without an engine.

use std::sync::Arc;

use windlass_journal::{JournalError, Observer, Recorder};
use windlass_kernel::run::{Event, Run, RunEvent, Started};
use windlass_kernel::{ArtifactId, PlanId, State, TraceId};
use windlass_runtime::Clock;
use windlass_store::{After, KeyAction, Store};

/// Writes the trace of a run, with ids and times of a clock.
pub struct RunWriter {
    recorder: Recorder<Run>,
    clock: Arc<dyn Clock>,
}

impl RunWriter {
    /// Records the first event of a new run.
    ///
    /// # Errors
    /// [`JournalError`], as [`RunWriter::append`].
    pub fn begin(
        store: &Arc<dyn Store>,
        clock: &Arc<dyn Clock>,
        trace_id: TraceId,
        started: Started,
        observers: Vec<Box<dyn Observer<Run>>>,
    ) -> Result<Self, JournalError> {
        let recorder = Recorder::begin(store, trace_id, PlanId(trace_id.0), observers);
        let mut writer = Self { recorder, clock: Arc::clone(clock) };
        writer.append([Event::Started(Box::new(started))])?;
        Ok(writer)
    }

    /// Acquires a recorded run.
    ///
    /// # Errors
    /// [`JournalError`] when a live process holds it, or it fails verification.
    pub fn open(
        store: &Arc<dyn Store>,
        clock: &Arc<dyn Clock>,
        trace_id: TraceId,
        observers: Vec<Box<dyn Observer<Run>>>,
    ) -> Result<Self, JournalError> {
        let recorder = Recorder::open(store, trace_id, observers)?;
        Ok(Self { recorder, clock: Arc::clone(clock) })
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &Run {
        self.recorder.state()
    }

    /// Commits events in one transaction.
    ///
    /// # Errors
    /// [`JournalError`] when they cannot follow, or the store refuses them, or an observer fails.
    pub fn append(&mut self, events: impl IntoIterator<Item = Event>) -> Result<(), JournalError> {
        let trace_id = self.run().head.trace_id;
        for event in events {
            let (ts, artifact_id) = (self.clock.now(), ArtifactId(self.clock.new_id()));
            self.recorder.add(&RunEvent::new(trace_id, artifact_id, ts, event))?;
        }
        let ended = self.run().head.state.is_some_and(State::is_terminal);
        let after = if ended { After::Release } else { After::Keep };
        self.recorder.commit(KeyAction::None, after)
    }

    /// Tells the observers that what was read is durable.
    ///
    /// # Errors
    /// [`JournalError::Observer`].
    pub fn notify(&mut self) -> Result<(), JournalError> {
        self.recorder.notify()
    }
}
