//! Appends, as SQL.

use std::sync::Arc;

use windlass_kernel::{Digest, HolderId};
use windlass_store::{
    Append, AppendError, Claim, KeyAction, StoreError, TraceState,
    rules::{self, Digests},
};

use crate::books::{self, Desk};
use crate::filing::{self, KeyRecord};
use crate::keys::KeyHash;
use crate::rows;
use crate::sheet::Sheet;

/// Checks an append and writes it. A refusal leaves the transaction, which others may share, as it
/// was: everything is checked before anything is written.
///
/// Of a trace that is not filed its sheet is all that is written. If there is more to write, and no
/// transaction, one is begun.
pub fn append(
    desk: &mut Desk<'_>,
    append: &Append<'_>,
    (sheet, key): (&Arc<Sheet>, Option<KeyHash>),
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
        && let Some(hash) = key
        && let Some(existing) = statements.load_key(connection, tail, (&reservation.slot, hash))?
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
    let record = match &append.key {
        KeyAction::Reserve(reservation) if filed.is_some() || !sheet.reserves => Some(reservation),
        KeyAction::Reserve(_) | KeyAction::None => None,
    };
    let id = number.entry_id(sheet.first)?;
    match filed {
        None if record.is_none() && connection.is_autocommit() => {
            statements.insert(connection, new, id, sheet)?;
        }
        // Nobody reads of it here before all of the batch is written.
        None => {
            books::begin(connection)?;
            statements.put_off(new, id, sheet);
        }
        Some(_) => {
            books::begin(connection)?;
            statements.insert(connection, new, id, sheet)?;
        }
    }
    if filed.is_some() {
        filing::update_trace(connection, &state)?;
    }
    if let Some(reservation) = record {
        filing::insert(connection, &[KeyRecord { reservation, trace_id: &trace_id }])?;
    }
    // Noted when nothing can fail any more.
    if filed.is_none() {
        let last = append.entries.last();
        let artifact = last.map_or(Digest::GENESIS, |new| new.entry.artifact_digest);
        tail.note(number, state, artifact, append.entries.len());
    }
    match (key, record) {
        (Some(_), Some(_)) => tail.note_record(),
        (Some(hash), None) => tail.note_key(number, hash),
        (None, _) => {}
    }
    Ok(Ok(state))
}
