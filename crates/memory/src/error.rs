//! Why a memory did not do what it was asked.

use std::time::Duration;

use rusqlite::ErrorCode;
use windlass_database::DatabaseError;

/// A request that a memory did not fulfil.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The memory cannot be used now.
    #[error("the memory is unavailable: {reason}")]
    Unavailable {
        /// What is wrong, in one line.
        reason: String,
    },
    /// The memory did not answer in time. What was to be stored may be stored or not.
    #[error("the memory did not answer within {} ms", limit.as_millis())]
    DeadlinePassed {
        /// The time that it had.
        limit: Duration,
    },
    /// The request is wrong, and stays so.
    #[error("{reason}")]
    Invalid {
        /// What is wrong with it, in one line.
        reason: String,
    },
}

impl MemoryError {
    /// Whether the same request can succeed later.
    #[must_use]
    pub const fn may_retry(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::DeadlinePassed { .. } => true,
            Self::Invalid { .. } => false,
        }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }

    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }

    /// A failure of the built-in memory's file, for which a request has so long.
    pub(crate) fn of_database(error: DatabaseError, limit: Duration) -> Self {
        match error {
            DatabaseError::Busy => Self::DeadlinePassed { limit },
            DatabaseError::Unusable { reason } | DatabaseError::Failed { reason } => {
                Self::Unavailable { reason }
            }
        }
    }

    /// A statement that failed, or was interrupted at the deadline.
    pub(crate) fn of_statement(error: rusqlite::Error, limit: Duration) -> Self {
        if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return Self::DeadlinePassed { limit };
        }
        Self::of_database(error.into(), limit)
    }
}
