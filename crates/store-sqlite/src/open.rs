//! Opening a database: settings, format version, migrations.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use rustix::fs::Access;
use rustix::io::Errno;
use windlass_store::StoreError;

use crate::error::During;
use crate::takeover;

/// Every migration there is; the last one's number is the format's version.
pub const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_initial.sql"),
    include_str!("../migrations/0002_two_trees.sql"),
    include_str!("../migrations/0003_sheets.sql"),
    include_str!("../migrations/0004_keys.sql"),
];

/// Marks a database as ours ("WNDL").
const APPLICATION_ID: i64 = 0x574e_444c;

/// How a connection waits, how large the write-ahead log may grow, and how much is left unfiled.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long to wait for another process's transaction.
    pub busy_timeout: Duration,
    /// From so many pages on, the write-ahead log is folded into the database.
    pub log_pages: u32,
    /// From so many traces on that are not filed, the older half of them is.
    pub unfiled_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(30),
            log_pages: 1000,
            // Another process that reads must read all that is not filed, but keys that are filed
            // together share pages.
            unfiled_max: 2048,
        }
    }
}

/// The newest format this version reads and writes.
pub fn format_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The shortest file that can be a database: one page of the smallest size.
const DATABASE_BYTES_MIN: u64 = 512;

/// Opens an existing database, or makes one where there is none.
pub fn open(path: &Path, settings: Settings) -> Result<Connection, StoreError> {
    // SQLite takes a file that is too short for an empty one, and would write over it.
    let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
    if path.is_file() && (1..DATABASE_BYTES_MIN).contains(&bytes) {
        let reason = format!("its file has {bytes} bytes, too few for a database");
        return Err(StoreError::Corrupt { reason });
    }
    // Found before SQLite makes files beside it that could not be written later either.
    if is_write_protected(path) {
        return Err(StoreError::ReadOnly { operation: "open its file" });
    }
    open_database(path, settings).map_err(|error| explain(path, error))
}

/// Finds out why a file cannot be opened: SQLite has one code for all causes.
fn explain(path: &Path, error: StoreError) -> StoreError {
    let StoreError::Unavailable { operation, source } = &error else { return error };
    let code = source.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
    if code != Some(ErrorCode::CannotOpen) {
        return error;
    }
    if path.is_dir() {
        return StoreError::Corrupt { reason: "its path is a folder".to_owned() };
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if is_write_protected(folder.unwrap_or(Path::new("."))) {
        return StoreError::ReadOnly { operation };
    }
    error
}

/// Asks without opening: closing a file would free the locks that this process has on it.
fn is_write_protected(path: &Path) -> bool {
    let access = rustix::fs::access(path, Access::WRITE_OK);
    matches!(access, Err(Errno::ACCESS | Errno::ROFS | Errno::PERM))
}

fn open_database(path: &Path, settings: Settings) -> Result<Connection, StoreError> {
    let mut connection = connect(path, settings)?;
    // In one transaction: between two of its questions another process may migrate.
    let snapshot = connection.transaction().during("read its format")?;
    let version = check_format(&snapshot)?;
    snapshot.commit().during("read its format")?;
    if version < format_version() {
        migrate(&mut connection)?;
    }
    let mode = switch_to_wal(&connection, settings).during("switch on its write-ahead log")?;
    if mode != "wal" {
        return Err(StoreError::Corrupt { reason: format!("its journal mode stays `{mode}`") });
    }
    Ok(connection)
}

/// Switches the write-ahead log on, and says what mode it then is. SQLite does not wait for others
/// that are about to do the same, so this does.
fn switch_to_wal(connection: &Connection, settings: Settings) -> rusqlite::Result<String> {
    let started = Instant::now();
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && started.elapsed() < settings.busy_timeout =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            mode => return mode,
        }
    }
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
    // Plans follow from the statements alone: to bind a value never compiles one anew.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .during("set its plans")?;
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA trusted_schema = OFF;",
        )
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
    let marked = objects > 0 || application != 0 || version != 0;
    if marked && application != APPLICATION_ID {
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
    for (number, migration) in MIGRATIONS.iter().enumerate().skip(done) {
        transaction.execute_batch(migration).during("migrate")?;
        if number + 1 == takeover::SHEETS {
            takeover::entries(&transaction)?;
        }
    }
    transaction
        .execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {};",
            format_version()
        ))
        .during("mark its format")?;
    transaction.commit().during("commit its migration")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_and_reading_connections_have_their_settings() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("windlass.db");
        let busy_timeout = Duration::from_millis(1_234);
        let settings = Settings { busy_timeout, ..Settings::default() };
        let writing = open(&path, settings).unwrap();
        let reading = connect(&path, settings).unwrap();
        for connection in [writing, reading] {
            let text = |name: &str| -> String {
                let sql = format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}");
                connection.query_row(&sql, [], |row| row.get(0)).unwrap()
            };
            assert_eq!(text("journal_mode"), "wal");
            assert_eq!(text("synchronous"), "2");
            assert_eq!(text("foreign_keys"), "1");
            assert_eq!(text("trusted_schema"), "0");
            let number = |name: &str| -> i64 {
                connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
            };
            assert_eq!(number("busy_timeout"), 1_234);
        }
    }
}
