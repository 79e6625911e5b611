//! Rows to values and back.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_kernel::{
    ArtifactId, ChainError, Digest, Entry, Head, HolderId, PlanId, SCHEMA_VERSION, Timestamp,
    ToolCallId, TraceId, Uuid7,
};
use windlass_store::{IdempotencyRecord, Reservation, Slot, StoreError, TraceState};

use crate::error::During;

/// The columns that [`read_trace`] expects, in their order.
pub const TRACE_COLUMNS: &str = "trace_id, plan_id, state, last_sequence_number, \
     last_entry_digest, tool_call_id, holder, fence";

/// The columns that [`read_entry`] expects, in their order.
pub const ENTRY_COLUMNS: &str = "e.trace_id, e.sequence_number, e.prev_entry_digest, e.ts, \
     e.from_state, e.to_state, e.artifact_type, e.artifact_id, e.artifact_digest, e.tool_call_id, \
     e.idempotency_key, e.entry_digest";

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

/// Reads an entry from a row of [`ENTRY_COLUMNS`].
pub fn read_entry(row: &Row<'_>) -> Result<Entry, ChainError> {
    let sequence_number = row.get::<_, i64>(1).ok().and_then(|n| u64::try_from(n).ok());
    read_entry_columns(row).map_err(|what| ChainError::Malformed {
        sequence_number: sequence_number.unwrap_or_default(),
        reason: format!("its column {what} is unreadable"),
    })
}

fn read_entry_columns(row: &Row<'_>) -> Result<Entry, Unreadable> {
    let from_state: windlass_kernel::State = name(column(row, 4)?, "from_state")?;
    let key = column(row, 10)?;
    let ts = column(row, 3)?.as_i64().map_err(|_| "ts")?;
    Ok(Entry {
        schema_id: from_state.machine().schema_id().into(),
        schema_version: SCHEMA_VERSION.into(),
        trace_id: TraceId(uuid(column(row, 0)?, "trace_id")?),
        sequence_number: number(column(row, 1)?, "sequence_number")?,
        prev_entry_digest: digest(column(row, 2)?, "prev_entry_digest")?,
        ts: Timestamp::from_unix_ms(ts).map_err(|_| "ts")?,
        from_state,
        to_state: name(column(row, 5)?, "to_state")?,
        artifact_type: name(column(row, 6)?, "artifact_type")?,
        artifact_id: ArtifactId(uuid(column(row, 7)?, "artifact_id")?),
        artifact_digest: digest(column(row, 8)?, "artifact_digest")?,
        tool_call_id: optional_uuid(column(row, 9)?, "tool_call_id")?.map(ToolCallId),
        idempotency_key: if key == ValueRef::Null {
            None
        } else {
            Some(key.as_str().map_err(|_| "idempotency_key")?.to_owned())
        },
        entry_digest: digest(column(row, 11)?, "entry_digest")?,
    })
}

/// Reads a trace from a row of [`TRACE_COLUMNS`].
pub fn read_trace(row: &Row<'_>) -> Result<TraceState, StoreError> {
    read_trace_columns(row).map_err(|what| StoreError::Corrupt {
        reason: format!("a trace's column {what} is unreadable"),
    })
}

fn read_trace_columns(row: &Row<'_>) -> Result<TraceState, Unreadable> {
    let sequence_number = number(column(row, 3)?, "last_sequence_number")?;
    let state = name(column(row, 2)?, "state")?;
    Ok(TraceState {
        head: Head {
            trace_id: TraceId(uuid(column(row, 0)?, "trace_id")?),
            sequence_number,
            entry_digest: digest(column(row, 4)?, "last_entry_digest")?,
            state: (sequence_number > 0).then_some(state),
            tool_call_id: optional_uuid(column(row, 5)?, "tool_call_id")?.map(ToolCallId),
        },
        plan_id: PlanId(uuid(column(row, 1)?, "plan_id")?),
        holder: optional_uuid(column(row, 6)?, "holder")?.map(HolderId),
        fence: number(column(row, 7)?, "fence")?,
    })
}

/// Loads one trace.
pub fn load_trace(
    connection: &Connection,
    trace_id: TraceId,
) -> Result<Option<TraceState>, StoreError> {
    let mut statement = connection
        .prepare_cached(
            "SELECT trace_id, plan_id, state, last_sequence_number, last_entry_digest,
                    tool_call_id, holder, fence
             FROM traces WHERE trace_id = ?1",
        )
        .during("read a trace")?;
    let mut rows = statement.query([trace_id.0.as_bytes()]).during("read a trace")?;
    match rows.next().during("read a trace")? {
        Some(row) => read_trace(row).map(Some),
        None => Ok(None),
    }
}

/// Loads one idempotency record.
pub fn load_key(
    connection: &Connection,
    slot: &Slot,
) -> Result<Option<IdempotencyRecord>, StoreError> {
    let mut statement = connection
        .prepare_cached(
            "SELECT request_digest, trace_id, tool_call_id, effect_digest FROM idempotency
             WHERE server_id = ?1 AND tool_name = ?2 AND idempotency_key = ?3",
        )
        .during("read a key")?;
    let row = statement
        .query_row(params![slot.server_id, slot.tool_name, slot.idempotency_key], |row| {
            Ok(read_key(row, slot))
        })
        .optional()
        .during("read a key")?;
    row.transpose().map_err(|what| StoreError::Corrupt {
        reason: format!("an idempotency record's column {what} is unreadable"),
    })
}

fn read_key(row: &Row<'_>, slot: &Slot) -> Result<IdempotencyRecord, Unreadable> {
    let effect = column(row, 3)?;
    Ok(IdempotencyRecord {
        reservation: Reservation {
            slot: slot.clone(),
            request_digest: digest(column(row, 0)?, "request_digest")?,
            tool_call_id: ToolCallId(uuid(column(row, 2)?, "tool_call_id")?),
        },
        trace_id: TraceId(uuid(column(row, 1)?, "trace_id")?),
        effect_digest: if effect == ValueRef::Null {
            None
        } else {
            Some(digest(effect, "effect_digest")?)
        },
    })
}
