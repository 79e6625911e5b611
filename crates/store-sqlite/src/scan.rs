//! Reading everything once, in memory that does not grow.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rusqlite::{Connection, Rows, params};
use windlass_kernel::{State, TraceId, Uuid7};
use windlass_store::{Counts, Record, StoreError, TraceFilter, TraceState, Visitor};

use crate::error::During;
use crate::find;
use crate::lines;
use crate::reserved::Check;
use crate::rows::{TRACE_COLUMNS, TraceNumber, TraceRow, is_open, load_trace, read_trace};
use crate::sheet::Line;

/// Walks all entries in the order they are filed, looking up each trace as it begins; then names
/// the traces that have lost all of theirs.
pub fn scan(connection: &Connection, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
    let operation = "read the journal";
    let unfiled = find::unfiled(connection)?;
    let mut recorded = connection
        .prepare(&format!("SELECT {TRACE_COLUMNS} FROM traces ORDER BY trace_id"))
        .during(operation)?;
    let mut heads = Heads::new(recorded.query([]).during(operation)?);
    let mut keys = Check::new(connection)?;
    let mut current: Option<TraceNumber> = None;
    let mut seen = 0_i64;
    lines::of_all(connection, |line| {
        let number = line.number;
        // What is in a trace's range belongs to it, whatever else it says.
        if current != Some(number) {
            let named = named_by(line);
            if let Some(folded) = unfiled.get(&number) {
                let trace_id = named.or_else(|_| named_later(connection, number))?;
                visitor.trace(trace_id, folded.trace.as_ref().ok().map(|trace| &trace.state));
            } else if let Ok(trace_id) = named
                && let Some(state) = heads.find(trace_id, number)?
            {
                seen += 1;
                visitor.trace(trace_id, Some(&state));
            } else {
                let (trace_id, trace) = begin(connection, number, named)?;
                seen += i64::from(trace.is_some());
                visitor.trace(trace_id, trace.as_ref());
            }
            current = Some(number);
        }
        visitor.entry(line.entry(), line.body());
        if let Some(lost) = keys.entry(line, visitor.reserved())? {
            visitor.unreserved(lost);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    keys.finish(visitor)?;
    let traces: i64 = connection
        .query_row("SELECT count(*) FROM traces", [], |row| row.get(0))
        .during(operation)?;
    if traces != seen {
        scan_empty(connection, visitor)?;
    }
    Ok(())
}

/// Reads the rows of traces in the order of their ids, which is nearly that of their entries: one
/// pass over the tree instead of a search in it for each trace.
struct Heads<'a> {
    rows: Rows<'a>,
    /// Those that came before they were asked for.
    ahead: BTreeMap<TraceId, TraceRow>,
}

impl<'a> Heads<'a> {
    /// So many rows are read for one question.
    const STEPS_MAX: usize = 64;
    /// So many are kept.
    const AHEAD_MAX: usize = 1024;

    const fn new(rows: Rows<'a>) -> Self {
        Self { rows, ahead: BTreeMap::new() }
    }

    /// The trace of this id and number, if it is near. `None` does not say that there is none.
    fn find(
        &mut self,
        trace_id: TraceId,
        number: TraceNumber,
    ) -> Result<Option<TraceState>, StoreError> {
        let mut found = self.ahead.remove(&trace_id);
        for _ in 0..Self::STEPS_MAX {
            if found.is_some() {
                break;
            }
            let Some(row) = self.rows.next().during("read the journal")? else { break };
            // One that cannot be read is found, and told, by its number.
            let Ok(row) = read_trace(row) else { continue };
            if row.state.head.trace_id == trace_id {
                found = Some(row);
            } else {
                self.ahead.insert(row.state.head.trace_id, row);
                if self.ahead.len() > Self::AHEAD_MAX {
                    self.ahead.pop_first();
                }
            }
        }
        Ok(found.filter(|row| row.number == number).map(|row| row.state))
    }
}

/// The id that an entry names.
fn named_by(line: &Line<'_>) -> Result<TraceId, StoreError> {
    line.fields.and_then(|fields| fields.trace_id()).map_err(|_| nameless())
}

/// The id that some entry of a trace names, whose first one names none.
fn named_later(connection: &Connection, number: TraceNumber) -> Result<TraceId, StoreError> {
    let mut named = Err(nameless());
    lines::of_trace(connection, number, 0, |line| {
        named = named_by(line);
        Ok(if named.is_ok() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    named
}

/// Finds the trace that entries are filed under; its head is `None` when there is no such trace, or
/// none that can be read. The id that the first entry names is believed only if it leads there.
fn begin(
    connection: &Connection,
    number: TraceNumber,
    named: Result<TraceId, StoreError>,
) -> Result<(TraceId, Option<TraceState>), StoreError> {
    let operation = "read the journal";
    if let Ok(trace_id) = named
        && let Ok(Some(trace)) = load_trace(connection, trace_id)
        && trace.number == number
    {
        return Ok((trace_id, Some(trace.state)));
    }
    // Only damage leads here, so this needs no index.
    let mut statement = connection
        .prepare(&format!("SELECT {TRACE_COLUMNS} FROM traces WHERE trace_number = ?1"))
        .during(operation)?;
    let mut rows = statement.query([number.0]).during(operation)?;
    match rows.next().during(operation)? {
        Some(row) => {
            let trace_id = raw_trace_id(row.get_ref(0).during(operation)?).or(named)?;
            Ok((trace_id, read_trace(row).ok().map(|trace| trace.state)))
        }
        None => Ok((named.or_else(|_| named_later(connection, number))?, None)),
    }
}

/// Shows the traces that have a head but no entries that name them.
fn scan_empty(connection: &Connection, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
    let operation = "read the journal";
    let mut statement = connection
        .prepare(&format!("SELECT {TRACE_COLUMNS} FROM traces ORDER BY trace_id"))
        .during(operation)?;
    let mut rows = statement.query([]).during(operation)?;
    while let Some(row) = rows.next().during(operation)? {
        let trace_id = raw_trace_id(row.get_ref(0).during(operation)?)?;
        let number = TraceNumber(row.get(8).during(operation)?);
        let mut named = false;
        lines::of_trace(connection, number, 0, |line| {
            named = named_by(line).is_ok_and(|name| name == trace_id);
            Ok(if named { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if !named {
            visitor.trace(trace_id, read_trace(row).ok().map(|trace| trace.state).as_ref());
        }
    }
    Ok(())
}

/// The id of the trace that is filed under a number, and has no entries that name it.
pub fn filed_under(connection: &Connection, number: TraceNumber) -> Result<TraceId, StoreError> {
    let operation = "read the journal";
    let mut statement = connection
        .prepare("SELECT trace_id FROM traces WHERE trace_number = ?1")
        .during(operation)?;
    let mut rows = statement.query([number.0]).during(operation)?;
    let row = rows.next().during(operation)?.ok_or_else(|| StoreError::Corrupt {
        reason: format!("a key is filed for trace number {}, of which nothing is left", number.0),
    })?;
    raw_trace_id(row.get_ref(0).during(operation)?)
}

fn raw_trace_id(value: rusqlite::types::ValueRef<'_>) -> Result<TraceId, StoreError> {
    value
        .as_blob()
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .and_then(|bytes| Uuid7::from_bytes(bytes).ok())
        .map(TraceId)
        .ok_or_else(nameless)
}

fn nameless() -> StoreError {
    StoreError::Corrupt { reason: "an entry names no trace that could exist".to_owned() }
}

/// Lists traces, newest first.
pub fn traces(
    connection: &Connection,
    filter: &TraceFilter,
) -> Result<Vec<TraceState>, StoreError> {
    let operation = "list traces";
    let mut sql = format!("SELECT {TRACE_COLUMNS} FROM traces WHERE true");
    if filter.open_only {
        // Written as in the partial index, which then serves it.
        sql.push_str(" AND open");
    }
    sql.push_str(
        " AND (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR trace_id < ?2)
          ORDER BY trace_id DESC LIMIT ?3",
    );
    let mut statement = connection.prepare_cached(&sql).during(operation)?;
    let mut rows = statement
        .query(params![
            filter.state.map(State::as_str),
            filter.before.as_ref().map(|id| id.0.as_bytes()),
            i64::try_from(filter.limit).unwrap_or(i64::MAX),
        ])
        .during(operation)?;
    let mut traces = Vec::new();
    while let Some(row) = rows.next().during(operation)? {
        traces.push(read_trace(row)?.state);
    }
    let wanted = |state: &TraceState| {
        (is_open(state) || !filter.open_only)
            && filter.state.is_none_or(|wanted| state.head.state == Some(wanted))
            && filter.before.is_none_or(|before| state.head.trace_id < before)
    };
    let unfiled = find::unfiled(connection)?;
    let unfiled = unfiled.values().filter_map(|folded| Some(folded.trace.as_ref().ok()?.state));
    traces.extend(unfiled.filter(wanted));
    // Stable, so that of two with one id the filed one stays.
    traces.sort_by_key(|state| std::cmp::Reverse(state.head.trace_id));
    traces.dedup_by_key(|state| state.head.trace_id);
    traces.truncate(filter.limit);
    Ok(traces)
}

/// Counts traces by their states in one pass over their rows, then those that have none yet.
pub fn count(connection: &Connection) -> Result<Counts, StoreError> {
    let operation = "count traces";
    let mut counts = Counts::default();
    let mut statement = connection
        .prepare_cached(
            "SELECT state, count(*), sum(last_sequence_number)
             FROM traces GROUP BY state",
        )
        .during(operation)?;
    let mut rows = statement.query([]).during(operation)?;
    let whole = |number: i64| u64::try_from(number).unwrap_or_default();
    while let Some(row) = rows.next().during(operation)? {
        let state: String = row.get(0).during(operation)?;
        let state: State = state.parse().map_err(|_| StoreError::Corrupt {
            reason: "a trace's column state is unreadable".to_owned(),
        })?;
        let (traces, entries): (i64, i64) =
            (row.get(1).during(operation)?, row.get(2).during(operation)?);
        counts.add(Some(state), whole(traces), whole(entries));
    }
    let unfiled = find::unfiled(connection)?;
    for folded in unfiled.values() {
        // One that is filed as well has been counted.
        let Ok(trace) = &folded.trace else { continue };
        let head = trace.state.head;
        if load_trace(connection, head.trace_id)?.is_none() {
            counts.add(head.state, 1, head.sequence_number);
        }
    }
    Ok(counts)
}

/// Lists a trace's entries.
pub fn list(
    connection: &Connection,
    trace: TraceRow,
    after_sequence_number: u64,
    limit: usize,
) -> Result<Vec<Record>, StoreError> {
    let trace_id = trace.state.head.trace_id;
    let mut records = Vec::new();
    lines::of_trace(connection, trace.number, after_sequence_number.saturating_add(1), |line| {
        if records.len() == limit {
            return Ok(ControlFlow::Break(()));
        }
        let entry = line.entry().map_err(|source| StoreError::CorruptTrace { trace_id, source })?;
        records.push(Record { entry, body: line.body().map(<[u8]>::to_vec) });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(records)
}
