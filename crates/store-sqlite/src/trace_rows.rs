//! The table `traces`.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use windlass_kernel::{Digest, Head, HolderId, PlanId, State, ToolCallId, TraceId, Uuid7};
use windlass_store::{StoreError, TraceState};

use crate::progress::checksum;
use crate::sql::{execute, query_first};
use crate::types::{TraceNumber, TraceRow, Unreadable, is_open};

/// The columns that [`read`] expects, in their order.
pub const COLUMNS: &str = "trace_id, plan_id, state, last_sequence_number, last_entry_digest, \
     tool_call_id, holder, fence, trace_number, open, redispatches, checksum";

pub fn read(row: &Row<'_>) -> Result<TraceRow, StoreError> {
    read_columns(row).map_err(|column| StoreError::Corrupt {
        reason: format!("a trace's column {column} is unreadable"),
    })
}

fn read_columns(row: &Row<'_>) -> Result<TraceRow, Unreadable> {
    let sequence_number = number(column(row, 3)?, "last_sequence_number")?;
    let current: State =
        column(row, 2)?.as_str().ok().and_then(|text| text.parse().ok()).ok_or("state")?;
    let digest = column(row, 4)?.as_blob().ok().and_then(|bytes| bytes.try_into().ok());
    let state = TraceState {
        head: Head {
            trace_id: TraceId(uuid(column(row, 0)?, "trace_id")?),
            sequence_number,
            entry_digest: digest.map(Digest::from_bytes).ok_or("last_entry_digest")?,
            state: (sequence_number > 0).then_some(current),
            tool_call_id: optional_uuid(column(row, 5)?, "tool_call_id")?.map(ToolCallId),
        },
        plan_id: PlanId(uuid(column(row, 1)?, "plan_id")?),
        holder: optional_uuid(column(row, 6)?, "holder")?.map(HolderId),
        fence: number(column(row, 7)?, "fence")?,
    };
    // The index of open traces depends on this column.
    if column(row, 9)?.as_i64() != Ok(i64::from(is_open(&state))) {
        return Err("open");
    }
    let number = TraceNumber(column(row, 8)?.as_i64().map_err(|_| "trace_number")?);
    let redispatches = match column(row, 10)? {
        ValueRef::Null => None,
        value @ (ValueRef::Integer(_)
        | ValueRef::Real(_)
        | ValueRef::Text(_)
        | ValueRef::Blob(_)) => {
            let bytes = value.as_blob().ok().and_then(|bytes| bytes.try_into().ok());
            Some(bytes.map(Digest::from_bytes).ok_or("redispatches")?)
        }
    };
    let row_read = TraceRow { state, number, redispatches };
    if column(row, 11)?.as_i64() != Ok(checksum_of(&row_read)) {
        return Err("checksum");
    }
    Ok(row_read)
}

/// The types of values, as the checksum of a row has them; 0 for none.
const NUMBER: u8 = 1;
const TEXT: u8 = 2;
const BYTES: u8 = 3;

/// The checksum of a row: of each value its type, its length and its bytes.
fn checksum_of(row: &TraceRow) -> i64 {
    let TraceRow { state, number, redispatches } = row;
    let head = &state.head;
    let mut all = Vec::with_capacity(320);
    let mut add = |kind: u8, bytes: Option<&[u8]>| {
        all.push(if bytes.is_some() { kind } else { 0 });
        all.extend_from_slice(&(bytes.map_or(0, <[u8]>::len) as u64).to_be_bytes());
        all.extend_from_slice(bytes.unwrap_or_default());
    };
    add(BYTES, Some(head.trace_id.0.as_bytes()));
    add(BYTES, Some(state.plan_id.0.as_bytes()));
    add(NUMBER, Some(&number.0.to_be_bytes()));
    add(TEXT, Some(head.state.unwrap_or(State::Pending).as_str().as_bytes()));
    add(NUMBER, Some(&head.sequence_number.to_be_bytes()));
    add(BYTES, Some(head.entry_digest.as_bytes()));
    add(BYTES, head.tool_call_id.as_ref().map(|id| &id.0.as_bytes()[..]));
    add(BYTES, state.holder.as_ref().map(|id| &id.0.as_bytes()[..]));
    add(NUMBER, Some(&state.fence.to_be_bytes()));
    add(NUMBER, Some(&u64::from(is_open(state)).to_be_bytes()));
    add(BYTES, redispatches.as_ref().map(|digest| &digest.as_bytes()[..]));
    checksum(&all)
}

