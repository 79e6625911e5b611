//! Listing and counting traces, and listing the entries of one.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use rusqlite::{Connection, params};
use windlass_kernel::{HolderId, State};
use windlass_store::{Counts, Record, StoreError, TraceFilter, TraceState};

use crate::entries::visit_trace;
use crate::replay::replay_unindexed;
use crate::sql::{Context as _, query_each};
use crate::trace_rows::{self, COLUMNS};
use crate::types::{TraceRow, is_open};

pub fn traces(
    connection: &Connection,
    filter: &TraceFilter,
) -> Result<Vec<TraceState>, StoreError> {
    // The condition is written as in the partial index, so that SQLite uses it.
    let open = if filter.open_only { "open" } else { "true" };
    let sql = format!(
        "SELECT {COLUMNS} FROM traces
         WHERE {open} AND (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR trace_id < ?2)
         ORDER BY trace_id DESC LIMIT ?3"
    );
    let parameters = params![
        filter.state.map(State::as_str),
        filter.before.as_ref().map(|id| id.0.as_bytes()),
        i64::try_from(filter.limit).unwrap_or(i64::MAX),
    ];
    let mut traces = Vec::new();
    query_each(connection, "list traces", &sql, parameters, |row| {
        traces.push(trace_rows::read(row)?.state);
        Ok(ControlFlow::Continue(()))
    })?;
    let wanted = |state: &TraceState| {
        (is_open(state) || !filter.open_only)
            && filter.state.is_none_or(|wanted| state.head.state == Some(wanted))
            && filter.before.is_none_or(|before| state.head.trace_id < before)
    };
    let unindexed = replay_unindexed(connection)?;
    let unindexed =
        unindexed.iter().filter_map(|replayed| Some(replayed.trace.as_ref().ok()?.state));
    traces.extend(unindexed.filter(wanted));
    // The sort is stable: of two traces with one id the indexed one stays.
    traces.sort_by_key(|state| Reverse(state.head.trace_id));
    traces.dedup_by_key(|state| state.head.trace_id);
    traces.truncate(filter.limit);
    Ok(traces)
}

/// Counts traces and entries by the rows of the traces, then the unindexed ones.
pub fn count(connection: &Connection) -> Result<Counts, StoreError> {
    let operation = "count traces";
    let mut counts = Counts::default();
    let sql = "SELECT state, count(*), sum(last_sequence_number) FROM traces GROUP BY state";
    query_each(connection, operation, sql, [], |row| {
        let state: String = row.get(0).context(operation)?;
        let state: State = state.parse().map_err(|_| StoreError::Corrupt {
            reason: "a trace's column state is unreadable".to_owned(),
        })?;
        let column = |index| -> Result<u64, StoreError> {
            Ok(u64::try_from(row.get::<_, i64>(index).context(operation)?).unwrap_or_default())
        };
        counts.add(Some(state), column(1)?, column(2)?);
        Ok(ControlFlow::Continue(()))
    })?;
    for replayed in replay_unindexed(connection)? {
        let Ok(trace) = replayed.trace else { continue };
        let head = trace.state.head;
        // A trace that has a row as well has been counted.
        if trace_rows::load(connection, head.trace_id)?.is_none() {
            counts.add(head.state, 1, head.sequence_number);
        }
    }
    Ok(counts)
}

/// The processes that open traces name as their holders.
pub fn open_holders(connection: &Connection) -> Result<BTreeSet<HolderId>, StoreError> {
    let mut holders = BTreeSet::new();
    let sql = format!("SELECT {COLUMNS} FROM traces WHERE open AND holder IS NOT NULL");
    query_each(connection, "list traces", &sql, [], |row| {
        holders.extend(trace_rows::read(row)?.state.holder);
        Ok(ControlFlow::Continue(()))
    })?;
    for replayed in replay_unindexed(connection)? {
        // Which holder a damaged trace had, nobody knows.
        let trace = replayed.trace.map_err(|_| StoreError::Corrupt {
            reason: format!("trace number {} is damaged", replayed.number.0),
        })?;
        holders.extend(trace.state.holder);
    }
    Ok(holders)
}

/// The rows of all traces that somebody holds.
pub fn held_rows(connection: &Connection) -> Result<Vec<TraceRow>, StoreError> {
    let mut rows = Vec::new();
    let sql = format!("SELECT {COLUMNS} FROM traces WHERE holder IS NOT NULL");
    query_each(connection, "list traces", &sql, [], |row| {
        rows.push(trace_rows::read(row)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

/// Lists the entries of a trace after a sequence number.
pub fn entries(
    connection: &Connection,
    trace: &TraceRow,
    after_sequence_number: u64,
    limit: usize,
) -> Result<Vec<Record>, StoreError> {
    let trace_id = trace.state.head.trace_id;
    let mut records = Vec::new();
    visit_trace(connection, trace.number, after_sequence_number.saturating_add(1), |stored| {
        if records.len() == limit {
            return Ok(ControlFlow::Break(()));
        }
        let entry =
            stored.entry().map_err(|source| StoreError::CorruptTrace { trace_id, source })?;
        records.push(Record { entry, body: stored.body().map(<[u8]>::to_vec) });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(records)
}
