//! Where a trace stands by its entries alone: the traces that are not filed yet.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use windlass_kernel::{ChainError, Digest, Head, HolderId, PlanId, ToolCallId, TraceId};
use windlass_store::{IdempotencyRecord, Reservation, Slot, StoreError, TraceState};

use crate::error::During;
use crate::rows::{self, TraceNumber, TraceRow, Unreadable, column, digest, optional_uuid, uuid};

/// The fence of a trace that nobody has taken over: one that is taken over is filed first.
pub const FIRST_FENCE: u64 = 1;

/// A key's record as the reserving entry's row has it; `None` where that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What it is reserved for.
    pub slot: Arc<Slot>,
    /// The digest of server, tool and arguments, and the call.
    pub bound: Option<(Digest, ToolCallId)>,
}

/// A trace that is not filed, as its entries tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfiled {
    /// Where it stands: after the last of its entries that can be read, as its row would say. Whether
    /// they hold together is found where they are read, as it is of a filed trace.
    pub state: TraceState,
    /// The digest of that entry's artifact.
    pub last_artifact: Digest,
    /// Why its chain does not hold, if it does not: then nothing is added to it.
    pub damage: Option<ChainError>,
    /// How many entries it has.
    pub entries: usize,
}

impl Unfiled {
    /// The digest of its effect, once it has ended.
    pub fn effect(&self) -> Option<Digest> {
        (!rows::is_open(&self.state)).then_some(self.last_artifact)
    }
}

/// What the rows under one trace number come to.
#[derive(Clone, Debug)]
pub struct Folded {
    /// The number.
    pub number: TraceNumber,
    /// The trace that its first row names, if it names one.
    pub trace_id: Option<TraceId>,
    /// The trace, or why there is nowhere that it could stand.
    pub trace: Result<Unfiled, ChainError>,
    /// The keys that its rows reserve.
    pub keys: Vec<Key>,
}

impl Folded {
    /// The trace with its number.
    pub fn row(&self, trace_id: TraceId) -> Result<TraceRow, StoreError> {
        match &self.trace {
            Ok(trace) => Ok(TraceRow { state: trace.state, number: self.number }),
            Err(source) => Err(StoreError::CorruptTrace { trace_id, source: source.clone() }),
        }
    }

    /// The record of one of its keys.
    pub fn record(&self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError> {
        let Some(key) = self.keys.iter().find(|key| *key.slot == *slot) else { return Ok(None) };
        let effect = self.trace.as_ref().ok().and_then(Unfiled::effect);
        record(key, self.trace_id, effect).map(Some)
    }
}

/// A key's record in full.
pub fn record(
    key: &Key,
    trace_id: Option<TraceId>,
    effect_digest: Option<Digest>,
) -> Result<IdempotencyRecord, StoreError> {
    let (Some((request_digest, tool_call_id)), Some(trace_id)) = (key.bound, trace_id) else {
        let reason = "an idempotency record of a trace that is not filed is unreadable".to_owned();
        return Err(StoreError::Corrupt { reason });
    };
    let reservation = Reservation { slot: Slot::clone(&key.slot), request_digest, tool_call_id };
    Ok(IdempotencyRecord { reservation, trace_id, effect_digest })
}

/// The highest number whose rows are written; only what is above it is known by its entries alone.
pub fn filed_upto(connection: &Connection) -> Result<TraceNumber, StoreError> {
    let operation = "read up to where it is filed";
    connection
        .prepare_cached("SELECT upto FROM filed")
        .during(operation)?
        .query_row([], |row| row.get(0).map(TraceNumber))
        .during(operation)
}

/// Folds the traces whose numbers are above `after` and not above `last`.
pub fn fold(
    connection: &Connection,
    after: TraceNumber,
    last: Option<TraceNumber>,
) -> Result<Vec<Folded>, StoreError> {
    let operation = "read what is not filed";
    let mut statement = connection
        .prepare_cached(
            "SELECT trace_id, id, prev_entry_digest, ts, from_state, to_state, artifact_type,
                    artifact_id, artifact_digest, tool_call_id, idempotency_key, entry_digest,
                    plan_id, holder, released, server_id, tool_name, request_digest
             FROM entries WHERE id >= ?1 AND id < ?2 ORDER BY id",
        )
        .during(operation)?;
    let end = last.map_or(i64::MAX, |last| last.next().floor());
    let mut rows = statement.query([after.next().floor(), end]).during(operation)?;
    let mut all: Vec<Folded> = Vec::new();
    let mut buffer = Vec::with_capacity(1024);
    while let Some(row) = rows.next().during(operation)? {
        let number = TraceNumber::of_entry(row.get(1).during(operation)?);
        if all.last().is_none_or(|folded| folded.number != number) {
            all.push(begin(number, row));
        }
        if let Some(folded) = all.last_mut() {
            add(folded, row, &mut buffer);
        }
    }
    for folded in &mut all {
        if let Ok(Unfiled { damage: Some(damage), state, .. }) = &folded.trace
            && state.head.sequence_number == 0
        {
            folded.trace = Err(damage.clone());
        }
    }
    Ok(all)
}

/// A trace before its first entry: the row of that has its plan and its holder.
fn begin(number: TraceNumber, row: &Row<'_>) -> Folded {
    let trace_id = column(row, 0).and_then(|value| uuid(value, "trace_id")).map(TraceId);
    let start = || -> Result<Unfiled, Unreadable> {
        Ok(Unfiled {
            state: TraceState {
                head: Head::empty(trace_id?),
                plan_id: PlanId(uuid(column(row, 12)?, "plan_id")?),
                holder: Some(HolderId(uuid(column(row, 13)?, "holder")?)),
                fence: FIRST_FENCE,
            },
            last_artifact: Digest::GENESIS,
            damage: None,
            entries: 0,
        })
    };
    let trace = start().map_err(|what| ChainError::Malformed {
        sequence_number: 1,
        reason: format!("its column {what} is unreadable"),
    });
    Folded { number, trace_id: trace_id.ok(), trace, keys: Vec::new() }
}

/// Adds a row to its trace.
fn add(folded: &mut Folded, row: &Row<'_>, buffer: &mut Vec<u8>) {
    folded.keys.extend(read_key(row));
    let Ok(trace) = &mut folded.trace else { return };
    trace.entries += 1;
    if column(row, 14).is_ok_and(|released| released != ValueRef::Null) {
        trace.state.holder = None;
    }
    let entry = match rows::read_entry(row) {
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

/// The key that a row reserves, if it does.
fn read_key(row: &Row<'_>) -> Option<Key> {
    let text = |index| column(row, index).ok()?.as_str().ok().map(str::to_owned);
    let slot = Slot { server_id: text(15)?, tool_name: text(16)?, idempotency_key: text(10)? };
    let bound = || -> Result<_, Unreadable> {
        let digest = digest(column(row, 17)?, "request_digest")?;
        let call = optional_uuid(column(row, 9)?, "tool_call_id")?.ok_or("tool_call_id")?;
        Ok((digest, ToolCallId(call)))
    };
    Some(Key { slot: Arc::new(slot), bound: bound().ok() })
}
