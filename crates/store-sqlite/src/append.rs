//! Appending entries to a trace.

use rusqlite::params;
use windlass_kernel::{Digest, HolderId};
use windlass_store::{
    Append, AppendError, Claim, StoreError, TraceState,
    rules::{self, Digests},
};

use crate::entry_batch::EntryBatch;
use crate::sql::execute;
use crate::types::{KeyHash, TraceRow};
use crate::write_connection::WriteTransaction;
use crate::{keys, lookup, trace_rows};

/// Checks an append and writes it. Everything is checked before anything is written, so a refusal
/// leaves the transaction, which others may share, as it was.
///
/// Of an unindexed trace only the entry batch is written.
pub fn append(
    transaction: &WriteTransaction<'_>,
    append: &Append<'_>,
    batch: &EntryBatch,
    me: HolderId,
    digests: Digests,
) -> Result<Result<TraceState, AppendError>, StoreError> {
    let trace_id = append.claim.trace_id();
    let connection = transaction.connection;
    let unindexed = transaction.unindexed();
    let (current, is_indexed) = if let Some((number, trace)) = unindexed.get(trace_id) {
        if let Some(damage) = &trace.damage {
            return Ok(Err(AppendError::Chain { trace_id, source: damage.clone() }));
        }
        (Some(TraceRow::new(trace.state, number)), false)
    } else {
        let indexed = trace_rows::load(connection, trace_id)?;
        (indexed, indexed.is_some())
    };
    let number = current.map_or(unindexed.next_number(), |row| row.number);
    let numbers = batch.key.map(|hash| unindexed.key_numbers(hash));
    drop(unindexed);
    let state = current.map(|row| row.state);
    let state = match rules::decide_append(state.as_ref(), append, me, digests) {
        Ok(state) => state,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(reservation) = append.key.reservation() {
        let slot = &reservation.slot;
        let key = (slot, batch.key.unwrap_or_else(|| KeyHash::of(slot)));
        let existing = lookup::find_known_key(connection, key, numbers.into_iter().flatten())?;
        if let Err(error) = rules::decide_key(existing, &append.key) {
            return Ok(Err(error));
        }
    }
    // The last entry must have an id too, not only the first.
    number.entry_id(state.head.sequence_number)?;
    let sql = match append.claim {
        Claim::New { .. } => "INSERT INTO first_batches VALUES (?1, ?2)",
        Claim::Held(_) => "INSERT INTO later_batches VALUES (?1, ?2)",
    };
    let id = number.entry_id(batch.first)?;
    execute(connection, "insert entries", sql, params![id, batch.bytes])?;
    let redispatches = current.and_then(|row| row.redispatches);
    let row = TraceRow { state, number, redispatches };
    if let Some(before) = current.filter(|_| is_indexed) {
        trace_rows::update(connection, &before, &row)?;
        if let Some(hash) = batch.key {
            keys::insert(connection, hash, number)?;
        }
        transaction.unindexed().record_write(connection)?;
        return Ok(Ok(state));
    }
    let last = append.entries.last();
    let artifact = last.map_or(Digest::GENESIS, |new| new.entry.artifact_digest);
    let mut unindexed = transaction.unindexed();
    unindexed.record_append(row, artifact, append.entries.len());
    if let Some(hash) = batch.key {
        unindexed.record_key(number, hash);
    }
    Ok(Ok(state))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use windlass_kernel::Uuid7;
    use windlass_store::conformance::fixture::{Ending, Fixture};
    use windlass_store::{After, KeyAction, Lease};

    use super::*;
    use crate::open::Settings;
    use crate::write_connection::WriteConnection;

    #[test]
    fn appends_of_one_group_see_each_other() {
        let connection = Connection::open_in_memory().unwrap();
        crate::open::create(&connection).unwrap();
        let mut writer = WriteConnection::new(connection, Settings::default(), None).unwrap();
        let me = HolderId(Uuid7::from_parts(1, [7; 10]));
        let make = Fixture::new();
        let [one, two, three] = [(); 3].map(|()| make.call(Ending::Completed));
        let add = |transaction: &WriteTransaction<'_>, what: Append<'_>| {
            let (batch, digests) = (EntryBatch::new(&what, me), Digests::of(&what));
            append(transaction, &what, &batch, me, digests).unwrap()
        };
        let taken = |transaction: &WriteTransaction<'_>, key: KeyAction| {
            let error = add(transaction, Append { key, ..two.create(3, After::Keep) }).unwrap_err();
            let AppendError::KeyTaken(record) = error else { panic!("{error}") };
            (record.trace_id, record.effect_digest)
        };
        let group = |transaction: &WriteTransaction<'_>| {
            let begun = Append { key: one.reserve(), ..one.create(3, After::Keep) };
            let fence = add(transaction, begun).unwrap().fence;
            assert_eq!(taken(transaction, one.reserve()), (one.trace_id, None));
            let lease = Lease::grant(one.trace_id, me, fence);
            add(transaction, one.append(&lease, 3, 1)).unwrap();
            // Indexed in the middle of the group.
            transaction.index_trace(one.trace_id)?;
            let effect = one.entry(4).entry.artifact_digest;
            assert_eq!(taken(transaction, one.reserve()), (one.trace_id, Some(effect)));
            // None of the entries names the key.
            let early = Append { key: three.reserve(), ..three.create(2, After::Keep) };
            add(transaction, early).unwrap();
            assert_eq!(taken(transaction, three.reserve()), (three.trace_id, None));
            Ok(())
        };
        writer.commit(group).unwrap();
    }
}
