//! From SQLite's errors to the contract's.

use rusqlite::ErrorCode;
use windlass_store::StoreError;

/// Names what was tried when SQLite failed.
pub trait During<T> {
    /// Turns a failure into the contract's error for it.
    fn during(self, operation: &'static str) -> Result<T, StoreError>;
}

impl<T> During<T> for Result<T, rusqlite::Error> {
    fn during(self, operation: &'static str) -> Result<T, StoreError> {
        self.map_err(|error| store_error(operation, error))
    }
}

impl<T> During<T> for Result<T, std::io::Error> {
    fn during(self, operation: &'static str) -> Result<T, StoreError> {
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

/// The contract's error for a failure of SQLite.
pub fn store_error(operation: &'static str, error: rusqlite::Error) -> StoreError {
    if error.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) {
        // The shared index cannot grow: the disk has no room for it.
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
