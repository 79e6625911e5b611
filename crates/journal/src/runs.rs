//! Finding runs by name, and listing them.

use std::sync::Arc;

use windlass_kernel::run::{Run, RunName};
use windlass_kernel::{Machine, State, TraceId};
use windlass_store::{Store, StoreError, TraceFilter, TraceState};

use crate::error::JournalError;
use crate::reader::{Check, Reader};

/// The most traces that are listed at once.
const PAGE: usize = 512;
/// The fewest traces that are listed at once.
const PAGE_MIN: usize = 32;

/// What stands for the run that was started last.
pub const LAST: &str = "last";
/// How the id of a hold begins; the run's name follows.
const HOLD_PREFIX: &str = "CP_";
/// The length of a run's name.
const NAME_CHARS: usize = "run_20260202_120000_1a2b3c4d".len();
/// The shortest beginning of a name or trace that stands for a run, without what all names begin with.
const BEGINNING_CHARS_MIN: usize = 4;

/// Which runs to list.
#[derive(Clone, Copy, Debug)]
pub struct RunFilter {
    /// Only those that have not ended.
    pub open_only: bool,
    /// Only those in this state.
    pub state: Option<State>,
    /// At most so many.
    pub limit: usize,
}

/// A run in a list: its head, without its history.
#[derive(Clone, Copy, Debug)]
pub struct RunListing {
    /// Its name.
    pub name: RunName,
    /// Its trace.
    pub trace: TraceState,
    /// Whether a live process is at work on it.
    pub live: bool,
}

/// The runs of a store.
#[derive(Clone)]
pub struct Runs {
    store: Arc<dyn Store>,
}

impl Runs {
    /// Reads from a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The store that they are in.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Finds a run by its name, the id of its trace, the id of one of its holds, the unique beginning of its name
    /// or trace, or as `last`.
    ///
    /// # Errors
    /// [`JournalError::NoSuchRun`] when there is none, [`JournalError::SeveralRuns`] when a beginning is not unique.
    pub fn find(&self, name: &str) -> Result<TraceId, JournalError> {
        let run = name.strip_prefix(HOLD_PREFIX).and_then(|hold| hold.get(..NAME_CHARS));
        let name = run.unwrap_or(name);
        let found = match (name.parse::<TraceId>(), name.parse()) {
            (Ok(trace_id), _) => match self.store.load_state(trace_id) {
                Ok(state) => is_run(&state).then_some(trace_id),
                Err(StoreError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            },
            (Err(_), Ok(name)) => self.find_named(&name)?,
            (Err(_), Err(_)) if name == LAST => self.newest()?,
            (Err(_), Err(_)) => self.find_beginning(name)?,
        };
        found.ok_or_else(|| JournalError::NoSuchRun { name: name.chars().take(80).collect() })
    }

    /// The run that was started last.
    fn newest(&self) -> Result<Option<TraceId>, JournalError> {
        let filter = RunFilter { open_only: false, state: None, limit: 1 };
        Ok(self.list(&filter)?.first().map(|run| run.trace.head.trace_id))
    }

    /// The only run whose name or trace begins like this.
    fn find_beginning(&self, start: &str) -> Result<Option<TraceId>, JournalError> {
        if start.strip_prefix("run_").unwrap_or(start).len() < BEGINNING_CHARS_MIN {
            return Ok(None);
        }
        let filter = RunFilter { open_only: false, state: None, limit: usize::MAX };
        let mut found = self.list(&filter)?;
        found.retain(|run| {
            run.name.to_string().starts_with(start)
                || run.trace.head.trace_id.to_string().starts_with(start)
        });
        match found.as_slice() {
            [] => Ok(None),
            [run] => Ok(Some(run.trace.head.trace_id)),
            [first, second, ..] => Err(JournalError::SeveralRuns {
                start: start.to_owned(),
                count: found.len(),
                two: [first.name, second.name],
            }),
        }
    }

    /// Lists runs, newest first.
    ///
    /// # Errors
    /// [`JournalError`] when the store cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<RunListing>, JournalError> {
        // Calls that have ended are by far the most: they are never asked for.
        let mut traces = match filter.state {
            Some(State::Terminal) => Vec::new(),
            state => self.list_some(true, state, filter.limit)?,
        };
        if !filter.open_only && filter.state.is_none_or(|state| state == State::Terminal) {
            traces.extend(self.list_some(false, Some(State::Terminal), filter.limit)?);
        }
        traces.sort_by_key(|trace| std::cmp::Reverse(trace.head.trace_id));
        // One may have ended between the two.
        traces.dedup_by_key(|trace| trace.head.trace_id);
        traces.truncate(filter.limit);
        let found = |trace: TraceState| {
            let live = self.store.is_held(&trace)?;
            Ok(RunListing { name: RunName::of(trace.head.trace_id), trace, live })
        };
        traces.into_iter().map(found).collect()
    }

    /// Lists the newest runs of one kind.
    fn list_some(
        &self,
        open_only: bool,
        state: Option<State>,
        limit: usize,
    ) -> Result<Vec<TraceState>, JournalError> {
        let mut found = Vec::new();
        let mut before = None;
        while found.len() < limit {
            // All that are found may be runs, so that no more are read than are wanted.
            let page_max = PAGE.min(limit - found.len()).max(PAGE_MIN);
            let filter = TraceFilter { open_only, state, before, ..TraceFilter::all(page_max) };
            let page = self.store.list_traces(&filter)?;
            found.extend(page.iter().filter(|trace| is_run(trace)).take(limit - found.len()));
            match page.last() {
                Some(last) if page.len() == page_max => before = Some(last.head.trace_id),
                _ => break,
            }
        }
        Ok(found)
    }

    /// Reads a run and verifies it.
    ///
    /// # Errors
    /// [`JournalError`] when there is none, or it fails verification.
    pub fn read(&self, trace_id: TraceId) -> Result<Run, JournalError> {
        Reader::state_of(self.store(), trace_id, Check::Verified)
    }

    /// The trace of the run with this name.
    ///
    /// # Errors
    /// [`JournalError`] when the store cannot be read.
    pub fn find_named(&self, name: &RunName) -> Result<Option<TraceId>, JournalError> {
        let mut before = Some(name.upper_bound());
        loop {
            let filter = TraceFilter { before, ..TraceFilter::all(PAGE) };
            let page = self.store.list_traces(&filter)?;
            for state in &page {
                let trace_id = state.head.trace_id;
                if trace_id < name.lower_bound() {
                    return Ok(None);
                }
                if name.names(trace_id) && is_run(state) {
                    return Ok(Some(trace_id));
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => before = Some(last.head.trace_id),
                _ => return Ok(None),
            }
        }
    }
}

/// Whether a trace is a run.
#[must_use]
pub fn is_run(state: &TraceState) -> bool {
    state.head.state.is_some_and(|state| state.machine() == Machine::Run)
}
