//! Computing the states of unindexed traces from their entries.

use std::ops::ControlFlow;

use rusqlite::Connection;
use windlass_kernel::{ChainError, Digest, Head, TraceId};
use windlass_store::{StoreError, TraceState};

use crate::entries::visit_traces;
use crate::entry_batch::{Field, StoredEntry, unreadable};
use crate::progress::Progress;
use crate::types::{KeyHash, TraceNumber, TraceRow, is_open};

/// The fence of an unindexed trace: it is indexed before anybody takes it over.
const FIRST_FENCE: u64 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnindexedTrace {
    /// Its state after the last of its entries that can be read. Whether the entries form a valid chain
    /// is checked where they are read, as for an indexed trace.
    pub state: TraceState,
    /// The digest of the artifact of that entry.
    pub last_artifact: Digest,
    /// Why its chain is invalid, if it is; then nothing is appended to it.
    pub damage: Option<ChainError>,
    pub entries: usize,
}

impl UnindexedTrace {
    /// The digest of its effect, once it has ended.
    pub fn effect(&self) -> Option<Digest> {
        (!is_open(&self.state)).then_some(self.last_artifact)
    }
}

/// What the entries under one trace number say.
#[derive(Clone, Debug)]
pub struct ReplayedTrace {
    pub number: TraceNumber,
    /// The trace that its first entry names, if that can be read.
    pub trace_id: Option<TraceId>,
    /// The trace, or why it has no state.
    pub trace: Result<UnindexedTrace, ChainError>,
    /// The hashes of the keys that its entries reserve.
    pub keys: Vec<KeyHash>,
}

impl ReplayedTrace {
    /// The trace as its row will say.
    pub fn row(&self, trace_id: TraceId) -> Result<TraceRow, StoreError> {
        match &self.trace {
            Ok(trace) => Ok(TraceRow::new(trace.state, self.number)),
            Err(source) => Err(StoreError::CorruptTrace { trace_id, source: source.clone() }),
        }
    }
}

/// The highest indexed trace number.
pub fn indexed_upto(connection: &Connection) -> Result<TraceNumber, StoreError> {
    Ok(Progress::load(connection)?.upto)
}

/// Replays all unindexed traces, in the order of their numbers.
pub fn replay_unindexed(connection: &Connection) -> Result<Vec<ReplayedTrace>, StoreError> {
    replay(connection, indexed_upto(connection)?.next(), None)
}

pub fn replay_one(
    connection: &Connection,
    number: TraceNumber,
) -> Result<Option<ReplayedTrace>, StoreError> {
    Ok(replay(connection, number, Some(number))?.pop())
}

fn replay(
    connection: &Connection,
    first: TraceNumber,
    last: Option<TraceNumber>,
) -> Result<Vec<ReplayedTrace>, StoreError> {
    let mut all: Vec<ReplayedTrace> = Vec::new();
    let mut buffer = Vec::with_capacity(1024);
    visit_traces(connection, first, last, |entry| {
        if all.last().is_none_or(|replayed| replayed.number != entry.number) {
            all.push(begin(entry));
        }
        if let Some(replayed) = all.last_mut() {
            apply(replayed, entry, &mut buffer);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for replayed in &mut all {
        if let Ok(UnindexedTrace { damage: Some(damage), state, .. }) = &replayed.trace
            && state.head.sequence_number == 0
        {
            replayed.trace = Err(damage.clone());
        }
    }
    Ok(all)
}

/// The trace before its first entry, which names plan and holder.
fn begin(first: &StoredEntry<'_>) -> ReplayedTrace {
    let trace_id = first.fields.and_then(|fields| fields.trace_id());
    let plan_and_holder = first.fields.and_then(|fields| fields.plan_and_holder());
    let trace = trace_id.and_then(|trace_id| {
        let (plan_id, holder) = plan_and_holder?;
        let head = Head::empty(trace_id);
        let state = TraceState { head, plan_id, holder: Some(holder), fence: FIRST_FENCE };
        Ok(UnindexedTrace { state, last_artifact: Digest::GENESIS, damage: None, entries: 0 })
    });
    ReplayedTrace {
        number: first.number,
        trace_id: trace_id.ok(),
        trace: trace.map_err(|field| unreadable(1, field)),
        keys: Vec::new(),
    }
}

/// Applies an entry to its trace.
fn apply(replayed: &mut ReplayedTrace, stored: &StoredEntry<'_>, buffer: &mut Vec<u8>) {
    if let Ok(fields) = &stored.fields {
        replayed.keys.extend(fields.reserved_hash());
    }
    let Ok(trace) = &mut replayed.trace else { return };
    trace.entries += 1;
    if stored.fields.is_ok_and(|fields| fields.get(Field::Released).is_some()) {
        trace.state.holder = None;
    }
    let entry = match stored.entry() {
        Ok(entry) => entry,
        Err(error) => {
            trace.damage.get_or_insert(error);
            return;
        }
    };
    let head = &mut trace.state.head;
    *head = head.admit(&entry, buffer).unwrap_or_else(|error| {
        trace.damage.get_or_insert(error);
        Head {
            trace_id: head.trace_id,
            sequence_number: entry.sequence_number,
            entry_digest: entry.entry_digest,
            state: Some(entry.to_state),
            tool_call_id: entry.tool_call_id.or(head.tool_call_id),
        }
    });
    trace.last_artifact = entry.artifact_digest;
}
