//! Running SQL, and translating SQLite's errors into the contract's.

use std::ops::ControlFlow;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Params, Row};
use windlass_store::StoreError;

/// Adds the name of the operation that failed.
pub trait Context<T> {
    /// Turns a failure into the contract's error for it.
    fn context(self, operation: &'static str) -> Result<T, StoreError>;
}

impl<T> Context<T> for Result<T, rusqlite::Error> {
    fn context(self, operation: &'static str) -> Result<T, StoreError> {
        self.map_err(|error| store_error(operation, error))
    }
}

impl<T> Context<T> for Result<T, std::io::Error> {
    fn context(self, operation: &'static str) -> Result<T, StoreError> {
        use std::io::ErrorKind as Kind;
        self.map_err(|error| {
            let kind = error.kind();
            if matches!(kind, Kind::ReadOnlyFilesystem | Kind::PermissionDenied) {
                StoreError::ReadOnly { operation }
            } else if matches!(kind, Kind::StorageFull | Kind::QuotaExceeded) {
                StoreError::Full { operation }
            } else {
                StoreError::Unavailable { operation, source: Box::new(error) }
            }
        })
    }
}

fn store_error(operation: &'static str, error: rusqlite::Error) -> StoreError {
    if error.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) {
        // The shared index of the write-ahead log cannot grow: the disk has no room for it.
        return StoreError::Full { operation };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::ReadOnly { operation }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full { operation },
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Corrupt { reason: error.to_string() }
        }
        _ => StoreError::Unavailable { operation, source: Box::new(error) },
    }
}

pub fn execute(
    connection: &Connection,
    operation: &'static str,
    sql: &str,
    parameters: impl Params,
) -> Result<(), StoreError> {
    let executed = connection.prepare_cached(sql).and_then(|mut sql| sql.execute(parameters));
    executed.context(operation).map(drop)
}

/// Reads the first column of a query's only row.
pub fn query_value<T: rusqlite::types::FromSql>(
    connection: &Connection,
    operation: &'static str,
    sql: &str,
    parameters: impl Params,
) -> Result<T, StoreError> {
    let row = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row(parameters, |row| row.get(0)));
    row.context(operation)
}

/// Reads the first row of a query, if there is one.
pub fn query_first<T>(
    connection: &Connection,
    operation: &'static str,
    sql: &str,
    parameters: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let row = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row(parameters, |row| Ok(read(row))).optional());
    row.context(operation)?.transpose()
}

/// Shows each row of a query to `visit`, until it breaks or fails.
pub fn query_each(
    connection: &Connection,
    operation: &'static str,
    sql: &str,
    parameters: impl Params,
    mut visit: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql).context(operation)?;
    let mut rows = statement.query(parameters).context(operation)?;
    while let Some(row) = rows.next().context(operation)? {
        if visit(row)?.is_break() {
            break;
        }
    }
    Ok(())
}
