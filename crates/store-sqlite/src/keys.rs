//! The table `keys`, and the records of keys.
//!
//! The table maps the hash of a key to the number of the trace that has reserved it. The record itself
//! is in one of that trace's entries, which also tell apart keys with the same hash. If the entries of a
//! trace have no key of that hash, the record is lost: that is an error, and the key is not free.

use std::ops::ControlFlow;

use rusqlite::Connection;
use windlass_kernel::Digest;
use windlass_kernel::artifact::ToolEffect;
use windlass_store::{IdempotencyRecord, Reservation, Slot, StoreError};

use crate::entries::visit_trace;
use crate::sql::{Context as _, execute, query_each};
use crate::types::{KeyHash, TraceNumber, TraceRow, is_open, slot_names};

/// Inserts the row of a reserved key; a row that exists already stays as it is.
pub fn insert(
    connection: &Connection,
    hash: KeyHash,
    number: TraceNumber,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO keys (hash, trace_number) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    execute(connection, "index a key", sql, [hash.0, number.0])
}

/// The indexed traces that have reserved keys with this hash.
pub fn find(connection: &Connection, hash: KeyHash) -> Result<Vec<TraceNumber>, StoreError> {
    let operation = "find a key";
    let mut numbers = Vec::new();
    let sql = "SELECT trace_number FROM keys WHERE hash = ?1";
    query_each(connection, operation, sql, [hash.0], |row| {
        numbers.push(TraceNumber(row.get(0).context(operation)?));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(numbers)
}

/// Reads the record of a key, without its effect, from the entries of a trace that has reserved a key
/// with its hash; `None` if that was another key.
pub fn read_record(
    connection: &Connection,
    number: TraceNumber,
    (slot, hash): (&Slot, KeyHash),
) -> Result<Option<IdempotencyRecord>, StoreError> {
    let mut record = None;
    let mut other_key = false;
    visit_trace(connection, number, 0, |entry| {
        let Ok(fields) = &entry.fields else { return Ok(ControlFlow::Continue(())) };
        if fields.reserved_names() == Some(slot_names(slot)) {
            record = Some(fields.reserved_for().and_then(|bound| Ok((bound, fields.trace_id()?))));
            return Ok(ControlFlow::Break(()));
        }
        other_key |= fields.reserved_hash() == Some(hash);
        Ok(ControlFlow::Continue(()))
    })?;
    match record {
        Some(Ok(((request_digest, tool_call_id), trace_id))) => Ok(Some(IdempotencyRecord {
            reservation: Reservation { slot: slot.clone(), request_digest, tool_call_id },
            trace_id,
            effect_digest: None,
            did_not_run: false,
        })),
        None if other_key => Ok(None),
        Some(Err(_)) | None => Err(StoreError::Corrupt {
            reason: format!("the idempotency record of trace number {} is unreadable", number.0),
        }),
    }
}

/// Whether the last entry of a trace says that the call certainly did not run.
pub fn says_it_did_not_run(
    connection: &Connection,
    number: TraceNumber,
) -> Result<bool, StoreError> {
    let mut did_not_run = false;
    visit_trace(connection, number, 0, |entry| {
        did_not_run = entry.body().is_some_and(ToolEffect::says_it_did_not_run);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(did_not_run)
}

/// The digest of an indexed trace's effect: that of its last entry's artifact, once it has ended.
pub fn read_effect(
    connection: &Connection,
    trace: &TraceRow,
) -> Result<Option<Digest>, StoreError> {
    let last = trace.state.head.sequence_number;
    if is_open(&trace.state) {
        return Ok(None);
    }
    let mut effect = None;
    visit_trace(connection, trace.number, last, |entry| {
        let digest = entry.fields.and_then(|fields| fields.artifact_digest());
        effect = (entry.sequence_number == last).then_some(digest);
        Ok(ControlFlow::Break(()))
    })?;
    effect.transpose().map_err(|field| StoreError::Corrupt {
        reason: format!("an entry's {field} is unreadable"),
    })
}

#[cfg(test)]
mod tests {
    use windlass_kernel::{HolderId, Uuid7};
    use windlass_store::conformance::fixture::{Ending, Fixture};
    use windlass_store::{After, Append};

    use super::*;
    use crate::entry_batch::EntryBatch;

    #[test]
    fn keys_with_one_hash_are_told_apart_and_a_lost_record_is_an_error() {
        let connection = Connection::open_in_memory().unwrap();
        crate::open::create(&connection).unwrap();
        let call = Fixture::new().call(Ending::Completed);
        let append = Append { key: call.reserve(), ..call.create(3, After::Keep) };
        let batch = EntryBatch::new(&append, HolderId(Uuid7::from_parts(1, [7; 10])));
        let number = TraceNumber(3);
        let row = rusqlite::params![number.entry_id(1).unwrap(), batch.bytes];
        connection.execute("INSERT INTO first_batches VALUES (?1, ?2)", row).unwrap();
        let mine = call.slot();
        let other = Slot { idempotency_key: "another".to_owned(), ..mine.clone() };
        let hash = KeyHash::of(&mine);
        let found = read_record(&connection, number, (&mine, hash)).unwrap().unwrap();
        assert_eq!(Some(found.reservation), call.reservation);
        assert_eq!(read_record(&connection, number, (&other, hash)).unwrap(), None);
        for (number, slot) in [(number, &other), (TraceNumber(4), &mine)] {
            let key = (slot, KeyHash::of(slot));
            let lost = read_record(&connection, number, key).unwrap_err();
            assert!(matches!(lost, StoreError::Corrupt { .. }), "{lost}");
        }
    }
}
