//! Following runs that other processes write: what is new since the last look, in order, once.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::run::{Event, Run};
use windlass_kernel::{Head, State, Timestamp, TraceId, Uuid7};
use windlass_store::{StoreError, TraceFilter, TraceState};

use crate::book::{fold, open_record};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::find::is_run;

/// How many entries are held in memory at once.
const PAGE: usize = 128;
/// How many traces are asked for at once.
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
pub struct Follower {
    run: Run,
}

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
struct Found {
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
    pub broken: Vec<(TraceId, EngineError)>,
}

impl Follower {
    /// The run as it was when it was last looked at.
    #[must_use]
    pub const fn run(&self) -> &Run {
        &self.run
    }
}

impl Engine {
    /// Follows a run from its first entry.
    #[must_use]
    pub fn follow(&self, trace_id: TraceId) -> Follower {
        Follower { run: Run::empty(trace_id) }
    }

    /// Shows what has been recorded of a run since the last look, each entry checked.
    ///
    /// # Errors
    /// [`EngineError`] when its trace cannot be read or does not hold together.
    pub fn catch_up(
        &self,
        follower: &mut Follower,
        sink: &mut dyn FnMut(&Run, Step<'_>),
    ) -> Result<(), EngineError> {
        let run = &mut follower.run;
        let mut buffer = Vec::new();
        loop {
            let (trace_id, after) = (run.head.trace_id, run.head.sequence_number);
            let page = self.store.list_log_entries(trace_id, after, PAGE)?;
            for record in &page {
                let (event, head) = open_record(run, record, &mut buffer)?;
                fold(run, record, &event, head)?;
                let (sequence_number, ts) = (record.entry.sequence_number, record.entry.ts);
                sink(run, Step { trace_id, sequence_number, ts, event: &event });
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Whether a live process is at work on a run.
    ///
    /// # Errors
    /// [`EngineError`] when that cannot be told.
    pub fn is_live(&self, trace_id: TraceId) -> Result<bool, EngineError> {
        Ok(self.store.is_held(&self.store.load_state(trace_id)?)?)
    }

    /// Begins to watch all runs; what was recorded before is not shown.
    ///
    /// # Errors
    /// [`EngineError`] when the store cannot be read.
    pub fn watcher(&self) -> Result<Watcher, EngineError> {
        let mut watcher = Watcher::default();
        let newest = TraceFilter { open_only: false, state: None, before: None, limit: 1 };
        let newest = self.store.list_traces(&newest)?.first().map(|state| state.head.trace_id);
        watcher.floor = Some(floor(newest));
        for state in self.candidates(&watcher)?.runs.into_values() {
            watcher.keep(state.head);
        }
        Ok(watcher)
    }

    /// Shows what has been recorded of all runs since the last look.
    ///
    /// # Errors
    /// [`EngineError`] when the store itself cannot be read.
    pub fn look(
        &self,
        watcher: &mut Watcher,
        sink: &mut dyn FnMut(Step<'_>),
    ) -> Result<Look, EngineError> {
        let mut look = Look::default();
        let found = self.candidates(watcher)?;
        for (trace_id, state) in &found.runs {
            let known = watcher.heads.get(trace_id).copied();
            let known = known.unwrap_or_else(|| Head::empty(*trace_id));
            match self.show_after(known, state.head.sequence_number, sink) {
                Ok(head) => watcher.keep(head),
                Err(EngineError::Store(error @ StoreError::Unavailable { .. })) => {
                    return Err(error.into());
                }
                Err(error) => {
                    watcher.heads.remove(trace_id);
                    watcher.over.insert(*trace_id);
                    look.broken.push((*trace_id, error));
                }
            }
            let waits = matches!(state.head.state, Some(State::Checkpoint | State::Terminal));
            look.at_work += usize::from(!waits && self.store.is_held(state)?);
        }
        watcher.raise(found.newest);
        Ok(look)
    }

    /// Every run that may have something new: those that have not ended, those that had not when
    /// last seen, and those so young that they may have come and gone since.
    fn candidates(&self, watcher: &Watcher) -> Result<Found, EngineError> {
        let (mut runs, mut newest) = (BTreeMap::new(), None);
        for open_only in [true, false] {
            let mut filter = TraceFilter { open_only, state: None, before: None, limit: TRACES };
            loop {
                let page = self.store.list_traces(&filter)?;
                newest = newest.max(page.first().map(|state| state.head.trace_id));
                let last = page.last().map(|state| state.head.trace_id);
                for state in page.iter().filter(|state| is_run(state)) {
                    runs.insert(state.head.trace_id, *state);
                }
                let past = !open_only && last < watcher.floor;
                if page.len() < TRACES || past {
                    break;
                }
                filter.before = last;
            }
        }
        runs.retain(|trace_id, state| {
            let young = watcher.floor.is_none_or(|floor| *trace_id >= floor);
            let open = !state.head.state.is_some_and(State::is_terminal);
            (young || open) && !watcher.over.contains(trace_id)
        });
        for trace_id in watcher.heads.keys() {
            if !runs.contains_key(trace_id) {
                runs.insert(*trace_id, self.store.load_state(*trace_id)?);
            }
        }
        Ok(Found { runs, newest })
    }

    /// Shows the entries after a head, up to a number; returns the new head.
    fn show_after(
        &self,
        known: Head,
        upto: u64,
        sink: &mut dyn FnMut(Step<'_>),
    ) -> Result<Head, EngineError> {
        let trace_id = known.trace_id;
        // What it has done before does not matter, only where its chain stands.
        let mut run = Run::empty(trace_id);
        run.head = known;
        let mut buffer = Vec::new();
        while run.head.sequence_number < upto {
            let page = self.store.list_log_entries(trace_id, run.head.sequence_number, PAGE)?;
            if page.is_empty() {
                break;
            }
            for record in &page {
                let (event, head) = open_record(&run, record, &mut buffer)?;
                run.head = head;
                let (sequence_number, ts) = (record.entry.sequence_number, record.entry.ts);
                sink(Step { trace_id, sequence_number, ts, event: &event });
            }
        }
        Ok(run.head)
    }
}

impl Watcher {
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

/// The id below which nothing new appears any more, once this one has.
fn floor(newest: Option<TraceId>) -> TraceId {
    let [a, b, c, d, e, f, ..] = newest.map_or([0; 16], |newest| *newest.0.as_bytes());
    let unix_ms = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    TraceId(Uuid7::from_parts(unix_ms.saturating_sub(SLACK_MS), [0; 10]))
}
