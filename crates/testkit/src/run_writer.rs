//! Recording a run event by event, without an engine.

use std::sync::Arc;

use windlass_journal::{JournalError, Observer, Recorder};
use windlass_kernel::run::{Event, Next, Run, RunEvent, RunName, Started};
use windlass_kernel::{ArtifactId, PlanId, State, TraceId};
use windlass_runtime::Clock;
use windlass_store::{After, KeyAction, Shared, Store};

/// The events of a run after the first `skip`, as they are durable.
///
/// # Panics
/// PhaseCondition one cannot be read.
#[must_use]
#[expect(clippy::expect_used, reason = "a test cannot go on without its journal")]
pub fn recorded_events(shared: &Shared, trace_id: TraceId, skip: usize) -> Vec<Event> {
    let mut events = Vec::new();
    shared.tamper(|tables| {
        let bodies = tables.entries.get(&trace_id).into_iter().flatten().skip(skip);
        let bodies = bodies.map(|record| record.body.as_deref().expect("an artifact"));
        events = bodies.map(|body| RunEvent::read(body).expect("an event").event).collect();
    });
    events
}

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

    /// Records a new run until a person, or work, is needed; it is named after its trace.
    ///
    /// # Errors
    /// [`JournalError`], as [`RunWriter::append`].
    pub fn advance(
        store: &Arc<dyn Store>,
        clock: &Arc<dyn Clock>,
        started: Started,
    ) -> Result<Self, JournalError> {
        let trace_id = TraceId(clock.new_id());
        let started = Started { run_id: RunName::of(trace_id).to_string(), ..started };
        let mut writer = Self::begin(store, clock, trace_id, started, Vec::new())?;
        while let Next::Record(event) = writer.run().next() {
            writer.append([*event])?;
        }
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
