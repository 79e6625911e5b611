//! What the journal has of a session: its notes and its calls.

use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::{Call, Machine, State, Timestamp, TraceId};
use windlass_store::{Store, TraceFilter};

use crate::guard::TOOL_USE;
use crate::note::{DatedNote, SessionNote, notes};

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
        Ok(Self { notes: notes(store, run)?, calls: calls_of(store, run)? })
    }

    /// Whether a use of a tool with this id of the client is on record, whatever was decided on it.
    #[must_use]
    pub fn has_use(&self, id: &str) -> bool {
        let names = |call: &Call| {
            let resources = call.request.as_ref().map(|(request, _)| &request.resources);
            resources.is_some_and(|all| all.iter().any(|one| one.kind == TOOL_USE && one.id == id))
        };
        let let_through = |(_, note): &DatedNote| matches!(note, SessionNote::LetThrough { id: own, .. } if own == id);
        self.calls.iter().any(names) || self.notes.iter().any(let_through)
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

/// The calls of a session, oldest first.
fn calls_of(store: &dyn Store, run: TraceId) -> Result<Vec<Call>, JournalError> {
    let mut found = Vec::new();
    let mut filter = TraceFilter { open_only: false, state: None, before: None, limit: PAGE };
    loop {
        let page = store.list_traces(&filter)?;
        for trace in &page {
            let is_call = trace.head.state.is_some_and(|state| state.machine() == Machine::Call);
            if is_call && trace.plan_id.0 == run.0 {
                found.push(Reader::<Call>::state_of(store, trace.head.trace_id, Check::Prefix)?);
            }
        }
        // A session's calls are younger than its run.
        match page.last() {
            Some(last) if page.len() == PAGE && last.head.trace_id > run => {
                filter.before = Some(last.head.trace_id);
            }
            Some(_) | None => break,
        }
    }
    found.reverse();
    Ok(found)
}
