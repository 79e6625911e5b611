//! Writing the rows of traces and keys, many at once.

use rusqlite::{CachedStatement, Connection, params};
use windlass_kernel::{State, TraceId};
use windlass_store::{Reservation, StoreError, TraceState};

use crate::error::During;
use crate::keys::KeyHash;
use crate::rows::{self, TraceNumber};

/// So many rows are inserted by one statement, and what is left by one each.
const ROWS: usize = 16;

/// A row that is written once. One that is there already stays as it is.
pub trait Row {
    /// What is done with it.
    const OPERATION: &'static str;
    /// Its table and columns.
    const INTO: &'static str;
    /// How many columns these are.
    const COLUMNS: usize;

    /// Binds its columns to the parameters from `first` on.
    fn bind(&self, statement: &mut CachedStatement<'_>, first: usize) -> rusqlite::Result<()>;
}

/// Writes rows.
pub fn insert<R: Row>(connection: &Connection, rows: &[R]) -> Result<(), StoreError> {
    let (chunks, rest) = rows.as_chunks::<ROWS>();
    let chunks = chunks.iter().map(<[R; ROWS]>::as_slice);
    insert_by(connection, ROWS, chunks).during(R::OPERATION)?;
    insert_by(connection, 1, rest.chunks(1)).during(R::OPERATION)
}

fn insert_by<'a, R: Row + 'a>(
    connection: &Connection,
    count: usize,
    chunks: impl ExactSizeIterator<Item = &'a [R]>,
) -> rusqlite::Result<()> {
    if chunks.len() == 0 {
        return Ok(());
    }
    let row = format!("({})", vec!["?"; R::COLUMNS].join(", "));
    let values = vec![row.as_str(); count].join(", ");
    let sql = format!("INSERT INTO {} VALUES {values} ON CONFLICT DO NOTHING", R::INTO);
    let mut statement = connection.prepare_cached(&sql)?;
    for chunk in chunks {
        for (place, row) in chunk.iter().enumerate() {
            row.bind(&mut statement, place * R::COLUMNS + 1)?;
        }
        statement.raw_execute()?;
    }
    Ok(())
}

/// A trace, to be filed.
pub struct TraceToFile {
    number: TraceNumber,
    state: TraceState,
    length: i64,
    fence: i64,
}

impl TraceToFile {
    /// A trace under its number.
    pub fn new(number: TraceNumber, state: &TraceState) -> Result<Self, StoreError> {
        let (length, fence) = (signed(state.head.sequence_number)?, signed(state.fence)?);
        Ok(Self { number, state: *state, length, fence })
    }
}

impl Row for TraceToFile {
    const OPERATION: &'static str = "file traces";
    const INTO: &'static str = "traces (trace_id, plan_id, trace_number, state,
        last_sequence_number, last_entry_digest, tool_call_id, holder, fence, open)";
    const COLUMNS: usize = 10;

    fn bind(&self, statement: &mut CachedStatement<'_>, first: usize) -> rusqlite::Result<()> {
        let TraceState { head, plan_id, holder, .. } = &self.state;
        statement.raw_bind_parameter(first, head.trace_id.0.as_bytes())?;
        statement.raw_bind_parameter(first + 1, plan_id.0.as_bytes())?;
        statement.raw_bind_parameter(first + 2, self.number.0)?;
        statement.raw_bind_parameter(first + 3, head.state.unwrap_or(State::Pending).as_str())?;
        statement.raw_bind_parameter(first + 4, self.length)?;
        statement.raw_bind_parameter(first + 5, head.entry_digest.as_bytes())?;
        let call = head.tool_call_id.as_ref().map(|id| id.0.as_bytes());
        statement.raw_bind_parameter(first + 6, call)?;
        statement.raw_bind_parameter(first + 7, holder.as_ref().map(|id| id.0.as_bytes()))?;
        statement.raw_bind_parameter(first + 8, self.fence)?;
        statement.raw_bind_parameter(first + 9, rows::is_open(&self.state))
    }
}

/// Where a key is found, to be filed.
impl Row for (KeyHash, TraceNumber) {
    const OPERATION: &'static str = "file keys";
    const INTO: &'static str = "keys (hash, trace_number)";
    const COLUMNS: usize = 2;

    fn bind(&self, statement: &mut CachedStatement<'_>, first: usize) -> rusqlite::Result<()> {
        statement.raw_bind_parameter(first, self.0.0)?;
        statement.raw_bind_parameter(first + 1, self.1.0)
    }
}

/// The record of a key that a trace has reserved, to be written in full.
pub struct KeyRecord<'a> {
    /// What is reserved.
    pub reservation: &'a Reservation,
    /// By which trace.
    pub trace_id: &'a TraceId,
}

impl Row for KeyRecord<'_> {
    const OPERATION: &'static str = "reserve a key";
    const INTO: &'static str = "idempotency (idempotency_key, tool_name, server_id,
        request_digest, trace_id, tool_call_id)";
    const COLUMNS: usize = 6;

    fn bind(&self, statement: &mut CachedStatement<'_>, first: usize) -> rusqlite::Result<()> {
        let Reservation { slot, request_digest, tool_call_id } = self.reservation;
        statement.raw_bind_parameter(first, &slot.idempotency_key)?;
        statement.raw_bind_parameter(first + 1, &slot.tool_name)?;
        statement.raw_bind_parameter(first + 2, &slot.server_id)?;
        statement.raw_bind_parameter(first + 3, request_digest.as_bytes())?;
        statement.raw_bind_parameter(first + 4, self.trace_id.0.as_bytes())?;
        statement.raw_bind_parameter(first + 5, tool_call_id.0.as_bytes())
    }
}

/// Writes where a trace stands; its id, plan and the rule that it exists do not change.
pub fn update_trace(connection: &Connection, state: &TraceState) -> Result<(), StoreError> {
    let operation = "update a trace";
    connection
        .prepare_cached(
            "UPDATE traces SET state = ?2, last_sequence_number = ?3, last_entry_digest = ?4,
                 tool_call_id = ?5, holder = ?6, fence = ?7, open = ?8
             WHERE trace_id = ?1",
        )
        .during(operation)?
        .execute(params![
            state.head.trace_id.0.as_bytes(),
            state.head.state.unwrap_or(State::Pending).as_str(),
            signed(state.head.sequence_number)?,
            state.head.entry_digest.as_bytes(),
            state.head.tool_call_id.as_ref().map(|id| id.0.as_bytes()),
            state.holder.as_ref().map(|id| id.0.as_bytes()),
            signed(state.fence)?,
            rows::is_open(state),
        ])
        .during(operation)?;
    Ok(())
}

fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number)
        .map_err(|_| StoreError::Corrupt { reason: "a number is beyond 2^63".to_owned() })
}
