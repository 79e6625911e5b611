//! Entries of older formats, which had a row each, on sheets.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use windlass_store::StoreError;

use crate::error::During;
use crate::sheet::{self, FIELDS, Field, Fields, RELEASED};

/// The format that has sheets.
pub const SHEETS: usize = 3;

/// Puts each entry on a sheet of its own, as it is, damaged or not; the tables that they were in go.
pub fn entries(connection: &Connection) -> Result<(), StoreError> {
    let operation = "take entries over";
    for table in ["opening", "later"] {
        let mut statement = connection
            .prepare(&format!(
                "SELECT id, trace_id, prev_entry_digest, ts, from_state, to_state, artifact_type,
                     artifact_id, artifact_digest, tool_call_id, idempotency_key, entry_digest,
                     plan_id, holder, released, server_id, tool_name, request_digest, body
                 FROM entries_{table} ORDER BY id"
            ))
            .during(operation)?;
        let mut insert = connection
            .prepare(&format!("INSERT INTO sheets_{table} VALUES (?1, ?2)"))
            .during(operation)?;
        let mut rows = statement.query([]).during(operation)?;
        let mut bytes = Vec::new();
        while let Some(row) = rows.next().during(operation)? {
            let (id, ts): (i64, i64) =
                (row.get(0).during(operation)?, row.get(3).during(operation)?);
            let ts = ts.to_be_bytes();
            let mut fields = [None; FIELDS];
            for (at, field) in fields.iter_mut().enumerate() {
                *field = match row.get_ref(at + 1).during(operation)? {
                    ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Some(bytes),
                    ValueRef::Integer(_) if at == Field::Time as usize => Some(ts.as_slice()),
                    // The mark that a lease was given back.
                    ValueRef::Integer(_) => Some(RELEASED),
                    ValueRef::Null | ValueRef::Real(_) => None,
                };
            }
            bytes.clear();
            sheet::put(&mut bytes, &Fields::new(fields), None);
            insert.execute(params![id, bytes]).during(operation)?;
        }
    }
    connection
        .execute_batch("DROP VIEW entries; DROP TABLE entries_opening; DROP TABLE entries_later")
        .during(operation)
}
