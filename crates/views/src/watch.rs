//! Following runs that other processes write: what is new since the last look, in order, once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use windlass_journal::{ChainOnly, Check, JournalError, Reader, is_run};
use windlass_kernel::run::{Event, Run};
use windlass_kernel::{Entry, Head, State, Timestamp, TraceId, Uuid7};
use windlass_store::{Store, StoreError, TraceFilter, TraceState};

/// How many traces are listed at once.
const TRACES: usize = 1024;
/// Ids are made before they are recorded: so much later may an older one appear.
const SLACK_MS: u64 = 5_000;

/// One durable step of a run.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The run's trace.
    pub trace_id: TraceId,
    /// The number of the entry.
    pub sequence_number: u64,
    /// When it was recorded.
    pub ts: Timestamp,
    /// What happened.
    pub event: &'a Event,
}

/// One run, folded as far as it was read.
#[derive(Clone, Debug)]
pub struct Follower(Reader<Run>);

/// All runs of a project, from when it was made; it keeps a head for each that has not ended.
#[derive(Clone, Debug, Default)]
pub struct Watcher {
    heads: BTreeMap<TraceId, Head>,
    /// Those that need not be looked at again, as long as lists may still show them.
    over: BTreeSet<TraceId>,
    /// Nothing older than this can be new.
    floor: Option<TraceId>,
}

/// What is to be looked at.
struct Candidates {
    runs: BTreeMap<TraceId, TraceState>,
    /// The newest trace of all, calls included.
    newest: Option<TraceId>,
}

/// What a look at all runs found.
#[derive(Debug, Default)]
pub struct Look {
    /// How many runs a live process is at work on.
    pub at_work: usize,
    /// Runs that cannot be read; they are not looked at again.
    pub broken: Vec<(TraceId, JournalError)>,
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

    /// Shows what has been recorded of a run since the last look, each entry checked.
    ///
    /// # Errors
    /// [`JournalError`] when its trace cannot be read or does not hold together.
    pub fn catch_up(
        &mut self,
        store: &dyn Store,
        sink: &mut (dyn FnMut(&Run, Step<'_>) + Send),
    ) -> Result<(), JournalError> {
        self.0.for_each(store, &mut |step| {
            sink(step.state, Step::of(step.entry, &step.artifact.event));
            ControlFlow::Continue(())
        })
    }
}

impl<'a> Step<'a> {
    const fn of(entry: &Entry, event: &'a Event) -> Self {
        let (trace_id, sequence_number, ts) = (entry.trace_id, entry.sequence_number, entry.ts);
        Self { trace_id, sequence_number, ts, event }
    }
}

impl Watcher {
    /// Begins to watch all runs; what was recorded before is not shown.
    ///
    /// # Errors
    /// [`JournalError`] when the store cannot be read.
    pub fn new(store: &dyn Store) -> Result<Self, JournalError> {
        let mut watcher = Self::default();
        let newest = TraceFilter { open_only: false, state: None, before: None, limit: 1 };
        let newest = store.list_traces(&newest)?.first().map(|state| state.head.trace_id);
        watcher.floor = Some(floor(newest));
        for state in watcher.candidates(store)?.runs.into_values() {
            watcher.keep(state.head);
        }
        Ok(watcher)
    }

    /// Shows what has been recorded of all runs since the last look.
    ///
    /// # Errors
    /// [`JournalError`] when the store itself cannot be read.
    pub fn look(
        &mut self,
        store: &dyn Store,
        sink: &mut (dyn FnMut(Step<'_>) + Send),
    ) -> Result<Look, JournalError> {
        let mut look = Look::default();
        let found = self.candidates(store)?;
        for (trace_id, state) in &found.runs {
            let known = self.heads.get(trace_id).copied();
            let known = known.unwrap_or_else(|| Head::empty(*trace_id));
            match show_after(store, known, sink) {
                Ok(head) => self.keep(head),
                Err(error @ JournalError::Store(StoreError::Unavailable { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    self.heads.remove(trace_id);
                    self.over.insert(*trace_id);
                    look.broken.push((*trace_id, error));
                }
            }
            let waits = matches!(state.head.state, Some(State::Checkpoint | State::Terminal));
            look.at_work += usize::from(!waits && store.is_held(state)?);
        }
        self.raise(found.newest);
        Ok(look)
    }

    /// Every run that may have something new: those that have not ended, those that had not when
    /// last seen, and those so young that they may have come and gone since.
    fn candidates(&self, store: &dyn Store) -> Result<Candidates, JournalError> {
        let (mut runs, mut newest) = (BTreeMap::new(), None);
        for open_only in [true, false] {
            let mut filter = TraceFilter { open_only, state: None, before: None, limit: TRACES };
            loop {
                let page = store.list_traces(&filter)?;
                newest = newest.max(page.first().map(|state| state.head.trace_id));
                let last = page.last().map(|state| state.head.trace_id);
                for state in page.iter().filter(|state| is_run(state)) {
                    runs.insert(state.head.trace_id, *state);
                }
                let past = !open_only && last < self.floor;
                if page.len() < TRACES || past {
                    break;
                }
                filter.before = last;
            }
        }
        runs.retain(|trace_id, state| {
            let young = self.floor.is_none_or(|floor| *trace_id >= floor);
            let open = !state.head.state.is_some_and(State::is_terminal);
            (young || open) && !self.over.contains(trace_id)
        });
        for trace_id in self.heads.keys() {
            if !runs.contains_key(trace_id) {
                runs.insert(*trace_id, store.load_state(*trace_id)?);
            }
        }
        Ok(Candidates { runs, newest })
    }

    /// Remembers where a run stands, as long as more can come.
    fn keep(&mut self, head: Head) {
        if head.state.is_some_and(State::is_terminal) {
            self.heads.remove(&head.trace_id);
            self.over.insert(head.trace_id);
        } else {
            self.heads.insert(head.trace_id, head);
        }
    }

    /// Forgets what is too old to be shown by a list again.
    fn raise(&mut self, newest: Option<TraceId>) {
        let Some(newest) = newest else { return };
        let raised = floor(Some(newest));
        if self.floor.is_none_or(|floor| floor < raised) {
            self.floor = Some(raised);
            self.over = self.over.split_off(&raised);
        }
    }
}

/// Shows the entries after a head; returns the new head.
fn show_after(
    store: &dyn Store,
    known: Head,
    sink: &mut (dyn FnMut(Step<'_>) + Send),
) -> Result<Head, JournalError> {
    let mut reader = Reader::from(ChainOnly(known), Check::Prefix);
    reader.for_each(store, &mut |step| {
        sink(Step::of(step.entry, &step.artifact.event));
        ControlFlow::Continue(())
    })?;
    Ok(reader.state().0)
}

/// The id below which nothing new appears any more, once this one has.
fn floor(newest: Option<TraceId>) -> TraceId {
    let [a, b, c, d, e, f, ..] = newest.map_or([0; 16], |newest| *newest.0.as_bytes());
    let unix_ms = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    TraceId(Uuid7::from_parts(unix_ms.saturating_sub(SLACK_MS), [0; 10]))
}
