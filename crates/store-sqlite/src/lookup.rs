//! Looking up a trace or a key: in the tables first, then among the unindexed traces.

use std::ops::ControlFlow;

use rusqlite::Connection;
use windlass_kernel::TraceId;
use windlass_store::{IdempotencyRecord, Slot, StoreError};

use crate::entries::visit_traces;
use crate::entry_batch::StoredEntry;
use crate::replay::{indexed_upto, replay_one};
use crate::types::{KeyHash, TraceNumber, TraceRow, slot_names};
use crate::unindexed::Candidates;
use crate::{keys, trace_rows};

/// Finds a trace in a snapshot. The candidates must have been read before the snapshot began: then a
/// trace that was created since has a number that is unknown to them.
pub fn find_trace(
    connection: &Connection,
    trace_id: TraceId,
    candidates: Candidates,
) -> Result<Option<TraceRow>, StoreError> {
    if let Some(row) = trace_rows::load(connection, trace_id)? {
        return Ok(Some(row));
    }
    let upto = indexed_upto(connection)?;
    for number in candidates.numbers.into_iter().filter(|number| *number > upto) {
        // A trace whose first entry is damaged names no id, but is known under this number.
        if let Some(replayed) = replay_one(connection, number)?
            && replayed.trace_id.is_none_or(|named| named == trace_id)
        {
            return replayed.row(trace_id).map(Some);
        }
    }
    let unknown = candidates.unknown_from.max(upto.next());
    match find_number(connection, unknown, |entry| entry.trace_id() == Some(trace_id))? {
        Some(number) => {
            replay_one(connection, number)?.map(|replayed| replayed.row(trace_id)).transpose()
        }
        None => Ok(None),
    }
}

/// Finds the record of a key in a snapshot that began after the candidates were read.
pub fn find_key(
    connection: &Connection,
    slot: &Slot,
    candidates: Candidates,
) -> Result<Option<IdempotencyRecord>, StoreError> {
    let upto = indexed_upto(connection)?;
    let unindexed = candidates.numbers.into_iter().filter(|number| *number > upto);
    let key = (slot, KeyHash::of(slot));
    let mut found = find_known_key(connection, key, unindexed)?;
    // A trace that this process knows may have reserved the key since, in another process.
    let mut unknown = upto.next();
    let reserves = |entry: &StoredEntry<'_>| {
        entry.fields.is_ok_and(|fields| fields.reserved_names() == Some(slot_names(slot)))
    };
    while found.as_ref().is_none_or(|record| record.did_not_run) {
        let Some(number) = find_number(connection, unknown, reserves)? else { break };
        found = load_record(connection, key, number)?.or(found);
        unknown = number.next();
    }
    Ok(found)
}

/// The first trace from a number on that has an entry as wanted.
fn find_number(
    connection: &Connection,
    from: TraceNumber,
    wanted: impl Fn(&StoredEntry<'_>) -> bool,
) -> Result<Option<TraceNumber>, StoreError> {
    let mut found = None;
    visit_traces(connection, from, None, |entry| {
        found = wanted(entry).then_some(entry.number);
        Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

/// Finds the record of a key in the indexed traces and in those with the numbers given: the one that has the
/// key, or any of those that do not use it up.
pub fn find_known_key(
    connection: &Connection,
    key: (&Slot, KeyHash),
    unindexed: impl IntoIterator<Item = TraceNumber>,
) -> Result<Option<IdempotencyRecord>, StoreError> {
    let indexed = keys::find(connection, key.1)?;
    let mut found = None;
    for number in indexed.into_iter().chain(unindexed) {
        match load_record(connection, key, number)? {
            Some(record) if record.did_not_run => found = Some(record),
            Some(record) => return Ok(Some(record)),
            None => {}
        }
    }
    Ok(found)
}

/// Loads the record of a key with its effect, from a trace that has reserved a key with its hash.
fn load_record(
    connection: &Connection,
    key: (&Slot, KeyHash),
    number: TraceNumber,
) -> Result<Option<IdempotencyRecord>, StoreError> {
    let Some(mut record) = keys::read_record(connection, number, key)? else { return Ok(None) };
    record.effect_digest = match trace_rows::load(connection, record.trace_id)? {
        Some(trace) => keys::read_effect(connection, &trace)?,
        None => {
            let replayed = replay_one(connection, number)?;
            replayed.and_then(|replayed| replayed.trace.ok()).and_then(|trace| trace.effect())
        }
    };
    if record.effect_digest.is_some() {
        record.did_not_run = keys::says_it_did_not_run(connection, number)?;
    }
    Ok(Some(record))
}
