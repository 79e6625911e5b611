//! Rows to values and back.

use std::ops::ControlFlow;

use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};
use windlass_kernel::{Digest, Head, HolderId, PlanId, State, ToolCallId, TraceId, Uuid7};
use windlass_store::{IdempotencyRecord, Reservation, Slot, StoreError, TraceState};

use crate::error::During;
use crate::lines;

/// The columns that [`read_trace`] expects, in their order.
pub const TRACE_COLUMNS: &str = "trace_id, plan_id, state, last_sequence_number, \
     last_entry_digest, tool_call_id, holder, fence, trace_number, open";

/// How many entries a trace can have, as a power of two.
const SEQUENCE_BITS: u32 = 24;

/// The number under which the store files a trace's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceNumber(pub i64);

impl TraceNumber {
    /// The number after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// What all keys of its entries are greater than, and of those of the numbers before it none.
    pub const fn floor(self) -> i64 {
        self.0 << SEQUENCE_BITS
    }

    /// The number of the trace that an entry is filed under, and the entry's place in it.
    pub const fn of_entry(entry_id: i64) -> (Self, u64) {
        let place = entry_id & ((1 << SEQUENCE_BITS) - 1);
        (Self(entry_id >> SEQUENCE_BITS), place.unsigned_abs())
    }

    /// The key of one of its entries.
    pub fn entry_id(self, sequence_number: u64) -> Result<i64, StoreError> {
        i64::try_from(sequence_number)
            .ok()
            .filter(|number| *number < 1 << SEQUENCE_BITS)
            .map(|number| (self.0 << SEQUENCE_BITS) | number)
            .ok_or_else(|| StoreError::Corrupt {
                reason: format!("a trace can have no entry {sequence_number}"),
            })
    }
}

/// Whether a trace has not ended, as its row says beside its state, for the index.
pub fn is_open(state: &TraceState) -> bool {
    !state.head.state.is_some_and(State::is_terminal)
}

/// A trace with the number it is filed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// The trace.
    pub state: TraceState,
    /// Its number.
    pub number: TraceNumber,
}

/// A column that does not hold what it must.
type Unreadable = &'static str;

fn uuid(value: ValueRef<'_>, what: Unreadable) -> Result<Uuid7, Unreadable> {
    let bytes: [u8; 16] =
        value.as_blob().ok().and_then(|bytes| bytes.try_into().ok()).ok_or(what)?;
    Uuid7::from_bytes(bytes).map_err(|_| what)
}

fn optional_uuid(value: ValueRef<'_>, what: Unreadable) -> Result<Option<Uuid7>, Unreadable> {
    if value == ValueRef::Null { Ok(None) } else { uuid(value, what).map(Some) }
}

fn digest(value: ValueRef<'_>, what: Unreadable) -> Result<Digest, Unreadable> {
    let bytes: [u8; 32] =
        value.as_blob().ok().and_then(|bytes| bytes.try_into().ok()).ok_or(what)?;
    Ok(Digest::from_bytes(bytes))
}

fn number(value: ValueRef<'_>, what: Unreadable) -> Result<u64, Unreadable> {
    value.as_i64().ok().and_then(|number| u64::try_from(number).ok()).ok_or(what)
}

fn name<T: std::str::FromStr>(value: ValueRef<'_>, what: Unreadable) -> Result<T, Unreadable> {
    value.as_str().ok().and_then(|text| text.parse().ok()).ok_or(what)
}

fn column<'a>(row: &'a Row<'_>, index: usize) -> Result<ValueRef<'a>, Unreadable> {
    row.get_ref(index).map_err(|_| "a column is missing")
}

/// Reads a trace from a row of [`TRACE_COLUMNS`].
pub fn read_trace(row: &Row<'_>) -> Result<TraceRow, StoreError> {
    read_trace_columns(row).map_err(|what| StoreError::Corrupt {
        reason: format!("a trace's column {what} is unreadable"),
    })
}

