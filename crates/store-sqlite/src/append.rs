//! Appends, as SQL.

use std::sync::Arc;

use rusqlite::{Connection, params};
use windlass_kernel::{Digest, HolderId, State, ToolCallId, TraceId};
use windlass_store::{
    Append, AppendError, Claim, IdempotencyRecord, KeyAction, Reservation, Slot, StoreError,
    TraceState,
    rules::{self, Digests},
};

use crate::bound::Bound;
use crate::error::During;
use crate::rows::{self, KeyFinder, TraceNumber};
use crate::sheet::Sheet;
use crate::tail::Tail;
use crate::writer::Desk;

/// Checks an append and writes it. A refusal leaves the transaction, which others may share, as it
/// was: everything is checked before anything is written.
///
/// Of a trace that is not filed its sheet is all that is written.
pub fn append(
    desk: &mut Desk<'_>,
    append: &Append<'_>,
    sheet: &Sheet,
    me: HolderId,
    digests: Digests,
) -> Result<Result<TraceState, AppendError>, StoreError> {
    let trace_id = append.claim.trace_id();
    let Desk { connection, tail, statements } = desk;
    let connection = *connection;
    let unfiled = tail.get(trace_id);
    if let Some((_, _, Some(damage))) = unfiled {
        return Ok(Err(AppendError::Chain { trace_id, source: damage.clone() }));
    }
    let unfiled = unfiled.map(|(number, state, _)| (number, state));
    let filed = match unfiled {
        None if tail.may_be_filed(trace_id) => rows::load_trace(connection, trace_id)?,
        None | Some(_) => None,
    };
    let current = unfiled.map(|(_, state)| state).or(filed.map(|row| row.state));
    let state = match rules::decide_append(current.as_ref(), append, me, digests) {
        Ok(state) => state,
        Err(error) => return Ok(Err(error)),
    };
    if let KeyAction::Reserve(reservation) = &append.key
        && let Some(existing) = statements.load_key(connection, tail, &reservation.slot)?
        && let Err(error) = rules::decide_key(Some(existing), &append.key)
    {
        return Ok(Err(error));
    }
    let number = match (filed, unfiled) {
        (Some(row), _) => row.number,
        (None, Some((number, _))) => number,
        (None, None) => tail.next(),
    };
    let new = matches!(append.claim, Claim::New { .. });
    statements.insert(connection, new, number.entry_id(sheet.first)?, &sheet.bytes)?;
    if filed.is_some() {
        update_trace(connection, &state)?;
    } else {
        let last = append.entries.last();
        let artifact = last.map_or(Digest::GENESIS, |new| new.entry.artifact_digest);
        tail.note(number, state, artifact, append.entries.len());
    }
    if let KeyAction::Reserve(reservation) = &append.key {
        // A key that none of the entries names has its record at once.
        if filed.is_none() && sheet.reserves {
            tail.note_key(number, reservation);
        } else {
            insert_key(connection, reservation, trace_id)?;
        }
    }
    Ok(Ok(state))
}

/// The statements of an append, compiled and at hand for all of a batch.
#[derive(Default)]
pub struct Statements<'a> {
    /// Inserts what a trace begins with.
    opening: Option<Bound<'a>>,
    /// Inserts what is added to it.
    later: Option<Bound<'a>>,
    /// Finds a key.
    key: Option<KeyFinder<'a>>,
}

impl<'a> Statements<'a> {
    fn insert(
        &mut self,
        connection: &'a Connection,
        new: bool,
        id: i64,
        sheet: &[u8],
    ) -> Result<(), StoreError> {
        let operation = "insert entries";
        let (row, sql) = if new {
            (&mut self.opening, "INSERT INTO sheets_opening VALUES (?1, ?2)")
        } else {
            (&mut self.later, "INSERT INTO sheets_later VALUES (?1, ?2)")
        };
        let row = match row {
            Some(row) => row,
            none => none.insert(Bound::new(connection, sql).during(operation)?),
        };
        row.bind(1, id).and_then(|()| row.bind(2, sheet)).during(operation)?;
        row.run().during(operation)
    }

