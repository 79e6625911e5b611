//! Visiting every trace with its entries once, in memory that does not grow.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rusqlite::Connection;
use windlass_kernel::TraceId;
use windlass_store::{StoreError, TraceState, Visitor};

use crate::entries::{visit_all, visit_trace};
use crate::key_audit::KeyAudit;
use crate::replay::replay_unindexed;
use crate::sql::{Context as _, query_each, query_first, query_value};
use crate::trace_rows::{self, COLUMNS};
use crate::types::TraceNumber;

const OPERATION: &str = "read the journal";

/// Visits all entries in the order of their ids, with the head of each trace before its first entry;
/// then the traces that have a row and no entries.
pub fn scan(connection: &Connection, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
    let unindexed: BTreeMap<_, _> = replay_unindexed(connection)?
        .into_iter()
        .map(|trace| (trace.number, trace.trace))
        .collect();
    let mut audit = KeyAudit::new(connection)?;
    let mut current: Option<TraceNumber> = None;
    let mut rows_seen = 0_i64;
    visit_all(connection, |entry| {
        // The id of its row decides which trace an entry belongs to, whatever its fields say.
        if current.replace(entry.number) != Some(entry.number) {
            let named = entry.trace_id();
            if let Some(replayed) = unindexed.get(&entry.number) {
                let trace_id = named.map_or_else(|| named_later(connection, entry.number), Ok)?;
                visitor.trace(trace_id, replayed.as_ref().ok().map(|trace| &trace.state));
            } else {
                let (trace_id, state) = find_row(connection, entry.number, named)?;
                rows_seen += i64::from(state.is_some());
                visitor.trace(trace_id, state.as_ref());
            }
        }
        let expected = visitor.entry(entry.entry(), entry.body());
        if let Some(mismatch) = audit.check(entry, expected)? {
            visitor.key_mismatch(mismatch);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    audit.finish(visitor)?;
    // The rows themselves, not those of an index.
    let sql = "SELECT count(*) FROM traces NOT INDEXED";
    let rows: i64 = query_value(connection, OPERATION, sql, [])?;
    if rows == rows_seen { Ok(()) } else { scan_without_entries(connection, visitor) }
}

/// Finds the row of the trace with this number. The state is `None` if there is no such row, or if it
/// cannot be read. The id that the first entry names counts only if its row has the number.
fn find_row(
    connection: &Connection,
    number: TraceNumber,
    named: Option<TraceId>,
) -> Result<(TraceId, Option<TraceState>), StoreError> {
    if let Some(trace_id) = named
        && let Ok(Some(trace)) = trace_rows::load(connection, trace_id)
        && trace.number == number
    {
        return Ok((trace_id, Some(trace.state)));
    }
    // Only damage leads here, so this needs no index.
    let sql = format!("SELECT {COLUMNS} FROM traces WHERE trace_number = ?1");
    let row = query_first(connection, OPERATION, &sql, [number.0], |row| {
        Ok((trace_rows::read_id(row), trace_rows::read(row).ok().map(|trace| trace.state)))
    })?;
    match row {
        Some((trace_id, state)) => Ok((trace_id.or(named).ok_or_else(nameless)?, state)),
        None => Ok((named.map_or_else(|| named_later(connection, number), Ok)?, None)),
    }
}

/// The id that a later entry of a trace names, if its first one names none.
fn named_later(connection: &Connection, number: TraceNumber) -> Result<TraceId, StoreError> {
    let mut named = None;
    visit_trace(connection, number, 0, |entry| {
        named = entry.trace_id();
        Ok(if named.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    named.ok_or_else(nameless)
}

/// Visits the traces that have a row but no entries that name them.
fn scan_without_entries(
    connection: &Connection,
    visitor: &mut dyn Visitor,
) -> Result<(), StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM traces ORDER BY trace_id");
    query_each(connection, OPERATION, &sql, [], |row| {
        let trace_id = trace_rows::read_id(row).ok_or_else(nameless)?;
        let number = TraceNumber(row.get(8).context(OPERATION)?);
        let mut named = false;
        visit_trace(connection, number, 0, |entry| {
            named = entry.trace_id() == Some(trace_id);
            Ok(if named { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if !named {
            let row = trace_rows::read(row).ok();
            visitor.trace(trace_id, row.map(|trace| trace.state).as_ref());
        }
        Ok(ControlFlow::Continue(()))
    })
}

fn nameless() -> StoreError {
    StoreError::Corrupt { reason: "an entry names no trace that could exist".to_owned() }
}
