//! The write-ahead log of a database that another program reads: it cannot be written back, and grows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use crate::open::{Missing, Settings, connect};

/// The size from which a log is long. One that nobody holds is written back at a quarter of it.
pub const LOG_BYTES_MAX: u64 = 16 << 20;

/// Returns the size of a write-ahead log that is long because another program reads an old state of the database.
/// One that is long without that is emptied. What cannot be found out counts as no such log.
#[must_use]
pub fn held_log(database: &Path) -> Option<u64> {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    let log = PathBuf::from(log);
    let bytes = || log.metadata().map_or(0, |found| found.len());
    if bytes() <= LOG_BYTES_MAX {
        return None;
    }
    let settings = Settings { busy_timeout: Duration::ZERO, ..Settings::default() };
    let connection = connect(database, settings, Missing::Fails).ok()?;
    // A writer is busy for a moment; a reader that holds the log leaves a part of it unwritten.
    let is_held = is_part_unwritten(&connection, "PRAGMA wal_checkpoint(PASSIVE)")?;
    if is_held {
        return Some(bytes());
    }
    is_part_unwritten(&connection, "PRAGMA wal_checkpoint(TRUNCATE)");
    None
}

/// Writes the log back, and returns whether a part of it could not be.
fn is_part_unwritten(connection: &Connection, pragma: &str) -> Option<bool> {
    let pages = connection.query_row(pragma, [], |row| Ok((row.get(1)?, row.get(2)?)));
    let (all, written): (i64, i64) = pages.ok()?;
    Some(written < all)
}