    /// The record of a key, wherever it stands.
    fn load_key(
        &mut self,
        connection: &'a Connection,
        tail: &Tail,
        slot: &Slot,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        if let Some(record) = tail.key(slot)? {
            return Ok(Some(record));
        }
        let finder = match &mut self.key {
            Some(finder) => finder,
            none => none.insert(KeyFinder::new(connection)?),
        };
        let Some(mut record) = finder.find(slot)? else { return Ok(None) };
        record.effect_digest = match rows::load_trace(connection, record.trace_id)? {
            Some(trace) => rows::load_effect(connection, &trace)?,
            None => tail.effect(record.trace_id),
        };
        Ok(Some(record))
    }
}

fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number)
        .map_err(|_| StoreError::Corrupt { reason: "a number is beyond 2^63".to_owned() })
}

/// Files traces one after the other. One that is there already stays as it is.
pub struct TraceFiler<'a> {
    row: Bound<'a>,
    before: Option<TraceState>,
}

impl<'a> TraceFiler<'a> {
    const OPERATION: &'static str = "file a trace";

    /// Prepares to file.
    pub fn new(connection: &'a Connection) -> Result<Self, StoreError> {
        let row = Bound::new(
            connection,
            "INSERT INTO traces (trace_id, plan_id, trace_number, state, last_sequence_number,
                 last_entry_digest, tool_call_id, holder, fence, open)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
        )
        .during(Self::OPERATION)?;
        Ok(Self { row, before: None })
    }

    /// Files a trace.
    pub fn file(&mut self, number: TraceNumber, state: &TraceState) -> Result<(), StoreError> {
        let (length, fence) = (signed(state.head.sequence_number)?, signed(state.fence)?);
        let before = self.before.replace(*state);
        let row = &mut self.row;
        let mut bind = || -> rusqlite::Result<()> {
            row.bind(1, state.head.trace_id.0.as_bytes())?;
            row.bind(2, state.plan_id.0.as_bytes())?;
            row.bind(3, number.0)?;
            // Most traces that are filed together have ended alike.
            if before.is_none_or(|before| before.head.state != state.head.state) {
                row.bind(4, state.head.state.unwrap_or(State::Pending).as_str())?;
                row.bind(10, rows::is_open(state))?;
            }
            row.bind(5, length)?;
            row.bind(6, state.head.entry_digest.as_bytes())?;
            row.bind_optional(7, state.head.tool_call_id.as_ref().map(|id| id.0.as_bytes()))?;
            row.bind_optional(8, state.holder.as_ref().map(|id| id.0.as_bytes()))?;
            row.bind(9, fence)?;
            row.run()
        };
        bind().during(Self::OPERATION)
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

/// Writes records of keys one after the other. One that is there already stays as it is.
pub struct KeyFiler<'a> {
    row: Bound<'a>,
    before: Option<Arc<Slot>>,
}

impl<'a> KeyFiler<'a> {
    const OPERATION: &'static str = "reserve a key";

    /// Prepares to write.
    pub fn new(connection: &'a Connection) -> Result<Self, StoreError> {
        let row = Bound::new(
            connection,
            "INSERT INTO idempotency (server_id, tool_name, idempotency_key, request_digest,
                 trace_id, tool_call_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        )
        .during(Self::OPERATION)?;
        Ok(Self { row, before: None })
    }

    /// Writes the record of a key.
    pub fn file(
        &mut self,
        slot: &Arc<Slot>,
        (request_digest, tool_call_id): (Digest, ToolCallId),
        trace_id: TraceId,
    ) -> Result<(), StoreError> {
        let before = self.before.replace(Arc::clone(slot));
        let row = &mut self.row;
        let bind = || -> rusqlite::Result<()> {
            if before.as_ref().is_none_or(|before| before.server_id != slot.server_id) {
                row.bind(1, slot.server_id.as_str())?;
            }
            if before.is_none_or(|before| before.tool_name != slot.tool_name) {
                row.bind(2, slot.tool_name.as_str())?;
            }
            row.bind(3, slot.idempotency_key.as_str())?;
            row.bind(4, request_digest.as_bytes())?;
            row.bind(5, trace_id.0.as_bytes())?;
            row.bind(6, tool_call_id.0.as_bytes())?;
            row.run()
        };
        bind().during(Self::OPERATION)
    }
}

fn insert_key(
    connection: &Connection,
    reservation: &Reservation,
    trace_id: TraceId,
) -> Result<(), StoreError> {
    let slot = Arc::new(reservation.slot.clone());
    let bound = (reservation.request_digest, reservation.tool_call_id);
    KeyFiler::new(connection)?.file(&slot, bound, trace_id)
}
