//! The tables `redispatches` and `replay_points`.
//!
//! The dispatches of a call after its first are bound by a digest in the row of its trace: that of each
//! dispatch covers the digest before it. So a dispatch that was changed, removed or added shows.

use std::ops::ControlFlow;

use rusqlite::{Connection, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{Digest, ReplayPoint, TraceId, canon};
use windlass_store::StoreError;

use crate::progress::checksum;
use crate::sql::{Context as _, execute, query_each, query_first};
use crate::trace_rows;
use crate::types::TraceRow;

const OPERATION: &str = "read a call's dispatches";

/// The digest after one more dispatch.
fn bind(before: Option<Digest>, trace_id: TraceId, document: &[u8]) -> Digest {
    let before = before.unwrap_or(Digest::GENESIS);
    Digest::of(&[&before.as_bytes()[..], trace_id.0.as_bytes(), document].concat())
}

/// Lists the dispatches of a trace, whose row is `None` if it is not indexed.
pub fn list(
    connection: &Connection,
    trace_id: TraceId,
    row: Option<&TraceRow>,
) -> Result<Vec<Redispatch>, StoreError> {
    let sql = "SELECT document FROM redispatches WHERE trace_id = ?1 ORDER BY attempt";
    let mut redispatches = Vec::new();
    let mut digest = None;
    query_each(connection, OPERATION, sql, [trace_id.0.as_bytes()], |row| {
        let document: Vec<u8> = row.get(0).context(OPERATION)?;
        digest = Some(bind(digest, trace_id, &document));
        redispatches.push(from_document(&document)?);
        Ok(ControlFlow::Continue(()))
    })?;
    if digest == row.and_then(|row| row.redispatches) {
        return Ok(redispatches);
    }
    let reason = format!("the recorded dispatches of trace `{trace_id}` were changed or removed");
    Err(StoreError::Corrupt { reason })
}

/// Records a dispatch of an indexed trace.
pub fn record(
    connection: &Connection,
    before: TraceRow,
    redispatch: &Redispatch,
) -> Result<(), StoreError> {
    let trace_id = before.state.head.trace_id;
    let document = to_document(redispatch)?;
    let row =
        TraceRow { redispatches: Some(bind(before.redispatches, trace_id, &document)), ..before };
    let columns = params![trace_id.0.as_bytes(), redispatch.attempt, document];
    let sql = "INSERT INTO redispatches VALUES (?1, ?2, ?3)";
    execute(connection, "record a dispatch", sql, columns)?;
    trace_rows::update(connection, &before, &row)
}

/// The traces that have dispatches in the table.
pub fn traces(connection: &Connection) -> Result<Vec<TraceId>, StoreError> {
    let sql = "SELECT DISTINCT trace_id FROM redispatches";
    let mut traces = Vec::new();
    query_each(connection, OPERATION, sql, [], |row| {
        let trace_id = trace_rows::read_id(row).ok_or_else(|| StoreError::Corrupt {
            reason: "a dispatch names no trace that could exist".to_owned(),
        })?;
        traces.push(trace_id);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(traces)
}

pub fn write_replay_point(
    connection: &Connection,
    trace_id: TraceId,
    point: &ReplayPoint,
) -> Result<(), StoreError> {
    let document = to_document(point)?;
    let number = i64::try_from(point.checkpoint_sequence_number).unwrap_or(i64::MAX);
    let sum = replay_point_checksum(trace_id, number, &document);
    let sql = "INSERT OR REPLACE INTO replay_points VALUES (?1, ?2, ?3, ?4)";
    let columns = params![trace_id.0.as_bytes(), number, document, sum];
    execute(connection, "write a replay point", sql, columns)
}

pub fn load_latest_replay_point(
    connection: &Connection,
    trace_id: TraceId,
) -> Result<Option<ReplayPoint>, StoreError> {
    let operation = "read a replay point";
    let sql = "SELECT document FROM replay_points WHERE trace_id = ?1
        ORDER BY sequence_number DESC LIMIT 1";
    query_first(connection, operation, sql, [trace_id.0.as_bytes()], |row| {
        from_document(&row.get::<_, Vec<u8>>(0).context(operation)?)
    })
}

/// Compares every replay point with its checksum.
pub fn check_replay_points(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let operation = "read replay points";
    let sql = "SELECT trace_id, sequence_number, document, checksum FROM replay_points";
    let mut found = Vec::new();
    query_each(connection, operation, sql, [], |row| {
        let number = row.get(1).context(operation)?;
        let document: Vec<u8> = row.get(2).context(operation)?;
        let sum: i64 = row.get(3).context(operation)?;
        let trace_id = trace_rows::read_id(row);
        let expected = trace_id.map(|id| replay_point_checksum(id, number, &document));
        if expected != Some(sum) {
            found.push(match trace_id {
                Some(trace_id) => format!("a replay point of trace `{trace_id}` is damaged"),
                None => "a replay point names no trace that could exist".to_owned(),
            });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn replay_point_checksum(trace_id: TraceId, number: i64, document: &[u8]) -> i64 {
    checksum(&[&trace_id.0.as_bytes()[..], &number.to_be_bytes(), document].concat())
}

fn to_document(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    canon::to_bytes(value).map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}

fn from_document<T: DeserializeOwned>(document: &[u8]) -> Result<T, StoreError> {
    let corrupt = |reason: String| StoreError::Corrupt { reason };
    let value = canon::parse(document, usize::MAX).map_err(|error| corrupt(error.to_string()))?;
    serde_json::from_value(value).map_err(|error| corrupt(error.to_string()))
}
