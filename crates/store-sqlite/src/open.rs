//! Opening a database: settings, format version, migrations.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use windlass_store::StoreError;

use crate::error::During;

/// Every migration there is; the last one's number is the format's version.
pub const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_initial.sql")];

/// Marks a database as ours ("WNDL").
const APPLICATION_ID: i64 = 0x574e_444c;

/// How a connection waits and how large the write-ahead log may grow.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long to wait for another process's transaction.
    pub busy_timeout: Duration,
    /// After how many pages the write-ahead log is folded into the database.
    pub wal_pages_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { busy_timeout: Duration::from_secs(30), wal_pages_max: 4000 }
    }
}

/// The newest format this version reads and writes.
pub fn format_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Opens an existing database, or makes one where there is none.
pub fn open(path: &Path, settings: Settings) -> Result<Connection, StoreError> {
    let mut connection = connect(path, settings)?;
    let version = check_format(&connection)?;
    if version < format_version() {
        migrate(&mut connection)?;
    }
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .during("switch on its write-ahead log")?;
    if mode != "wal" {
        return Err(StoreError::Corrupt { reason: format!("its journal mode stays `{mode}`") });
    }
    Ok(connection)
}

/// Opens one more connection to a database that [`open`] has seen.
pub fn connect(path: &Path, settings: Settings) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).during("open its file")?;
    connection.busy_timeout(settings.busy_timeout).during("set its time-out")?;
    // A process that lives for one call must not pay for folding the log into the database.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .during("set its closing")?;
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA trusted_schema = OFF;
             PRAGMA wal_autocheckpoint = {};
             PRAGMA cache_size = -16384;",
            settings.wal_pages_max
        ))
        .during("set its durability")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Reads the format's version; 0 for a new file.
fn check_format(connection: &Connection) -> Result<i64, StoreError> {
    let pragma = |name: &str| -> Result<i64, StoreError> {
        connection
            .query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
            .during("read its format")
    };
    let version = pragma("user_version")?;
    let application = pragma("application_id")?;
    let objects: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .during("read its schema")?;
    if objects > 0 && application != APPLICATION_ID {
        let reason = "its file is a database of something else".to_owned();
        return Err(StoreError::Corrupt { reason });
    }
    if version > format_version() {
        return Err(StoreError::TooNew { found: version, supported: format_version() });
    }
    Ok(version)
}

/// Brings the database to this version's format, in one transaction.
fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .during("begin its migration")?;
    // Another process may have been faster.
    let version = check_format(&transaction)?;
    let done = usize::try_from(version).unwrap_or_default();
    for migration in MIGRATIONS.iter().skip(done) {
        transaction.execute_batch(migration).during("migrate")?;
    }
    transaction
        .execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {};",
            format_version()
        ))
        .during("mark its format")?;
    transaction.commit().during("commit its migration")
}
