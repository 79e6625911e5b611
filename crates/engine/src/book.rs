//! One run being recorded: its fold, its lease, and the entries to append next.

use std::sync::Arc;

use windlass_kernel::run::{Event, Run, RunEvent, Started};
use windlass_kernel::{
    ArtifactId, ArtifactType, ChainError, Digest, Draft, Head, Machine, PlanId, State, TraceId,
    Transition,
};
use windlass_runtime::Source;
use windlass_store::{After, Append, Claim, Guard, KeyAction, NewEntry, Record, Store};

use crate::checkpointer::Checkpointer;
use crate::engine::Escort;
use crate::error::EngineError;
use crate::log::Watch;

/// How many entries are read in one go.
pub(crate) const PAGE: usize = 512;

/// A run and the right to write it, which is given back when it is dropped.
pub struct Book {
    store: Arc<dyn Store>,
    source: Arc<dyn Source>,
    guard: Option<Guard>,
    plan_id: PlanId,
    run: Arc<Run>,
    /// Adds what must be on record with an event.
    escort: Option<Arc<dyn Escort>>,
    /// Makes the checkpoints that are owed.
    keeper: Option<Arc<Checkpointer>>,
    /// The events of the last append.
    last: Vec<Event>,
    /// The fold has gone ahead of the journal: nothing more may be written from it.
    lost: bool,
}

impl Book {
    /// Records the first entry of a new run.
    ///
    /// # Errors
    /// [`EngineError`] when the store refuses it.
    pub fn begin(
        store: &Arc<dyn Store>,
        source: &Arc<dyn Source>,
        trace_id: TraceId,
        started: Started,
    ) -> Result<Self, EngineError> {
        let mut book = Self {
            store: Arc::clone(store),
            source: Arc::clone(source),
            guard: None,
            plan_id: PlanId(trace_id.0),
            run: Arc::new(Run::empty(trace_id)),
            escort: None,
            keeper: None,
            last: Vec::new(),
            lost: false,
        };
        book.append(vec![Event::Started(Box::new(started))])?;
        Ok(book)
    }

    /// Takes a recorded run over.
    ///
    /// # Errors
    /// [`EngineError`] when another process has it, or its trace does not hold together.
    pub fn open(
        store: &Arc<dyn Store>,
        source: &Arc<dyn Source>,
        trace_id: TraceId,
    ) -> Result<Self, EngineError> {
        let guard = Guard::new(Arc::clone(store), store.acquire(trace_id)?);
        let run = Self::read(store.as_ref(), trace_id)?;
        Ok(Self {
            store: Arc::clone(store),
            source: Arc::clone(source),
            guard: Some(guard),
            plan_id: PlanId(trace_id.0),
            run: Arc::new(run),
            escort: None,
            keeper: None,
            last: Vec::new(),
            lost: false,
        })
    }

    /// Folds a run from its trace, checking every entry and the recorded head.
    ///
    /// # Errors
    /// [`EngineError`] when there is none, or its trace does not hold together.
    pub fn read(store: &dyn Store, trace_id: TraceId) -> Result<Run, EngineError> {
        let recorded = store.load_state(trace_id)?;
        if recorded.head.state.is_some_and(|state| state.machine() == Machine::Call) {
            return Err(EngineError::NotARun { trace_id });
        }
        let mut run = Run::empty(trace_id);
        let mut buffer = Vec::with_capacity(1024);
        loop {
            let page = store.list_log_entries(trace_id, run.head.sequence_number, PAGE)?;
            for record in &page {
                apply(&mut run, record, &mut buffer)?;
            }
            if page.len() < PAGE {
                break;
            }
        }
        let corrupt = |source| EngineError::Corrupt { trace_id, source };
        run.head.matches(&recorded.head).map_err(corrupt)?;
        Ok(run)
    }

    /// Has everything from now on recorded with what the escort adds to it.
    #[must_use]
    pub fn with_escort(mut self, escort: Option<Arc<dyn Escort>>) -> Self {
        self.escort = escort;
        self
    }

