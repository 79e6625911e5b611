//! Checking the table `keys` against the entries: a row that was deleted would let a call run twice.

use std::ops::ControlFlow;

use rusqlite::Connection;
use windlass_kernel::{ReservedKey, TraceId};
use windlass_store::{KeyMismatch, Slot, StoreError, Visitor};

use crate::entries::visit_trace;
use crate::entry_batch::StoredEntry;
use crate::keys;
use crate::replay::indexed_upto;
use crate::sql::{Context as _, query_each, query_first, query_value};
use crate::trace_rows;
use crate::types::{KeyHash, TraceNumber};

const OPERATION: &str = "read keys";

/// Compares the keys that entries reserve with the table, while a scan visits all entries.
pub struct KeyAudit<'a> {
    connection: &'a Connection,
    indexed_upto: TraceNumber,
    /// How many rows of the table belong to entries.
    found: i64,
}

impl<'a> KeyAudit<'a> {
    /// Begins before the first entry.
    pub fn new(connection: &'a Connection) -> Result<Self, StoreError> {
        Ok(Self { connection, indexed_upto: indexed_upto(connection)?, found: 0 })
    }

    /// Checks the reservation that an entry carries, and the one that the visitor expects with it.
    pub fn check(
        &mut self,
        entry: &StoredEntry<'_>,
        expected: Option<ReservedKey<'_>>,
    ) -> Result<Option<KeyMismatch>, StoreError> {
        let mut missing = false;
        // Only the keys of indexed traces are in the table.
        if entry.number <= self.indexed_upto
            && let Ok(fields) = entry.fields
            && let Some(hash) = fields.reserved_hash()
        {
            let sql = "SELECT EXISTS (SELECT 1 FROM keys WHERE hash = ?1 AND trace_number = ?2)";
            missing = !query_value(self.connection, OPERATION, sql, [hash.0, entry.number.0])?;
            self.found += i64::from(!missing);
        }
        if let Some(key) = expected
            && entry.reserved() != Some(key)
        {
            missing |= !self.is_reserved_elsewhere(entry, &key)?;
        }
        let trace_id = entry.trace_id().filter(|_| missing);
        Ok(trace_id.map(|trace_id| KeyMismatch {
            trace_id,
            sequence_number: entry.sequence_number,
            reason: KeyMismatch::MISSING,
        }))
    }

    /// Whether another entry of the trace carries the reservation.
    fn is_reserved_elsewhere(
        &self,
        entry: &StoredEntry<'_>,
        key: &ReservedKey<'_>,
    ) -> Result<bool, StoreError> {
        let slot = Slot::from(key);
        let hash = KeyHash::of(&slot);
        let record = match keys::read_record(self.connection, entry.number, (&slot, hash)) {
            // There is none that can be read.
            Err(StoreError::Corrupt { .. }) => None,
            record => record?,
        };
        Ok(record.is_some_and(|record| entry.entry().is_ok_and(|entry| record.is_for(key, &entry))))
    }

    /// Ends after the last entry: reports the rows of the table that belong to no entry.
    pub fn finish(self, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
        let sql = "SELECT count(*) FROM keys";
        if self.found == query_value::<i64>(self.connection, OPERATION, sql, [])? {
            return Ok(());
        }
        let sql = "SELECT hash, trace_number FROM keys";
        query_each(self.connection, OPERATION, sql, [], |row| {
            let hash = KeyHash(row.get(0).context(OPERATION)?);
            let number = TraceNumber(row.get(1).context(OPERATION)?);
            let (mut named, mut reserved) = (None, false);
            visit_trace(self.connection, number, 0, |entry| {
                named = named.or_else(|| entry.trace_id());
                reserved |= entry.fields.is_ok_and(|fields| fields.reserved_hash() == Some(hash));
                Ok(ControlFlow::Continue(()))
            })?;
            if !reserved {
                let trace_id = named.map_or_else(|| trace_id_of(self.connection, number), Ok)?;
                let reason = KeyMismatch::UNEXPECTED;
                visitor.key_mismatch(KeyMismatch { trace_id, sequence_number: 1, reason });
            }
            Ok(ControlFlow::Continue(()))
        })
    }
}

/// The id of a trace without entries.
fn trace_id_of(connection: &Connection, number: TraceNumber) -> Result<TraceId, StoreError> {
    let sql = "SELECT trace_id FROM traces WHERE trace_number = ?1";
    let trace_id =
        query_first(connection, OPERATION, sql, [number.0], |row| Ok(trace_rows::read_id(row)))?;
    trace_id.flatten().ok_or_else(|| StoreError::Corrupt {
        reason: format!("a key belongs to trace number {}, of which nothing is left", number.0),
    })
}
