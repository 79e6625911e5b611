//! Reading entries from the database.

use std::ops::ControlFlow;

use rusqlite::Connection;
use windlass_store::StoreError;

use crate::entry_batch::{Decoder, StoredEntry};
use crate::sql::{Context as _, query_each, query_value};
use crate::types::TraceNumber;

const OPERATION: &str = "read entries";

/// The result of visiting an entry: whether to go on.
pub type Visited = Result<ControlFlow<()>, StoreError>;

/// Visits the entries of the batches with ids from `first` to before `end`, in their order.
fn visit_ids(
    connection: &Connection,
    (first, end): (i64, i64),
    mut visit: impl FnMut(&StoredEntry<'_>) -> Visited,
) -> Result<(), StoreError> {
    let sql = "SELECT id, entries FROM entry_batches WHERE id >= ?1 AND id < ?2 ORDER BY id";
    query_each(connection, OPERATION, sql, [first, end], |row| {
        let id = row.get(0).context(OPERATION)?;
        // A value that is no blob decodes as a damaged entry.
        let batch = row.get_ref(1).context(OPERATION)?.as_blob().unwrap_or_default();
        for entry in Decoder::new(id, batch) {
            if visit(&entry)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

pub fn visit_all(
    connection: &Connection,
    visit: impl FnMut(&StoredEntry<'_>) -> Visited,
) -> Result<(), StoreError> {
    visit_ids(connection, (i64::MIN, i64::MAX), visit)
}

/// Visits the entries of the traces from number `first` to number `last`, or to the newest.
pub fn visit_traces(
    connection: &Connection,
    first: TraceNumber,
    last: Option<TraceNumber>,
    visit: impl FnMut(&StoredEntry<'_>) -> Visited,
) -> Result<(), StoreError> {
    let end = last.map_or(i64::MAX, |last| last.next().first_id());
    visit_ids(connection, (first.first_id(), end), visit)
}

/// Visits the entries of a trace from a sequence number on.
pub fn visit_trace(
    connection: &Connection,
    number: TraceNumber,
    from: u64,
    mut visit: impl FnMut(&StoredEntry<'_>) -> Visited,
) -> Result<(), StoreError> {
    // No trace has so many entries.
    let Ok(id) = number.entry_id(from) else { return Ok(()) };
    // The entry may be in the middle of a batch: the last one that does not begin after it.
    let sql = "SELECT max(
        ifnull((SELECT max(id) FROM first_batches WHERE id BETWEEN ?1 AND ?2), ?1),
        ifnull((SELECT max(id) FROM later_batches WHERE id BETWEEN ?1 AND ?2), ?1))";
    let first = query_value(connection, OPERATION, sql, [number.first_id(), id])?;
    visit_ids(connection, (first, number.next().first_id()), |entry| {
        if entry.sequence_number < from { Ok(ControlFlow::Continue(())) } else { visit(entry) }
    })
}
