//! Writes the trace of a run.

use std::sync::Arc;

use windlass_journal::{Observer, Recorder};
use windlass_kernel::run::{Event, IntegrationStep, Run, RunEvent, Started};
use windlass_kernel::{ArtifactId, PlanId, State, Timestamp, TraceId};
use windlass_redact::Redactor;
use windlass_runtime::Clock;
use windlass_store::{After, KeyAction, Store};
use windlass_workspace::SnapshotLock;

use crate::checkpointer::Checkpointer;
use crate::error::EngineError;
use crate::redaction::redact_event;

/// Adds the events that the rules of a loop require.
pub trait EventExpander: Send + Sync {
    /// Returns the events to record instead of `event`, including it. They are committed in one
    /// transaction.
    ///
    /// # Errors
    /// [`EngineError`] if they cannot be determined; then `event` is not recorded either.
    fn expand(&self, run: &Run, event: Event, now: Timestamp) -> Result<Vec<Event>, EngineError>;
}

/// Creates the observers of runs: each recorder has its own.
pub trait RunObservers: Send + Sync {
    /// Creates the observer of one run.
    fn observe(&self, trace_id: TraceId) -> Box<dyn Observer<Run>>;
}

/// The parts with which an engine records every run.
#[derive(Clone)]
pub(crate) struct Recording {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observers: Vec<Arc<dyn RunObservers>>,
    pub(crate) expander: Option<Arc<dyn EventExpander>>,
    pub(crate) checkpointer: Option<Arc<Checkpointer>>,
    pub(crate) redactor: Arc<Redactor>,
}

impl Recording {
    pub(crate) fn observers(&self, trace_id: TraceId) -> Vec<Box<dyn Observer<Run>>> {
        self.observers.iter().map(|observers| observers.observe(trace_id)).collect()
    }
}

/// Records a run whose lease this process holds. Dropping it releases the lease.
///
/// An event is committed together with the events that the loop's rules add and with the checkpoint that
/// is due.
pub struct RunRecorder {
    recording: Recording,
    recorder: Recorder<Run>,
    /// Whether others moved the run's branch during the hold from which this process has resumed it.
    pub(crate) moved_by_others: bool,
}

impl RunRecorder {
    /// Records the first entry of a new run.
    pub(crate) fn begin(
        recording: &Recording,
        trace_id: TraceId,
        started: Started,
    ) -> Result<Self, EngineError> {
        let observers = recording.observers(trace_id);
        let recorder = Recorder::begin(&recording.store, trace_id, PlanId(trace_id.0), observers);
        let recording = recording.clone();
        let mut recorder = Self { recording, recorder, moved_by_others: false };
        recorder.append(vec![Event::Started(Box::new(started))])?;
        Ok(recorder)
    }

    /// Acquires the lease of a recorded run.
    pub(crate) fn open(recording: &Recording, trace_id: TraceId) -> Result<Self, EngineError> {
        let observers = recording.observers(trace_id);
        let recorder = Recorder::open(&recording.store, trace_id, observers)?;
        Ok(Self { recording: recording.clone(), recorder, moved_by_others: false })
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &Run {
        self.recorder.state()
    }

    /// A snapshot of the run, which later events do not change.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Run> {
        self.recorder.snapshot()
    }

    /// The plan id of the run's calls.
    #[must_use]
    pub const fn plan_id(&self) -> PlanId {
        self.recorder.plan_id()
    }

    /// Commits events in one transaction.
    ///
    /// # Errors
    /// [`EngineError`] if the store refuses them or they are not valid in the run's state; then nothing
    /// was written, and the run must be opened again.
    pub fn append(&mut self, events: Vec<Event>) -> Result<(), EngineError> {
        // What a checkpoint stores must not be purged before the checkpoint is recorded.
        let mut storing = None;
        // A merge is recorded in two steps, and nobody else may take the run between them.
        let prepares = events.iter().any(|event| {
            matches!(event, Event::Integration(step) if matches!(**step, IntegrationStep::Prepared(_)))
        });
        for mut event in events {
            // What an expander derives from the event is derived from what is recorded.
            redact_event(&self.recording.redactor, &mut event);
            let events = match &self.recording.expander {
                Some(expander) => expander.expand(self.run(), event, self.recording.clock.now())?,
                None => vec![event],
            };
            for event in events {
                self.add(event)?;
                self.add_due_checkpoint(&mut storing)?;
            }
        }
        let ended = self.run().head.state.is_some_and(State::is_terminal);
        let after = if ended && !prepares { After::Release } else { After::Keep };
        let committed = self.recorder.commit(KeyAction::None, after);
        drop(storing);
        Ok(committed?)
    }

    fn add(&mut self, mut event: Event) -> Result<(), EngineError> {
        redact_event(&self.recording.redactor, &mut event);
        let clock = &self.recording.clock;
        let (trace_id, now) = (self.run().head.trace_id, clock.now());
        if let Event::Held(held) = &mut event
            && held.expires_at.is_some()
        {
            // Its process may have been dead for long since the last entry.
            held.expires_at = self.run().plan().and_then(|plan| plan.hold.expires_at(now));
        }
        let event = RunEvent::new(trace_id, ArtifactId(clock.new_id()), now, event);
        self.recorder.add(&event)?;
        Ok(())
    }

    /// Creates the checkpoint that is due after the last event.
    fn add_due_checkpoint(
        &mut self,
        storing: &mut Option<SnapshotLock>,
    ) -> Result<(), EngineError> {
        let (Some(due), Some(State::Running)) =
            (self.run().due_checkpoint(), self.run().head.state)
        else {
            return Ok(());
        };
        let Some(checkpointer) = &self.recording.checkpointer else {
            let what = "the loop needs checkpoints, but this engine creates none".to_owned();
            return Err(EngineError::NoCheckpoint { what });
        };
        if storing.is_none() {
            *storing = Some(checkpointer.store().lock_for_storing()?);
        }
        let checkpoint = checkpointer.checkpoint(self.run(), due)?;
        self.add(Event::Checkpointed(Box::new(checkpoint)))
    }
}