fn column<'a>(row: &'a Row<'_>, index: usize) -> Result<ValueRef<'a>, Unreadable> {
    row.get_ref(index).map_err(|_| "a column is missing")
}

fn uuid(value: ValueRef<'_>, column: Unreadable) -> Result<Uuid7, Unreadable> {
    let bytes = value.as_blob().ok().and_then(|bytes| bytes.try_into().ok()).ok_or(column)?;
    Uuid7::from_bytes(bytes).map_err(|_| column)
}

fn optional_uuid(value: ValueRef<'_>, column: Unreadable) -> Result<Option<Uuid7>, Unreadable> {
    if value == ValueRef::Null { Ok(None) } else { uuid(value, column).map(Some) }
}

fn number(value: ValueRef<'_>, column: Unreadable) -> Result<u64, Unreadable> {
    value.as_i64().ok().and_then(|number| u64::try_from(number).ok()).ok_or(column)
}

/// Reads the id of a row of which nothing else may be readable.
pub fn read_id(row: &Row<'_>) -> Option<TraceId> {
    column(row, 0).and_then(|value| uuid(value, "trace_id")).ok().map(TraceId)
}

pub fn load(connection: &Connection, trace_id: TraceId) -> Result<Option<TraceRow>, StoreError> {
    let sql = "SELECT trace_id, plan_id, state, last_sequence_number, last_entry_digest,
            tool_call_id, holder, fence, trace_number, open, redispatches, checksum
        FROM traces WHERE trace_id = ?1";
    query_first(connection, "read a trace", sql, [trace_id.0.as_bytes()], read)
}

/// Inserts the row of a trace; a row that exists already stays as it is.
pub fn insert(connection: &Connection, row: &TraceRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO traces (trace_id, plan_id, state, last_sequence_number,
            last_entry_digest, tool_call_id, holder, fence, trace_number, open, redispatches, checksum)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING";
    write(connection, "index a trace", sql, row)
}

/// Writes the columns of a row that are not as before. SQLite writes an index anew if an update names one of its
/// columns, also if the value stays; plan and number never change.
pub fn update(
    connection: &Connection,
    before: &TraceRow,
    row: &TraceRow,
) -> Result<(), StoreError> {
    let (old, new) = (&before.state, &row.state);
    let mut sql = "UPDATE traces SET fence = ?8, redispatches = ?11, checksum = ?12".to_owned();
    let columns = [
        (
            old.head != new.head,
            "last_sequence_number = ?4, last_entry_digest = ?5, tool_call_id = ?6",
        ),
        (old.head.state != new.head.state, "state = ?3"),
        (is_open(old) != is_open(new), "open = ?10"),
        (old.holder != new.holder, "holder = ?7"),
    ];
    for (_, columns) in columns.iter().filter(|(is_changed, _)| *is_changed) {
        sql.push_str(", ");
        sql.push_str(columns);
    }
    sql.push_str(" WHERE trace_id = ?1");
    write(connection, "update a trace", &sql, row)
}

fn write(
    connection: &Connection,
    operation: &'static str,
    sql: &str,
    row: &TraceRow,
) -> Result<(), StoreError> {
    let TraceRow { state, number, redispatches } = row;
    let head = &state.head;
    let (length, fence) = (signed(head.sequence_number)?, signed(state.fence)?);
    let columns = params![
        head.trace_id.0.as_bytes(),
        state.plan_id.0.as_bytes(),
        head.state.unwrap_or(State::Pending).as_str(),
        length,
        head.entry_digest.as_bytes(),
        head.tool_call_id.as_ref().map(|id| id.0.as_bytes()),
        state.holder.as_ref().map(|id| id.0.as_bytes()),
        fence,
        number.0,
        is_open(state),
        redispatches.as_ref().map(Digest::as_bytes),
        checksum_of(row),
    ];
    execute(connection, operation, sql, columns)
}

fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number)
        .map_err(|_| StoreError::Corrupt { reason: "a number is beyond 2^63".to_owned() })
}
