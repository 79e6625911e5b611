//! Finding runs by their names, and listing them.

use std::sync::Arc;

use windlass_kernel::run::{Ended, Event, Hold, Run, RunEvent, RunName};
use windlass_kernel::{Digest, Machine, State, Timestamp, TraceId};
use windlass_store::{Store, StoreError, TraceFilter, TraceState};

use crate::book::Book;
use crate::engine::Engine;
use crate::error::EngineError;

/// How many traces are looked at in one go.
const PAGE: usize = 512;
/// And at least so many.
const PAGE_MIN: usize = 32;

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

/// A run in a list: where it stands, without its history.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Its name.
    pub name: RunName,
    /// Its trace.
    pub trace: TraceState,
    /// Whether a live process is at work on it.
    pub live: bool,
}

/// One event of a run, by itself.
struct One {
    event: Event,
    ts: Timestamp,
    entry_digest: Digest,
    artifact_digest: Digest,
}

impl Engine {
    /// Finds a run by its name or its trace's id.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when there is none.
    pub fn find(&self, name: &str) -> Result<TraceId, EngineError> {
        let not_found = || EngineError::NotFound { name: name.chars().take(80).collect() };
        if let Ok(trace_id) = name.parse::<TraceId>() {
            return match self.store.load_state(trace_id) {
                Ok(state) if is_run(&state) => Ok(trace_id),
                Ok(_) | Err(StoreError::NotFound { .. }) => Err(not_found()),
                Err(error) => Err(error.into()),
            };
        }
        let name: RunName = name.parse().map_err(|_| not_found())?;
        find_named(self.store.as_ref(), &name)?.ok_or_else(not_found)
    }

    /// Lists runs, newest first.
    ///
    /// # Errors
    /// [`EngineError`] when the store cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<Found>, EngineError> {
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
            Ok(Found { name: RunName::of(trace.head.trace_id), trace, live })
        };
        traces.into_iter().map(found).collect()
    }

    /// Lists the newest runs of one kind.
    fn list_some(
        &self,
        open_only: bool,
        state: Option<State>,
        limit: usize,
    ) -> Result<Vec<TraceState>, EngineError> {
        let mut found = Vec::new();
        let mut before = None;
        while found.len() < limit {
            // All that are found may be runs, so that no more are read than are wanted.
            let page_max = PAGE.min(limit - found.len()).max(PAGE_MIN);
            let filter = TraceFilter { open_only, state, before, limit: page_max };
            let page = self.store.list_traces(&filter)?;
            found.extend(page.iter().filter(|trace| is_run(trace)).take(limit - found.len()));
            match page.last() {
                Some(last) if page.len() == page_max => before = Some(last.head.trace_id),
                _ => break,
            }
        }
        Ok(found)
    }

    /// Reads what a list shows of a run: how it began, and how it ended or what it waits for. Only
    /// of a run that is under way is all of it read.
    ///
    /// # Errors
    /// [`EngineError`] when its trace does not hold together where it is looked at.
    pub fn glance(&self, found: &Found) -> Result<Run, EngineError> {
        let head = found.trace.head;
        let ends = (self.one(head.trace_id, 1)?, self.one(head.trace_id, head.sequence_number)?);
        let (Some(first), Some(last)) = ends else { return self.read(head.trace_id) };
        let (Event::Started(started), ts) = (first.event, first.ts) else {
            return self.read(head.trace_id);
        };
        let mut run = Run::empty(head.trace_id);
        if last.entry_digest != head.entry_digest {
            return self.read(head.trace_id);
        }
        if let Event::Ended { outcome, reason, detail } = last.event {
            run.ended = Some(Ended { outcome, reason, detail, at: last.ts });
        } else if let Event::Held(held) = last.event {
            let (held, shown, since) = (*held, last.artifact_digest, last.ts);
            run.hold = Some(Hold { held, shown, since, votes: Vec::new() });
        } else {
            return self.read(head.trace_id);
        }
        run.head = head;
        run.started = Some(Arc::from(started));
        run.started_at = Some(ts);
        Ok(run)
    }

    /// One event of a run, checked by itself; `None` when it is not there as it must be.
    fn one(&self, trace_id: TraceId, number: u64) -> Result<Option<One>, EngineError> {
        let page = self.store.list_log_entries(trace_id, number.saturating_sub(1), 1)?;
        let Some(record) = page.into_iter().next() else { return Ok(None) };
        let entry = &record.entry;
        let whole = entry.trace_id == trace_id
            && entry.sequence_number == number
            && entry.compute_digest(&mut Vec::with_capacity(1024)) == entry.entry_digest;
        let body = record.body.filter(|body| Digest::of(body) == entry.artifact_digest);
        let (true, Some(body)) = (whole, body) else { return Ok(None) };
        let Ok(event) = RunEvent::read(&body) else { return Ok(None) };
        let (entry_digest, artifact_digest) = (entry.entry_digest, entry.artifact_digest);
        Ok(Some(One { event: event.event, ts: entry.ts, entry_digest, artifact_digest }))
    }

    /// Reads a run as recorded.
    ///
    /// # Errors
    /// [`EngineError`] when there is none, or its trace does not hold together.
    pub fn read(&self, trace_id: TraceId) -> Result<Run, EngineError> {
        Book::read(self.store.as_ref(), trace_id)
    }
}

/// The trace of the run with this name.
pub(crate) fn find_named(
    store: &dyn Store,
    name: &RunName,
) -> Result<Option<TraceId>, EngineError> {
    let mut before = Some(name.upper_bound());
    loop {
        let filter = TraceFilter { open_only: false, state: None, before, limit: PAGE };
        let page = store.list_traces(&filter)?;
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

pub(crate) fn is_run(state: &TraceState) -> bool {
    state.head.state.is_some_and(|state| state.machine() == Machine::Run)
}
