//! Listing and counting traces, and listing the entries of one.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use rusqlite::{Connection, params};
use windlass_kernel::{HolderId, State};
use windlass_store::{Counts, Record, StoreError, TraceFilter, TraceState};

use crate::entries::visit_trace;
use crate::open::has_counts;
use crate::replay::replay_unindexed;
use crate::sql::{Context as _, query_each};
use crate::trace_rows::{self, COLUMNS};
use crate::types::{TraceRow, is_open};

pub fn traces(
    connection: &Connection,
    filter: &TraceFilter,
) -> Result<Vec<TraceState>, StoreError> {
    let sql = listing_sql(filter);
    let parameters = params![
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

/// The query for a list. Its conditions are written as in the partial indexes of open traces and ended runs, so that
/// SQLite uses them.
fn listing_sql(filter: &TraceFilter) -> String {
    let open = if filter.open_only { "open" } else { "true" };
    let state = match filter.state {
        Some(state) => format!("state = '{}'", state.as_str()),
        None => "true".to_owned(),
    };
    format!(
        "SELECT {COLUMNS} FROM traces
         WHERE {open} AND {state} AND (?1 IS NULL OR trace_id < ?1)
         ORDER BY trace_id DESC LIMIT ?2"
    )
}

/// How many indexed traces and entries there are, by counting them.
const COUNTED: &str =
    "SELECT state, count(*), sum(last_sequence_number) FROM traces GROUP BY state";
/// The same, as triggers keep it.
const KEPT: &str =
    "SELECT state, traces, entries FROM trace_counts WHERE traces <> 0 OR entries <> 0";

/// How many traces and entries there are, the unindexed ones included. The time does not depend on their number.
pub fn count(connection: &Connection) -> Result<Counts, StoreError> {
    // A store that cannot be written to may be older than the counts.
    let sql = if has_counts(connection)? { KEPT } else { COUNTED };
    let mut counts = indexed_counts(connection, sql)?;
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

/// Whether the numbers that triggers keep are those of the traces.
pub fn counts_agree(connection: &Connection) -> Result<bool, StoreError> {
    Ok(indexed_counts(connection, KEPT)? == indexed_counts(connection, COUNTED)?)
}

fn indexed_counts(connection: &Connection, sql: &str) -> Result<Counts, StoreError> {
    let operation = "count traces";
    let mut counts = Counts::default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_counts_nor_ended_runs_are_looked_for_among_all_traces() {
        let connection = Connection::open_in_memory().unwrap();
        crate::open::create(&connection).unwrap();
        let plan_of = |sql: &str| -> String {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let rows = statement.raw_query().mapped(|row| row.get::<_, String>(3));
            rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(plan_of(KEPT), "SCAN trace_counts");
        assert_eq!(plan_of(COUNTED).lines().count(), 1);
        let filter = |open_only, state| TraceFilter { open_only, state, before: None, limit: 1 };
        for (filter, index) in [
            (filter(false, Some(State::Terminal)), "traces_ended_runs"),
            (filter(true, None), "traces_open"),
            (filter(true, Some(State::Checkpoint)), "traces_open"),
        ] {
            let plan = plan_of(&listing_sql(&filter));
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
