//! Follows runs that other processes write: reports each new event once, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use windlass_journal::{ChainOnly, Check, JournalError, Reader, is_run};
use windlass_kernel::run::{Event, Run};
use windlass_kernel::{Entry, Head, State, Timestamp, TraceId, Uuid7};
use windlass_store::{Store, StoreError, TraceFilter, TraceState};

/// The number of traces in one page.
const PAGE: usize = 1024;
/// The number of ended runs in one page: few have ended lately.
const PAGE_OF_ENDED: usize = 32;
/// An id is created before it is recorded; an older id may appear later by at most this much.
const SLACK_MS: u64 = 5_000;

/// A durable event of a run.
#[derive(Clone, Copy, Debug)]
pub struct RecordedEvent<'a> {
    /// The run's trace.
    pub trace_id: TraceId,
    /// The sequence number of the entry.
    pub sequence_number: u64,
    /// The time of the entry.
    pub ts: Timestamp,
    /// The event.
    pub event: &'a Event,
}

/// Follows one run and folds it.
#[derive(Clone, Debug)]
pub struct Follower(Reader<Run>);

/// Follows all runs of a project from now on; stores the head of each run that has not ended.
#[derive(Clone, Debug, Default)]
pub struct Watcher {
    heads: BTreeMap<TraceId, Head>,
    /// Runs that need no further polling, as long as lists may still contain them.
    finished: BTreeSet<TraceId>,
    /// Traces below this id cannot be new.
    floor: Option<TraceId>,
    /// The calls that waited for somebody at the last poll, with the numbers of their entries.
    waiting: BTreeMap<TraceId, u64>,
}

/// The runs to poll.
struct Candidates {
    runs: BTreeMap<TraceId, TraceState>,
    /// The calls that no process works on and that have not ended.
    waiting: BTreeMap<TraceId, u64>,
    /// The newest trace of all, calls included.
    newest: Option<TraceId>,
}

/// The result of polling all runs.
#[derive(Debug, Default)]
pub struct PollResult {
    /// The number of runs that a live process is driving.
    pub active: usize,
    /// The calls that began or ceased to wait for somebody since the last poll.
    pub calls: Vec<TraceId>,
    /// Runs that cannot be read; they are not polled again.
    pub unreadable: Vec<(TraceId, JournalError)>,
}

impl Follower {
    /// Follows a run from its first entry.
    #[must_use]
    pub fn new(trace_id: TraceId) -> Self {
        Self(Reader::new(trace_id, Check::Prefix))
    }

    /// The run as far as it was read.
    #[must_use]
    pub const fn run(&self) -> &Run {
        self.0.state()
    }

