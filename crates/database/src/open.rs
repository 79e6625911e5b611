//! Opening a file: settings, format, schema.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

/// The shortest file that can be a database: one page of the smallest size.
const DATABASE_BYTES_MIN: u64 = 512;

/// What a file must be.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The application id that the schema sets.
    pub application_id: i64,
    /// The version that the schema sets as `user_version`.
    pub version: i64,
    /// Creates the tables in an empty file.
    pub schema: &'static str,
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// Another process kept it locked for too long.
    #[error("another process keeps it locked")]
    Busy,
    /// It is not a file of this format and version, or it is damaged.
    #[error("{reason}")]
    Unusable {
        /// What is wrong with it.
        reason: String,
    },
    /// It could not be read or written.
    #[error("{reason}")]
    Failed {
        /// What went wrong.
        reason: String,
    },
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::NotADatabase) => {
                Self::Unusable { reason: "its file is not a database".to_owned() }
            }
            Some(ErrorCode::DatabaseCorrupt) => {
                Self::Unusable { reason: format!("its file is damaged: {error}") }
            }
            Some(_) | None => Self::Failed { reason: error.to_string() },
        }
    }
}

/// Opens a database, or creates it where there is no file.
///
/// # Errors
/// [`DatabaseError`].
pub fn open(
    path: &Path,
    format: &Format,
    busy_timeout: Duration,
) -> Result<Connection, DatabaseError> {
    // SQLite treats a file that is too short as an empty one, and would overwrite it.
    let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    let bytes = file.map_or(0, |meta| meta.len());
    if (1..DATABASE_BYTES_MIN).contains(&bytes) {
        let reason = format!("its file has {bytes} bytes, too few for a database");
        return Err(DatabaseError::Unusable { reason });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(busy_timeout)?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = ON;
         PRAGMA trusted_schema = OFF;",
    )?;
    connection.set_prepared_statement_cache_capacity(64);
    let snapshot = connection.transaction()?;
    let contents = check(&snapshot, format)?;
    snapshot.commit()?;
    if contents == Contents::Empty {
        create(&mut connection, format)?;
    }
    switch_to_wal(&connection, busy_timeout)?;
    Ok(connection)
}

/// What a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    /// Nothing yet.
    Empty,
    /// A database of the format.
    Current,
}

/// Refuses whatever is neither empty nor of the format.
fn check(connection: &Connection, format: &Format) -> Result<Contents, DatabaseError> {
    let query = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let found = query("PRAGMA user_version")?;
    let application = query("PRAGMA application_id")?;
    let objects = query("SELECT count(*) FROM sqlite_schema")?;
    if (objects, application, found) == (0, 0, 0) {
        return Ok(Contents::Empty);
    }
    if application != format.application_id {
        let reason = "its file is a database of something else".to_owned();
        return Err(DatabaseError::Unusable { reason });
    }
    if found != format.version {
        let known = format.version;
        let reason = format!("its file has format {found}, and this version knows {known}");
        return Err(DatabaseError::Unusable { reason });
    }
    Ok(Contents::Current)
}

fn create(connection: &mut Connection, format: &Format) -> Result<(), DatabaseError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    if check(&transaction, format)? == Contents::Empty {
        transaction.execute_batch(format.schema)?;
    }
    Ok(transaction.commit()?)
}

/// Switches the write-ahead log on. SQLite does not wait for processes that do the same at this moment,
/// so this function waits.
fn switch_to_wal(connection: &Connection, busy_timeout: Duration) -> Result<(), DatabaseError> {
    let started = Instant::now();
    loop {
        let mode = connection
            .query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0))
            .map_err(DatabaseError::from);
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let reason = format!("its journal mode stays `{mode}`");
                return Err(DatabaseError::Failed { reason });
            }
            Err(DatabaseError::Busy) if started.elapsed() < busy_timeout => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format {
        application_id: 7,
        version: 1,
        schema: "PRAGMA application_id = 7; PRAGMA user_version = 1; \
                 CREATE TABLE t (a TEXT NOT NULL) STRICT;",
    };
    const WAIT: Duration = Duration::from_secs(20);

    fn reason(path: &Path, format: &Format) -> String {
        match open(path, format, WAIT).map(drop) {
            Err(DatabaseError::Unusable { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_created_once_and_opened_again() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.db");
        let openers: Vec<_> = (0..8)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || {
                    let connection = open(&path, &FORMAT, WAIT).unwrap();
                    connection.execute("INSERT INTO t VALUES ('x')", []).unwrap()
                })
            })
            .collect();
        assert_eq!(openers.into_iter().map(|opener| opener.join().unwrap()).sum::<usize>(), 8);
        let connection = open(&path, &FORMAT, WAIT).unwrap();
        let count: i64 = connection.query_row("SELECT count(*) FROM t", [], |r| r.get(0)).unwrap();
        assert_eq!(count, 8);
        let mode: String =
            connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }

    #[test]
    fn other_files_are_refused_and_stay_as_they_are() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.db");
        drop(open(&path, &FORMAT, WAIT).unwrap());
        let newer = Format { version: 2, ..FORMAT };
        assert_eq!(reason(&path, &newer), "its file has format 1, and this version knows 2");
        let other = Format { application_id: 8, ..FORMAT };
        assert_eq!(reason(&path, &other), "its file is a database of something else");
        for (name, bytes) in [("short", b"x".repeat(100)), ("text", b"hello\n".repeat(1000))] {
            let path = folder.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            assert!(reason(&path, &FORMAT).starts_with("its file"), "{name}");
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn a_folder_and_a_missing_folder_fail() {
        let folder = tempfile::TempDir::new().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("none/a.db")] {
            let failed = open(&path, &FORMAT, WAIT).map(drop);
            assert!(matches!(failed, Err(DatabaseError::Failed { .. })), "{failed:?}");
        }
    }

    #[test]
    fn a_locked_file_is_busy_after_the_time() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.db");
        let mut first = open(&path, &FORMAT, WAIT).unwrap();
        let held = first.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let second = open(&path, &FORMAT, Duration::from_millis(50)).unwrap();
        let written = second.execute("INSERT INTO t VALUES ('x')", []);
        assert_eq!(written.map_err(DatabaseError::from), Err(DatabaseError::Busy));
        drop(held);
        assert_eq!(second.execute("INSERT INTO t VALUES ('x')", []), Ok(1));
    }
}