fn read_trace_columns(row: &Row<'_>) -> Result<TraceRow, Unreadable> {
    let sequence_number = number(column(row, 3)?, "last_sequence_number")?;
    let current = name(column(row, 2)?, "state")?;
    let state = TraceState {
        head: Head {
            trace_id: TraceId(uuid(column(row, 0)?, "trace_id")?),
            sequence_number,
            entry_digest: digest(column(row, 4)?, "last_entry_digest")?,
            state: (sequence_number > 0).then_some(current),
            tool_call_id: optional_uuid(column(row, 5)?, "tool_call_id")?.map(ToolCallId),
        },
        plan_id: PlanId(uuid(column(row, 1)?, "plan_id")?),
        holder: optional_uuid(column(row, 6)?, "holder")?.map(HolderId),
        fence: number(column(row, 7)?, "fence")?,
    };
    // A trace that is not filed as what it is would not be found by those who look for it.
    if column(row, 9)?.as_i64() != Ok(i64::from(is_open(&state))) {
        return Err("open");
    }
    let number = column(row, 8)?.as_i64().map_err(|_| "trace_number")?;
    Ok(TraceRow { state, number: TraceNumber(number) })
}

/// Loads one trace.
pub fn load_trace(
    connection: &Connection,
    trace_id: TraceId,
) -> Result<Option<TraceRow>, StoreError> {
    let mut statement = connection
        .prepare_cached(
            "SELECT trace_id, plan_id, state, last_sequence_number, last_entry_digest,
                    tool_call_id, holder, fence, trace_number, open
             FROM traces WHERE trace_id = ?1",
        )
        .during("read a trace")?;
    let mut rows = statement.query([trace_id.0.as_bytes()]).during("read a trace")?;
    match rows.next().during("read a trace")? {
        Some(row) => read_trace(row).map(Some),
        None => Ok(None),
    }
}

/// Finds idempotency records that are written in full, without their effects.
pub struct KeyFinder<'a>(CachedStatement<'a>);

impl<'a> KeyFinder<'a> {
    const OPERATION: &'static str = "read a key";

    /// Prepares to find.
    pub fn new(connection: &'a Connection) -> Result<Self, StoreError> {
        connection
            .prepare_cached(
                "SELECT request_digest, trace_id, tool_call_id FROM idempotency
                 WHERE server_id = ?1 AND tool_name = ?2 AND idempotency_key = ?3",
            )
            .during(Self::OPERATION)
            .map(Self)
    }

    /// The record of one key.
    pub fn find(&mut self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError> {
        let row = self
            .0
            .query_row(params![slot.server_id, slot.tool_name, slot.idempotency_key], |row| {
                Ok(read_key(row, slot))
            })
            .optional()
            .during(Self::OPERATION)?;
        row.transpose().map_err(|what| StoreError::Corrupt {
            reason: format!("an idempotency record's column {what} is unreadable"),
        })
    }
}

/// The digest of a filed trace's effect: that of its last entry's artifact, once it has ended.
pub fn load_effect(
    connection: &Connection,
    trace: &TraceRow,
) -> Result<Option<Digest>, StoreError> {
    let last = trace.state.head.sequence_number;
    if is_open(&trace.state) {
        return Ok(None);
    }
    let mut effect = None;
    lines::of_trace(connection, trace.number, last, |line| {
        let digest = line.fields.and_then(|fields| fields.artifact_digest());
        effect = (line.sequence_number == last).then_some(digest);
        Ok(ControlFlow::Break(()))
    })?;
    effect
        .transpose()
        .map_err(|what| StoreError::Corrupt { reason: format!("an entry's {what} is unreadable") })
}

fn read_key(row: &Row<'_>, slot: &Slot) -> Result<IdempotencyRecord, Unreadable> {
    Ok(IdempotencyRecord {
        reservation: Reservation {
            slot: slot.clone(),
            request_digest: digest(column(row, 0)?, "request_digest")?,
            tool_call_id: ToolCallId(uuid(column(row, 2)?, "tool_call_id")?),
        },
        trace_id: TraceId(uuid(column(row, 1)?, "trace_id")?),
        effect_digest: None,
    })
}
