//! Appends, as SQL.

use rusqlite::{CachedStatement, Connection};
use windlass_kernel::{Digest, HolderId};
use windlass_store::{
    Append, AppendError, Claim, IdempotencyRecord, KeyAction, Slot, StoreError, TraceState,
    rules::{self, Digests},
};

use crate::error::During;
use crate::filing::{self, KeyToFile};
use crate::rows::{self, KeyFinder};
use crate::sheet::Sheet;
use crate::tail::Tail;
use crate::writer::{self, Desk};

/// Checks an append and writes it. A refusal leaves the transaction, which others may share, as it
/// was: everything is checked before anything is written.
///
/// Of a trace that is not filed its sheet is all that is written. If there is more to write, and no
/// transaction, one is begun.
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
    // All of the entries must have a place, not only the first.
    number.entry_id(state.head.sequence_number)?;
    // A key that none of the entries names has its record at once.
    let key_to_file = match &append.key {
        KeyAction::Reserve(reservation) if filed.is_some() || !sheet.reserves => Some(reservation),
        KeyAction::Reserve(_) | KeyAction::None => None,
    };
    if connection.is_autocommit() && (filed.is_some() || key_to_file.is_some()) {
        writer::begin(connection)?;
    }
    statements.insert(connection, new, number.entry_id(sheet.first)?, &sheet.bytes)?;
    if filed.is_some() {
        filing::update_trace(connection, &state)?;
    }
    if let Some(reservation) = key_to_file {
        let bound = (&reservation.request_digest, &reservation.tool_call_id);
        filing::insert(connection, &[KeyToFile::new(&reservation.slot, bound, &trace_id)])?;
    }
    // Noted when nothing can fail any more.
    if filed.is_none() {
        let last = append.entries.last();
        let artifact = last.map_or(Digest::GENESIS, |new| new.entry.artifact_digest);
        tail.note(number, state, artifact, append.entries.len());
    }
    if let (KeyAction::Reserve(reservation), None) = (&append.key, key_to_file) {
        tail.note_key(number, reservation);
    }
    Ok(Ok(state))
}

/// The statements of an append, compiled and at hand for all of a batch.
#[derive(Default)]
pub struct Statements<'a> {
    /// Inserts what a trace begins with.
    opening: Option<CachedStatement<'a>>,
    /// Inserts what is added to it.
    later: Option<CachedStatement<'a>>,
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
            none => none.insert(connection.prepare_cached(sql).during(operation)?),
        };
        row.raw_bind_parameter(1, id).during(operation)?;
        row.raw_bind_parameter(2, sheet).during(operation)?;
        row.raw_execute().during(operation).map(drop)
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
