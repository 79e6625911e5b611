//! Checking the database itself: what no entry shows.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use rusqlite::Connection;
use windlass_store::StoreError;

use crate::SCHEMA;
use crate::listing;
use crate::redispatches;
use crate::sql::{Context as _, query_each};
use crate::trace_rows::{self, COLUMNS};

const OPERATION: &str = "check its file";

/// How many findings are reported.
const FINDINGS_MAX: usize = 100;

/// Finds what is wrong with the file, the schema, the rows of traces, and the dispatches of calls.
pub fn check(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut found = check_schema(connection)?;
    found.extend(check_file(connection)?);
    // Of the rest, nothing can be read with certainty.
    if found.is_empty() {
        found.extend(check_rows(connection)?);
        if !listing::counts_agree(connection).unwrap_or(false) {
            found.push("the counts of traces are not those of the traces".to_owned());
        }
        found.extend(check_redispatches(connection)?);
        found.extend(redispatches::check_replay_points(connection)?);
    }
    found.truncate(FINDINGS_MAX);
    Ok(found)
}

/// Asks SQLite: the pages, the order of rows, and whether each index has the rows of its table. The index of
/// open traces decides which calls and runs are seen at all.
fn check_file(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    query_each(connection, OPERATION, "PRAGMA integrity_check(100)", [], |row| {
        let text: String = row.get(0).context(OPERATION)?;
        if text != "ok" {
            found.extend(text.lines().map(str::to_owned));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Compares the schema with that of a new store: a trigger or an index that is missing would not be noticed
/// otherwise.
fn check_schema(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let fresh = Connection::open_in_memory().context(OPERATION)?;
    fresh.execute_batch(SCHEMA).context(OPERATION)?;
    let (expected, present) = (objects(&fresh)?, objects(connection)?);
    let missing = expected.difference(&present).map(|(kind, name, _)| {
        format!("the {kind} `{name}` of the schema is missing or was changed")
    });
    let known: BTreeSet<&str> = expected.iter().map(|(_, name, _)| name.as_str()).collect();
    let added = present
        .iter()
        .filter(|(_, name, _)| !known.contains(name.as_str()))
        .map(|(kind, name, _)| format!("the schema has a {kind} `{name}` that is not Windlass's"));
    Ok(missing.chain(added).collect())
}

/// Type, name and definition of everything in a schema.
type Objects = BTreeSet<(String, String, String)>;

fn objects(connection: &Connection) -> Result<Objects, StoreError> {
    let sql = "SELECT type, name, tbl_name || ifnull(sql, '') FROM main.sqlite_schema";
    let mut objects = BTreeSet::new();
    query_each(connection, OPERATION, sql, [], |row| {
        let column = |index| row.get::<_, String>(index).context(OPERATION);
        objects.insert((column(0)?, column(1)?, column(2)?));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(objects)
}

/// Reads each row of `traces`, with its checksum.
fn check_rows(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let sql = format!("SELECT {COLUMNS} FROM traces");
    query_each(connection, OPERATION, &sql, [], |row| {
        if let Err(error) = trace_rows::read(row) {
            found.push(match trace_rows::read_id(row) {
                Some(trace_id) => format!("{trace_id}: {error}"),
                None => error.to_string(),
            });
        }
        let full = found.len() >= FINDINGS_MAX;
        Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

/// Compares the dispatches of calls with the digests in the rows of their traces, in both directions.
fn check_redispatches(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut traces = redispatches::traces(connection)?;
    let sql = "SELECT trace_id FROM traces WHERE redispatches IS NOT NULL";
    query_each(connection, OPERATION, sql, [], |row| {
        traces.extend(trace_rows::read_id(row));
        Ok(ControlFlow::Continue(()))
    })?;
    traces.sort_unstable();
    traces.dedup();
    let mut found = Vec::new();
    for trace_id in traces {
        // A row that cannot be read is reported already.
        let Ok(row) = trace_rows::load(connection, trace_id) else { continue };
        match redispatches::list(connection, trace_id, row.as_ref()) {
            Ok(_) => {}
            Err(StoreError::Corrupt { reason }) => found.push(reason),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
