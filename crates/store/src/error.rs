//! What can go wrong in a store, grouped by what the caller can do about it.

use thiserror::Error;
use windlass_kernel::{ChainError, Code, HolderId, TraceId};

use crate::IdempotencyRecord;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// The store cannot do its work: nothing was changed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// It cannot be reached, or is busy for too long.
    #[error("the store cannot {operation}")]
    Unavailable {
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        #[source]
        source: Source,
    },
    /// Its file or disk cannot be written.
    #[error("the store is read-only and cannot {operation}")]
    ReadOnly {
        /// What was tried.
        operation: &'static str,
    },
    /// Its disk is full.
    #[error("the disk is full, the store cannot {operation}")]
    Full {
        /// What was tried.
        operation: &'static str,
    },
    /// A newer version wrote it.
    #[error("the store has format {found}, this version reads up to {supported}")]
    TooNew {
        /// Its format.
        found: i64,
        /// The newest format this version reads.
        supported: i64,
    },
    /// It is damaged, or not a store at all.
    #[error("the store is damaged: {reason}")]
    Corrupt {
        /// What was found.
        reason: String,
    },
    /// A trace in it does not hold together; the others are not touched by that.
    #[error("trace `{trace_id}` is corrupt")]
    CorruptTrace {
        /// The trace.
        trace_id: TraceId,
        /// What does not hold.
        #[source]
        source: ChainError,
    },
    /// There is no such trace.
    #[error("no trace has the id `{trace_id}`")]
    NotFound {
        /// The id.
        trace_id: TraceId,
    },
}

/// A lease that could not be had.
#[derive(Debug, Error)]
pub enum AcquireError {
    /// Another live process, or another thread of this one, has it.
    #[error("trace `{trace_id}` is held by the live process `{holder}`")]
    Held {
        /// The trace.
        trace_id: TraceId,
        /// Who has it.
        holder: HolderId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An append that was not made: nothing was written.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The writer no longer holds the trace.
    #[error("trace `{trace_id}` has been taken over by another writer")]
    Fenced {
        /// The trace.
        trace_id: TraceId,
    },
    /// The entries do not fit the trace.
    #[error("the entries do not fit trace `{trace_id}`")]
    Chain {
        /// The trace.
        trace_id: TraceId,
        /// What does not fit.
        #[source]
        source: ChainError,
    },
    /// The idempotency key is taken.
    #[error("the idempotency key is taken by trace `{}`", .0.trace_id)]
    KeyTaken(Box<IdempotencyRecord>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StoreError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Unavailable { .. } => Code::StoreUnavailable,
            Self::ReadOnly { .. } => Code::StoreReadOnly,
            Self::Full { .. } => Code::StoreFull,
            Self::TooNew { .. } => Code::StoreTooNew,
            Self::Corrupt { .. } => Code::StoreCorrupt,
            Self::CorruptTrace { source, .. } => source.code(),
            Self::NotFound { .. } => Code::TraceNotFound,
        }
    }
}

impl AcquireError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Held { .. } => Code::StateLockAcquireFailed,
            Self::Store(error) => error.code(),
        }
    }
}

impl AppendError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Fenced { .. } => Code::StateConcurrentExecution,
            Self::Chain { source, .. } => source.code(),
            Self::KeyTaken(_) => Code::IdempotencyConflict,
            Self::Store(error) => error.code(),
        }
    }
}
