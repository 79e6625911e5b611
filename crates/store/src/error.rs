//! The errors of a store, grouped by what the caller can do about them.

use thiserror::Error;
use windlass_kernel::{ChainError, Code, HolderId, TraceId};

use crate::IdempotencyRecord;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A failure of the store; nothing was changed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The store cannot be reached, or was busy for too long.
    #[error("the store cannot {operation}")]
    Unavailable {
        /// The operation that failed.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Source,
    },
    /// The file or the disk is write-protected.
    #[error("the store is read-only and cannot {operation}")]
    ReadOnly {
        /// The operation that failed.
        operation: &'static str,
    },
    /// The disk is full.
    #[error("the disk is full, the store cannot {operation}")]
    Full {
        /// The operation that failed.
        operation: &'static str,
    },
    /// A newer version has written the store.
    #[error("the store has format {found}, this version reads up to {supported}")]
    TooNew {
        /// Its format.
        found: i64,
        /// The newest format this version reads.
        supported: i64,
    },
    /// The store is damaged, or is not a store.
    #[error("the store is damaged: {reason}")]
    Corrupt {
        /// What is wrong.
        reason: String,
    },
    /// Writes that were reported as durable are missing.
    #[error("the journal has lost its end: {reason}")]
    Truncated {
        /// What is missing.
        reason: String,
    },
    /// A file of the store is no longer the one at its path.
    #[error("the journal's {file} was removed or replaced while it was in use")]
    Displaced {
        /// The file.
        file: &'static str,
    },
    /// The entries of a trace are damaged; other traces are not affected.
    #[error("trace `{trace_id}` is corrupt")]
    CorruptTrace {
        /// The trace.
        trace_id: TraceId,
        /// What is wrong.
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

/// A failure to acquire a lease.
#[derive(Debug, Error)]
pub enum AcquireError {
    /// Another live process, or another thread of this process, holds the trace.
    #[error("trace `{trace_id}` is held by the live process `{holder}`")]
    Held {
        /// The trace.
        trace_id: TraceId,
        /// The process that holds it.
        holder: HolderId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A failure to append; nothing was written.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The writer does not hold the trace any more.
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
            Self::Truncated { .. } => Code::StoreTruncated,
            Self::Displaced { .. } => Code::StoreDisplaced,
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
