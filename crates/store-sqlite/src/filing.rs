//! Writing the rows of traces and keys, many at once.

use rusqlite::{CachedStatement, Connection, params};
use windlass_kernel::{Digest, State, ToolCallId, TraceId};
use windlass_store::{Slot, StoreError, TraceState};

use crate::error::During;
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

/// The record of a key, to be filed as it is, readable or not.
pub struct KeyToFile<'a> {
    /// The key, its tool and its server, as they stand in their tree.
    pub place: [&'a str; 3],
    /// The digest of server, tool and arguments.
    pub request_digest: &'a [u8],
    /// The trace that has reserved it.
    pub trace_id: &'a [u8],
    /// The call.
    pub tool_call_id: &'a [u8],
}

impl<'a> KeyToFile<'a> {
    /// A key that a trace has reserved for a request and a call.
    pub fn new(
        slot: &'a Slot,
        (request_digest, tool_call_id): (&'a Digest, &'a ToolCallId),
        trace_id: &'a TraceId,
    ) -> Self {
        Self {
            place: [&slot.idempotency_key, &slot.tool_name, &slot.server_id],
            request_digest: request_digest.as_bytes(),
            trace_id: trace_id.0.as_bytes(),
            tool_call_id: tool_call_id.0.as_bytes(),
        }
    }
}

impl Row for KeyToFile<'_> {
    const OPERATION: &'static str = "reserve keys";
    const INTO: &'static str = "idempotency (idempotency_key, tool_name, server_id,
        request_digest, trace_id, tool_call_id)";
    const COLUMNS: usize = 6;

    fn bind(&self, statement: &mut CachedStatement<'_>, first: usize) -> rusqlite::Result<()> {
        let [key, tool, server] = self.place;
        statement.raw_bind_parameter(first, key)?;
        statement.raw_bind_parameter(first + 1, tool)?;
        statement.raw_bind_parameter(first + 2, server)?;
        statement.raw_bind_parameter(first + 3, self.request_digest)?;
        statement.raw_bind_parameter(first + 4, self.trace_id)?;
        statement.raw_bind_parameter(first + 5, self.tool_call_id)
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
