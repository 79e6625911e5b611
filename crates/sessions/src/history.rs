//! What the journal has of a session: its notes and its calls.

use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::artifact::CLIENT_WORKSPACE;
use windlass_kernel::{Call, Machine, PlanId, State, Timestamp, TraceId};
use windlass_store::{Store, TraceFilter};

use crate::note::{DatedNote, notes};

/// How many traces are listed at a time.
const PAGE: usize = 500;

/// A session as the journal has it.
#[derive(Clone, Debug, Default)]
pub struct SessionHistory {
    /// What was noted, oldest first.
    pub notes: Vec<DatedNote>,
    /// Its calls, oldest first.
    pub calls: Vec<Call>,
}

impl SessionHistory {
    /// Reads a session.
    ///
    /// # Errors
    /// [`JournalError`] if its run or one of its calls cannot be read.
    pub fn read(store: &dyn Store, run: TraceId) -> Result<Self, JournalError> {
        Ok(Self { notes: notes(store, run)?, calls: calls_of(store, Some(run))? })
    }

    /// Reads all sessions of a project as one.
    ///
    /// # Errors
    /// [`JournalError`] if a run or a call cannot be read.
    pub fn read_all(store: &dyn Store, runs: &[TraceId]) -> Result<Self, JournalError> {
        let mut all = Self::default();
        for run in runs {
            all.notes.extend(notes(store, *run)?);
        }
        all.calls = calls_of(store, None)?;
        Ok(all)
    }

    /// The calls that the client was given and never reported.
    pub fn unreported(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.head.state == Some(State::Executing))
    }
}

/// When a call was requested.
#[must_use]
pub fn requested_at(call: &Call) -> Option<Timestamp> {
    call.request.as_ref().map(|(request, _)| request.ts)
}

/// The calls of a session, or those of all, oldest first.
fn calls_of(store: &dyn Store, run: Option<TraceId>) -> Result<Vec<Call>, JournalError> {
    let mut found = Vec::new();
    let mut filter = TraceFilter {
        machine: Some(Machine::Call),
        plan_id: run.map(|run| PlanId(run.0)),
        ..TraceFilter::all(PAGE)
    };
    loop {
        let page = store.list_traces(&filter)?;
        for trace in &page {
            let call = Reader::<Call>::state_of(store, trace.head.trace_id, Check::Prefix)?;
            let request = call.request.as_ref().map(|(request, _)| &request.proposal.workspace);
            if request.is_some_and(|workspace| workspace == CLIENT_WORKSPACE) {
                found.push(call);
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => filter.before = Some(last.head.trace_id),
            Some(_) | None => break,
        }
    }
    found.reverse();
    Ok(found)
}
