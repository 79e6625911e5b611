//! Reading sheets from the database, entry by entry.

use std::ops::ControlFlow;

use rusqlite::{Connection, params};
use windlass_store::StoreError;

use crate::error::During;
use crate::rows::TraceNumber;
use crate::sheet::{Line, Lines};

/// What is made of an entry; and whether more are wanted.
type Visited = Result<ControlFlow<()>, StoreError>;

/// Shows the entries of the sheets with these keys, in their order.
fn between(
    connection: &Connection,
    (first, end): (i64, i64),
    mut visit: impl FnMut(&Line<'_>) -> Visited,
) -> Result<(), StoreError> {
    let operation = "read entries";
    let mut statement = connection
        .prepare_cached("SELECT id, sheet FROM sheets WHERE id >= ?1 AND id < ?2 ORDER BY id")
        .during(operation)?;
    let mut rows = statement.query([first, end]).during(operation)?;
    while let Some(row) = rows.next().during(operation)? {
        let id = row.get(0).during(operation)?;
        // A row without a sheet is one without entries, and is told as damage.
        let sheet = row.get_ref(1).during(operation)?.as_blob().unwrap_or_default();
        for line in Lines::of(id, sheet) {
            if visit(&line)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Shows the entries of all traces.
pub fn of_all(
    connection: &Connection,
    visit: impl FnMut(&Line<'_>) -> Visited,
) -> Result<(), StoreError> {
    between(connection, (i64::MIN, i64::MAX), visit)
}

/// Shows the entries of the traces from a number on, up to the last if one is given.
pub fn of_traces(
    connection: &Connection,
    first: TraceNumber,
    last: Option<TraceNumber>,
    visit: impl FnMut(&Line<'_>) -> Visited,
) -> Result<(), StoreError> {
    let end = last.map_or(i64::MAX, |last| last.next().floor());
    between(connection, (first.floor(), end), visit)
}

/// Shows the entries of a trace from a place on.
pub fn of_trace(
    connection: &Connection,
    number: TraceNumber,
    from: u64,
    mut visit: impl FnMut(&Line<'_>) -> Visited,
) -> Result<(), StoreError> {
    let operation = "read entries";
    // No trace has that many.
    let Ok(id) = number.entry_id(from) else { return Ok(()) };
    // The place may be in the middle of a sheet: of the last one that does not begin behind it.
    let first: i64 = connection
        .prepare_cached(
            "SELECT max(
                 ifnull((SELECT max(id) FROM sheets_opening WHERE id BETWEEN ?1 AND ?2), ?1),
                 ifnull((SELECT max(id) FROM sheets_later WHERE id BETWEEN ?1 AND ?2), ?1))",
        )
        .during(operation)?
        .query_row(params![number.floor(), id], |row| row.get(0))
        .during(operation)?;
    between(connection, (first, number.next().floor()), |line| {
        if line.sequence_number < from { Ok(ControlFlow::Continue(())) } else { visit(line) }
    })
}
