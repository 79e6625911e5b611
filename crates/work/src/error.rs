//! Why a tracker did not do what it was asked.

use std::time::Duration;

use windlass_database::DatabaseError;

/// A request that a tracker did not fulfil.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The tracker cannot be used now.
    #[error("the work tracker is unavailable: {reason}")]
    Unavailable {
        /// What is wrong, in one line.
        reason: String,
    },
    /// The tracker did not answer in time. What was to be changed may be changed or not.
    #[error("the work tracker did not answer within {} ms", limit.as_millis())]
    DeadlinePassed {
        /// The time that it had.
        limit: Duration,
    },
    /// There is no such item.
    #[error("there is no work item `{id}`")]
    NotFound {
        /// The id that was asked for.
        id: String,
    },
    /// The request is wrong, and stays so.
    #[error("{reason}")]
    Invalid {
        /// What is wrong with it, in one line.
        reason: String,
    },
}

impl WorkError {
    /// Whether the same request can succeed later.
    #[must_use]
    pub const fn may_retry(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::DeadlinePassed { .. } => true,
            Self::NotFound { .. } | Self::Invalid { .. } => false,
        }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }

    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }

    /// A failure of the built-in tracker's file, whose locks are waited for so long.
    pub(crate) fn of_database(error: DatabaseError, limit: Duration) -> Self {
        match error {
            DatabaseError::Busy => Self::DeadlinePassed { limit },
            DatabaseError::Unusable { reason } | DatabaseError::Failed { reason } => {
                Self::Unavailable { reason }
            }
        }
    }
}
