//! Listing and counting traces, and listing the entries of one.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use windlass_kernel::{HolderId, PlanId, State, TraceId, Uuid7};
use windlass_store::{Counts, Record, StoreError, TraceFilter, TraceState};

use crate::entries::visit_trace;
use crate::open::has_counts;
use crate::replay::replay_unindexed;
use crate::sql::{Context as _, query_each};
use crate::trace_rows::{self, COLUMNS};
use crate::types::{TraceRow, is_open};

/// Lists traces, newest first.
pub fn traces(
    connection: &Connection,
    filter: &TraceFilter,
) -> Result<Vec<TraceState>, StoreError> {
    let limit = filter.limit;
    if limit == 0 {
        return Ok(Vec::new());
    }
    let unindexed = replay_unindexed(connection)?;
    let unindexed =
        unindexed.iter().filter_map(|replayed| Some(replayed.trace.as_ref().ok()?.state));
    let mut unindexed: Vec<TraceState> = unindexed.filter(|state| filter.admits(state)).collect();
    // Once there are enough, what is older than all of them need not be read.
    let mut filter = *filter;
    filter.not_before = sort_newest(&mut unindexed, limit).or(filter.not_before);
    let mut traces = Vec::new();
    for index in indexes(&filter) {
        let (sql, parameters) = search(index, &filter);
        let mut wanted = limit;
        query_each(connection, "list traces", &sql, params_from_iter(parameters), |row| {
            let state = trace_rows::read(row)?.state;
            if filter.admits(&state) {
                traces.push(state);
                wanted -= 1;
            }
            Ok(if wanted == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        filter.not_before = sort_newest(&mut traces, limit).or(filter.not_before);
    }
    traces.extend(unindexed);
    sort_newest(&mut traces, limit);
    Ok(traces)
}

/// Leaves the newest traces, newest first, and returns the oldest of them if there are as many as wanted. Of two traces
/// with one id the first one stays: the indexed one.
fn sort_newest(traces: &mut Vec<TraceState>, limit: usize) -> Option<TraceId> {
    traces.sort_by_key(|state| Reverse(state.head.trace_id));
    traces.dedup_by_key(|state| state.head.trace_id);
    traces.truncate(limit);
    traces.last().filter(|_| traces.len() == limit).map(|state| state.head.trace_id)
}

/// An index that has the traces of a list in its order.
#[derive(Clone, Copy, Debug)]
pub enum Index {
    /// The table itself.
    All,
    Open,
    State(State),
    Plan(PlanId),
}

/// The indexes that have the traces of a filter. What one index does not decide is decided for each of its traces: of
/// those that a plan has, or, as they are few, of those that are open.
pub fn indexes(filter: &TraceFilter) -> Vec<Index> {
    match (filter.states(), filter.plan_id) {
        (Some(states), plan_id)
            if plan_id.is_none() || !states.iter().any(|state| state.is_terminal()) =>
        {
            states.into_iter().map(Index::State).collect()
        }
        (None, _) if filter.open_only => vec![Index::Open],
        (_, Some(plan_id)) => vec![Index::Plan(plan_id)],
        (_, None) => vec![Index::All],
    }
}

/// The query that reads an index in the order of a list, from its end, and its parameters.
pub fn search(index: Index, filter: &TraceFilter) -> (String, Vec<Value>) {
    let id = |id: Uuid7| Value::Blob(id.as_bytes().to_vec());
    let of_index = match index {
        Index::All => None,
        Index::Open => Some(("open", None)),
        Index::State(state) => Some(("state = ?", Some(state.as_str().to_owned().into()))),
        Index::Plan(plan_id) => Some(("plan_id = ?", Some(id(plan_id.0)))),
    };
    let before = filter.before.map(|before| ("trace_id < ?", Some(id(before.0))));
    let not_before = filter.not_before.map(|oldest| ("trace_id >= ?", Some(id(oldest.0))));
    let mut sql = format!("SELECT {COLUMNS} FROM traces");
    let mut parameters = Vec::new();
    let mut keyword = " WHERE ";
    for (condition, parameter) in [of_index, before, not_before].into_iter().flatten() {
        sql.push_str(keyword);
        sql.push_str(condition);
        parameters.extend(parameter);
        keyword = " AND ";
    }
    sql.push_str(" ORDER BY trace_id DESC");
    (sql, parameters)
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
        let Ok(trace) = replayed.trace else {
            counts.unreadable += 1;
            continue;
        };
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
    let rows = held_rows(connection)?;
    let open = rows.iter().filter(|row| is_open(&row.state));
    holders.extend(open.filter_map(|row| row.state.holder));
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
