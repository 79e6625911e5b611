//! Reading everything once, in memory that does not grow.

use rusqlite::{Connection, Row};
use windlass_kernel::{ChainError, TraceId, Uuid7};
use windlass_store::{StoreError, Visitor};

use crate::error::During;
use crate::rows::{ENTRY_COLUMNS, TRACE_COLUMNS, read_entry, read_trace};

/// Walks traces and entries side by side in the order of their ids, so that entries without a
/// trace are seen as well as traces without entries.
pub fn scan(connection: &Connection, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
    let operation = "read the journal";
    // One snapshot for both walks.
    let snapshot = connection.unchecked_transaction().during(operation)?;
    let mut traces = snapshot
        .prepare(&format!("SELECT {TRACE_COLUMNS} FROM traces ORDER BY trace_id"))
        .during(operation)?;
    let mut entries = snapshot
        .prepare(&format!(
            "SELECT {ENTRY_COLUMNS}, b.body FROM entries e LEFT JOIN bodies b ON b.id = e.body
             ORDER BY e.trace_id, e.sequence_number"
        ))
        .during(operation)?;
    let mut traces = traces.query([]).during(operation)?;
    let mut entries = entries.query([]).during(operation)?;

    let mut entry = entries.next().during(operation)?;
    let mut trace = traces.next().during(operation)?;
    loop {
        let trace_key = trace.map(key).transpose()?;
        let entry_key = entry.map(key).transpose()?;
        let current = match (trace_key, entry_key) {
            (None, None) => return Ok(()),
            (Some(trace), Some(entry)) => trace.min(entry),
            (Some(only), None) | (None, Some(only)) => only,
        };
        let trace_id = TraceId(Uuid7::from_bytes(current).map_err(|_| StoreError::Corrupt {
            reason: "a trace's id is not a UUID of version 7".to_owned(),
        })?);
        if trace_key == Some(current) {
            let state = trace.map(read_trace).transpose()?;
            visitor.trace(trace_id, state.as_ref());
            trace = traces.next().during(operation)?;
        } else {
            visitor.trace(trace_id, None);
        }
        while let Some(row) = entry {
            if key(row)? != current {
                break;
            }
            let body = row.get_ref(12).during(operation)?.as_blob().ok();
            visitor.entry(read_entry(row), body);
            entry = entries.next().during(operation)?;
        }
    }
}

/// The trace id of a row, in whose binary form both walks are ordered.
fn key(row: &Row<'_>) -> Result<[u8; 16], StoreError> {
    let bytes = row.get_ref(0).during("read the journal")?;
    bytes.as_blob().ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        let reason = "a trace's id is not 16 bytes long".to_owned();
        StoreError::Corrupt { reason }
    })
}

/// Lists a trace's entries.
pub fn list(
    connection: &Connection,
    trace_id: TraceId,
    after_sequence_number: u64,
    limit: usize,
) -> Result<Vec<windlass_store::Record>, StoreError> {
    let operation = "read a trace's entries";
    let mut statement = connection
        .prepare_cached(
            "SELECT e.trace_id, e.sequence_number, e.prev_entry_digest, e.ts, e.from_state,
                    e.to_state, e.artifact_type, e.artifact_id, e.artifact_digest,
                    e.tool_call_id, e.idempotency_key, e.entry_digest, b.body
             FROM entries e LEFT JOIN bodies b ON b.id = e.body
             WHERE e.trace_id = ?1 AND e.sequence_number > ?2
             ORDER BY e.sequence_number LIMIT ?3",
        )
        .during(operation)?;
    let after = i64::try_from(after_sequence_number).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement
        .query(rusqlite::params![trace_id.0.as_bytes(), after, limit])
        .during(operation)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next().during(operation)? {
        let entry = read_entry(row)
            .map_err(|source: ChainError| StoreError::CorruptTrace { trace_id, source })?;
        let body = row.get_ref(12).during(operation)?.as_blob().ok().map(<[u8]>::to_vec);
        records.push(windlass_store::Record { entry, body });
    }
    Ok(records)
}