    /// Has the checkpoints that are owed made.
    #[must_use]
    pub fn with_keeper(mut self, keeper: Option<Arc<Checkpointer>>) -> Self {
        self.keeper = keeper;
        self
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The run as it is now, to be kept while it changes.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Run> {
        Arc::clone(&self.run)
    }

    /// The events of the last append.
    #[must_use]
    pub fn last(&self) -> &[Event] {
        &self.last
    }

    /// The plan that its calls belong to.
    #[must_use]
    pub const fn plan_id(&self) -> PlanId {
        self.plan_id
    }

    /// Appends events in one transaction: all of them are durable when it returns, or none.
    ///
    /// # Errors
    /// [`EngineError`] when the store refuses them, or they cannot have happened; then the book is
    /// lost, and the run must be loaded anew.
    pub fn append(&mut self, events: Vec<Event>) -> Result<(), EngineError> {
        let trace_id = self.run.head.trace_id;
        if self.lost {
            return Err(EngineError::Lost { trace_id });
        }
        // Until the store has said yes: a panic on the way leaves a fold that must not be used.
        self.lost = true;
        let watch = Watch::start();
        let written = self.write(events);
        watch.append(&self.run, &self.last, written.as_ref().err());
        written?;
        self.lost = false;
        Ok(())
    }

    fn write(&mut self, events: Vec<Event>) -> Result<(), EngineError> {
        let trace_id = self.run.head.trace_id;
        let mut entries = Vec::with_capacity(events.len());
        self.last.clear();
        for event in events {
            let events = match &self.escort {
                Some(escort) => escort.escort(&self.run, event, self.source.now())?,
                None => vec![event],
            };
            for event in events {
                let (entry, event) = self.add(event)?;
                entries.push(entry);
                self.last.push(event);
                if let Some(entry) = self.keep()? {
                    entries.push(entry);
                }
            }
        }
        let ended = self.run.head.state.is_some_and(State::is_terminal);
        let after = if ended { After::Release } else { After::Keep };
        let claim = match self.guard.as_ref().and_then(Guard::lease) {
            Some(lease) => Claim::Held(lease),
            None => Claim::New { trace_id, plan_id: self.plan_id },
        };
        let appended = self.store.append(Append { claim, entries, key: KeyAction::None, after })?;
        if let Some(lease) = appended.lease {
            self.guard = Some(Guard::new(Arc::clone(&self.store), lease));
        }
        if let (true, Some(guard)) = (ended, &mut self.guard) {
            guard.released();
        }
        Ok(())
    }

    /// Makes the checkpoint that is owed by what was just added, to be recorded with it.
    fn keep(&mut self) -> Result<Option<NewEntry>, EngineError> {
        let (Some(owed), Some(State::Running)) = (self.run.due_checkpoint(), self.run.head.state)
        else {
            return Ok(None);
        };
        let Some(keeper) = &self.keeper else {
            let what = "the loop wants checkpoints, and nothing keeps them here".to_owned();
            return Err(EngineError::NoCheckpoint { what });
        };
        let checkpoint = keeper.checkpoint(&self.run, owed)?;
        let (entry, event) = self.add(Event::Checkpointed(Box::new(checkpoint)))?;
        self.last.push(event);
        Ok(Some(entry))
    }

    /// Adds an event to the fold; returns its entry.
    fn add(&mut self, event: Event) -> Result<(NewEntry, Event), EngineError> {
        let trace_id = self.run.head.trace_id;
        let ts = self.source.now();
        let artifact_id = ArtifactId(self.source.fresh_id());
        let from = self.run.head.state.unwrap_or(State::Init);
        let to = event.to_state_from(from);
        let event = RunEvent::new(trace_id, artifact_id, ts, event);
        let body = event.to_bytes().map_err(|source| EngineError::Artifact { trace_id, source })?;
        let artifact_digest = Digest::of(&body);
        let draft = Draft {
            ts,
            transition: Transition { from, to, artifact: ArtifactType::RunEvent },
            artifact_id,
            artifact_digest,
            tool_call_id: None,
            idempotency_key: None,
        };
        let corrupt = |source| EngineError::Corrupt { trace_id, source };
        let (entry, head) = self.run.head.append(draft).map_err(corrupt)?;
        Arc::make_mut(&mut self.run)
            .apply(&event.event, artifact_digest, ts, head)
            .map_err(|source| EngineError::Impossible { trace_id, source })?;
        Ok((NewEntry::new(entry, body), event.event))
    }
}

/// Applies one stored record to a run, checking chain, body and event.
fn apply(run: &mut Run, record: &Record, buffer: &mut Vec<u8>) -> Result<(), EngineError> {
    let (event, head) = open_record(run, record, buffer)?;
    fold(run, record, &event, head)
}

/// Adds an event that [`open_record`] gave to the run that it was checked against.
pub(crate) fn fold(
    run: &mut Run,
    record: &Record,
    event: &Event,
    head: Head,
) -> Result<(), EngineError> {
    let trace_id = run.head.trace_id;
    run.apply(event, record.entry.artifact_digest, record.entry.ts, head)
        .map_err(|source| EngineError::Impossible { trace_id, source })
}

/// The event of the record that comes next in a run, checked: chain, body and event.
pub(crate) fn open_record(
    run: &Run,
    record: &Record,
    buffer: &mut Vec<u8>,
) -> Result<(Event, Head), EngineError> {
    let trace_id = run.head.trace_id;
    let corrupt = |source| EngineError::Corrupt { trace_id, source };
    let entry = &record.entry;
    let head = run.head.admit(entry, buffer).map_err(corrupt)?;
    let mismatch = || {
        corrupt(ChainError::Artifact {
            sequence_number: entry.sequence_number,
            artifact: entry.artifact_type.as_str(),
        })
    };
    let body = record.body.as_deref().ok_or_else(mismatch)?;
    if Digest::of(body) != entry.artifact_digest {
        return Err(mismatch());
    }
    let event = RunEvent::read(body).map_err(|_| mismatch())?;
    let agrees = event.trace_id == entry.trace_id
        && event.artifact_id == entry.artifact_id
        && event.ts == entry.ts
        && event.event.to_state_from(entry.from_state) == entry.to_state;
    if agrees { Ok((event.event, head)) } else { Err(mismatch()) }
}
