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
    sheet: &Arc<Sheet>,
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
    let key = match &append.key {
        KeyAction::Reserve(reservation) => {
            let slot = &reservation.slot;
            Some((slot, sheet.key.unwrap_or_else(|| KeyHash::of(slot))))
        }
        KeyAction::None => None,
    };
    if let Some(key) = key
        && let Some(existing) = statements.load_key(connection, tail, key)?
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
    let alone = connection.is_autocommit() && filed.is_none() && record.is_none();
    if !alone {
        books::begin(connection)?;
    }
    if alone || filed.is_some() {
        statements.insert(connection, new, id, sheet)?;
    } else {
        // It is inserted before anybody reads it.
        statements.put_off(new, id, sheet);
    }
    if filed.is_some() {
        filing::update_trace(connection, &state)?;
    }
    if let Some(reservation) = record {
        filing::insert(connection, &[KeyRecord { reservation, trace_id: &trace_id }])?;
    }
    // Noted last: what fails before this has changed nothing in memory.
    if filed.is_none() {
        let last = append.entries.last();
        let artifact = last.map_or(Digest::GENESIS, |new| new.entry.artifact_digest);
        tail.note(number, state, artifact, append.entries.len());
    }
    match (key, record) {
        (Some(_), Some(_)) => tail.note_record(),
        (Some((_, hash)), None) => tail.note_key(number, hash),
        (None, _) => {}
    }
    Ok(Ok(state))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use windlass_kernel::Uuid7;
    use windlass_store::conformance::fixture::{Ending, Fixture};
    use windlass_store::{After, Lease};

    use super::*;
    use crate::books::Books;
    use crate::open::Settings;

    /// What is put off to the end of a group is there for the rest of the group.
    #[test]
    fn appends_of_one_group_see_each_other() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&crate::MIGRATIONS.concat()).unwrap();
        let mut books = Books::new(connection, Settings::default()).unwrap();
        let me = HolderId(Uuid7::from_parts(1, [7; 10]));
        let make = Fixture::new();
        let [one, two, three] = [(); 3].map(|()| make.call(Ending::Completed));
        let add = |desk: &mut Desk<'_>, what: Append<'_>| {
            let (sheet, digests) = (Arc::new(Sheet::of(&what, me)), Digests::of(&what));
            append(desk, &what, &sheet, me, digests).unwrap()
        };
        let taken = |desk: &mut Desk<'_>, key: KeyAction| {
            let error = add(desk, Append { key, ..two.create(3, After::Keep) }).unwrap_err();
            let AppendError::KeyTaken(record) = error else { panic!("{error}") };
            (record.trace_id, record.effect_digest)
        };
        let group = |desk: &mut Desk<'_>| {
            let begun = Append { key: one.reserve(), ..one.create(3, After::Keep) };
            let fence = add(desk, begun).unwrap().fence;
            assert_eq!(taken(desk, one.reserve()), (one.trace_id, None));
            let lease = Lease::grant(one.trace_id, me, fence);
            add(desk, one.append(&lease, 3, 1)).unwrap();
            // Filed in the middle of the group, and its last sheet is read.
            desk.settle(one.trace_id)?;
            let effect = one.entry(4).entry.artifact_digest;
            assert_eq!(taken(desk, one.reserve()), (one.trace_id, Some(effect)));
            // A key that none of the entries names.
            let early = Append { key: three.reserve(), ..three.create(2, After::Keep) };
            add(desk, early).unwrap();
            assert_eq!(taken(desk, three.reserve()), (three.trace_id, None));
            Ok(())
        };
        books.commit(false, group).unwrap();
    }
}
