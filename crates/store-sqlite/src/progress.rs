//! How far a store got: which traces are indexed, and how many writes there were.
//!
//! Every write adds one to the *position* of the store: an append, a change of a lease, a replay point, a
//! dispatch. The position is the number in `indexed` plus the number of batches above `indexed.upto`, so
//! that an append to an unindexed trace need not touch the row.

use rusqlite::{Connection, params};
use windlass_kernel::Digest;
use windlass_store::StoreError;

use crate::sql::{Context as _, execute, query_first, query_value};
use crate::types::TraceNumber;

const OPERATION: &str = "read which traces are indexed";

/// The row of `indexed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The highest indexed trace number.
    pub upto: TraceNumber,
    /// How many writes there were, without the batches above `upto`.
    pub writes: i64,
    /// The id of the store.
    pub store: i64,
}

impl Progress {
    /// Inserts the row of a new store.
    pub fn create(connection: &Connection, store: i64) -> Result<(), StoreError> {
        let new = Self { upto: TraceNumber(0), writes: 0, store };
        let sql = "INSERT INTO indexed VALUES (1, ?1, ?2, ?3, ?4)";
        let row = params![new.upto.0, new.writes, new.store, new.checksum()];
        execute(connection, "create its schema", sql, row)
    }

    pub fn load(connection: &Connection) -> Result<Self, StoreError> {
        let sql = "SELECT upto, writes, store, checksum FROM indexed";
        let row = query_first(connection, OPERATION, sql, [], |row| {
            let upto = TraceNumber(row.get(0).context(OPERATION)?);
            let writes = row.get(1).context(OPERATION)?;
            let store = row.get(2).context(OPERATION)?;
            let checksum: i64 = row.get(3).context(OPERATION)?;
            let progress = Self { upto, writes, store };
            Ok((checksum == progress.checksum()).then_some(progress))
        })?;
        row.flatten().filter(|progress| progress.upto.is_valid()).ok_or_else(|| {
            let reason = "the row that says which traces are indexed is damaged or missing";
            StoreError::Corrupt { reason: reason.to_owned() }
        })
    }

    pub fn save(&self, connection: &Connection) -> Result<(), StoreError> {
        let sql = "UPDATE indexed SET upto = ?1, writes = ?2, checksum = ?3";
        let row = params![self.upto.0, self.writes, self.checksum()];
        execute(connection, "index traces", sql, row)
    }

    /// The position of the store.
    pub fn position(&self, connection: &Connection) -> Result<i64, StoreError> {
        Ok(self.writes.saturating_add(batches_above(connection, self.upto)?))
    }

    fn checksum(&self) -> i64 {
        checksum(&[self.upto.0, self.writes, self.store].map(i64::to_be_bytes).concat())
    }
}

/// How many batches belong to traces above a number.
pub fn batches_above(connection: &Connection, upto: TraceNumber) -> Result<i64, StoreError> {
    let sql = "SELECT (SELECT count(*) FROM first_batches WHERE id >= ?1)
        + (SELECT count(*) FROM later_batches WHERE id >= ?1)";
    query_value(connection, OPERATION, sql, [upto.next().first_id()])
}

/// The first eight bytes of a digest: tells whether a stored value was changed by accident.
pub fn checksum(bytes: &[u8]) -> i64 {
    let digest = Digest::of(bytes);
    digest.as_bytes().first_chunk().map_or(0, |first| i64::from_be_bytes(*first))
}