    /// Emits the events since the last call; each entry is verified.
    ///
    /// # Errors
    /// [`JournalError`] if the trace cannot be read or is corrupt.
    pub fn catch_up(
        &mut self,
        store: &dyn Store,
        sink: &mut (dyn FnMut(&Run, RecordedEvent<'_>) + Send),
    ) -> Result<(), JournalError> {
        self.0.for_each(store, &mut |step| {
            sink(step.state, RecordedEvent::of(step.entry, &step.artifact.event));
            ControlFlow::Continue(())
        })
    }
}

impl<'a> RecordedEvent<'a> {
    const fn of(entry: &Entry, event: &'a Event) -> Self {
        let (trace_id, sequence_number, ts) = (entry.trace_id, entry.sequence_number, entry.ts);
        Self { trace_id, sequence_number, ts, event }
    }
}

impl Watcher {
    /// Starts to follow all runs; earlier events are not emitted.
    ///
    /// # Errors
    /// [`JournalError`] if the store cannot be read.
    pub fn new(store: &dyn Store) -> Result<Self, JournalError> {
        let mut watcher = Self { floor: Some(floor(newest(store)?)), ..Self::default() };
        let found = watcher.candidates(store)?;
        for state in found.runs.into_values() {
            watcher.track(state.head);
        }
        watcher.waiting = found.waiting;
        Ok(watcher)
    }

    /// Emits the events of all runs since the last poll.
    ///
    /// # Errors
    /// [`JournalError`] if the store itself cannot be read.
    pub fn poll(
        &mut self,
        store: &dyn Store,
        sink: &mut (dyn FnMut(RecordedEvent<'_>) + Send),
    ) -> Result<PollResult, JournalError> {
        let mut polled = PollResult::default();
        let found = self.candidates(store)?;
        for (trace_id, state) in &found.runs {
            let known = self.heads.get(trace_id).copied();
            let known = known.unwrap_or_else(|| Head::empty(*trace_id));
            match emit_after(store, known, sink) {
                Ok(head) => self.track(head),
                Err(error @ JournalError::Store(StoreError::Unavailable { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    self.heads.remove(trace_id);
                    self.finished.insert(*trace_id);
                    polled.unreadable.push((*trace_id, error));
                }
            }
            let waits = matches!(state.head.state, Some(State::Checkpoint | State::Terminal));
            polled.active += usize::from(!waits && store.is_held(state)?);
        }
        self.raise_floor(found.newest);
        let differs = |id: &TraceId| found.waiting.get(id) != self.waiting.get(id);
        let all: BTreeSet<TraceId> =
            found.waiting.keys().chain(self.waiting.keys()).copied().collect();
        polled.calls = all.into_iter().filter(differs).collect();
        self.waiting = found.waiting;
        Ok(polled)
    }

    /// Returns every run that may have new events: runs that have not ended, runs that had not ended at
    /// the last poll, and runs so new that they may have started and ended since.
    fn candidates(&self, store: &dyn Store) -> Result<Candidates, JournalError> {
        let newest = newest(store)?;
        let (mut runs, mut waiting) = (BTreeMap::new(), BTreeMap::new());
        let ended = Some(State::Terminal);
        // Only runs are listed among the ended traces: between two polls there may be thousands of calls.
        for (open_only, state, limit) in [(true, None, PAGE), (false, ended, PAGE_OF_ENDED)] {
            let not_before = self.floor.filter(|_| !open_only);
            let mut filter =
                TraceFilter { open_only, state, not_before, ..TraceFilter::all(limit) };
            loop {
                let page = store.list_traces(&filter)?;
                let last = page.last().map(|state| state.head.trace_id);
                for state in &page {
                    let Head { trace_id, sequence_number, .. } = state.head;
                    let may_wait =
                        matches!(state.head.state, Some(State::Pending | State::Executing));
                    if is_run(state) {
                        runs.insert(trace_id, *state);
                    } else if may_wait && !store.is_held(state)? {
                        waiting.insert(trace_id, sequence_number);
                    }
                }
                if page.len() < limit {
                    break;
                }
                filter.before = last;
            }
        }
        runs.retain(|trace_id, state| {
            let young = self.floor.is_none_or(|floor| *trace_id >= floor);
            let open = !state.head.state.is_some_and(State::is_terminal);
            (young || open) && !self.finished.contains(trace_id)
        });
        for trace_id in self.heads.keys() {
            if !runs.contains_key(trace_id) {
                runs.insert(*trace_id, store.load_state(*trace_id)?);
            }
        }
        Ok(Candidates { runs, waiting, newest })
    }

    /// Stores the head of a run until it has ended.
    fn track(&mut self, head: Head) {
        if head.state.is_some_and(State::is_terminal) {
            self.heads.remove(&head.trace_id);
            self.finished.insert(head.trace_id);
        } else {
            self.heads.insert(head.trace_id, head);
        }
    }

    /// Forgets finished runs that are too old to be listed again.
    fn raise_floor(&mut self, newest: Option<TraceId>) {
        let Some(newest) = newest else { return };
        let raised = floor(Some(newest));
        if self.floor.is_none_or(|floor| floor < raised) {
            self.floor = Some(raised);
            self.finished = self.finished.split_off(&raised);
        }
    }
}

/// Emits the events after a head; returns the new head.
fn emit_after(
    store: &dyn Store,
    known: Head,
    sink: &mut (dyn FnMut(RecordedEvent<'_>) + Send),
) -> Result<Head, JournalError> {
    let mut reader = Reader::from(ChainOnly(known), Check::Prefix);
    reader.for_each(store, &mut |step| {
        sink(RecordedEvent::of(step.entry, &step.artifact.event));
        ControlFlow::Continue(())
    })?;
    Ok(reader.state().0)
}

/// The newest trace of all, calls included.
fn newest(store: &dyn Store) -> Result<Option<TraceId>, JournalError> {
    let filter = TraceFilter::all(1);
    Ok(store.list_traces(&filter)?.first().map(|state| state.head.trace_id))
}

/// The id below which no new trace appears after `newest`.
fn floor(newest: Option<TraceId>) -> TraceId {
    let [a, b, c, d, e, f, ..] = newest.map_or([0; 16], |newest| *newest.0.as_bytes());
    let unix_ms = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    TraceId(Uuid7::from_parts(unix_ms.saturating_sub(SLACK_MS), [0; 10]))
}
