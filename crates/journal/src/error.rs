//! Errors of reading and writing a trace.

use thiserror::Error;
use windlass_kernel::canon::CanonError;
use windlass_kernel::run::RunName;
use windlass_kernel::{ArtifactType, ChainError, Code, Machine, TraceId};
use windlass_store::{AcquireError, AppendError, StoreError};

use crate::observer::ObserverError;

/// A trace that could not be read or written. What is recorded stays recorded.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// A live process holds the trace.
    #[error(transparent)]
    Held(AcquireError),
    /// The store refused an append; nothing of it was written.
    #[error(transparent)]
    Append(AppendError),
    /// There is no such run.
    #[error("there is no run `{name}`")]
    NoSuchRun {
        /// What was asked for.
        name: String,
    },
    /// Several runs begin like this.
    #[error("`{start}` stands for {count} runs, such as `{}` and `{}`", two[0], two[1])]
    SeveralRuns {
        /// What was asked for.
        start: String,
        /// How many runs begin like this.
        count: usize,
        /// Two of them.
        two: [RunName; 2],
    },
    /// The recorded trace is corrupt. It is left as it is.
    #[error("trace `{trace_id}` is corrupt")]
    Corrupt {
        /// The trace.
        trace_id: TraceId,
        /// The first entry that is wrong, and how.
        #[source]
        source: ChainError,
    },
    /// An artifact that is needed was purged.
    #[error(
        "trace `{trace_id}` cannot be read: the {artifact} of entry {sequence_number} was purged"
    )]
    Purged {
        /// The trace.
        trace_id: TraceId,
        /// The entry.
        sequence_number: u64,
        /// The kind of the artifact.
        artifact: ArtifactType,
    },
    /// The trace is of another kind than expected.
    #[error("trace `{trace_id}` is not a {}", name(*.expected))]
    WrongMachine {
        /// The trace.
        trace_id: TraceId,
        /// What was expected.
        expected: Machine,
    },
    /// A new entry is not allowed at this point of the trace. Nothing was written.
    #[error("a new entry of trace `{trace_id}` is not allowed")]
    Rejected {
        /// The trace.
        trace_id: TraceId,
        /// Why.
        #[source]
        source: ChainError,
    },
    /// A new artifact has no canonical form. Nothing was written.
    #[error("an artifact of trace `{trace_id}` has no canonical form")]
    NotCanonical {
        /// The trace.
        trace_id: TraceId,
        /// Why.
        #[source]
        source: CanonError,
    },
    /// An earlier commit failed, so the folded state is ahead of the journal.
    #[error("trace `{trace_id}` must be read again before it is written: an earlier commit failed")]
    Stale {
        /// The trace.
        trace_id: TraceId,
    },
    /// The entries are durable, but an observer could not follow them.
    #[error(transparent)]
    Observer(#[from] ObserverError),
}

const fn name(machine: Machine) -> &'static str {
    match machine {
        Machine::Call => "call",
        Machine::Run => "run",
        Machine::Grant => "grant",
        Machine::Notification => "notification",
    }
}

impl JournalError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::Held(error) => error.code(),
            Self::Append(error) => error.code(),
            Self::Corrupt { source, .. } | Self::Rejected { source, .. } => source.code(),
            Self::Purged { .. } => Code::StateRecoveryFailed,
            Self::WrongMachine { expected: Machine::Call, .. } => Code::RequestInvalid,
            Self::NoSuchRun { .. }
            | Self::SeveralRuns { .. }
            | Self::WrongMachine { expected: Machine::Run, .. } => Code::RunNotFound,
            Self::WrongMachine { expected: Machine::Grant, .. } => Code::GrantNotFound,
            Self::WrongMachine { expected: Machine::Notification, .. } => Code::TraceNotFound,
            Self::NotCanonical { source, .. } => source.code(),
            Self::Stale { .. } => Code::StateConcurrentExecution,
            Self::Observer(error) => error.code,
        }
    }

    /// Whether this one trace is damaged; the others may be intact.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Purged { .. })
    }
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::CorruptTrace { trace_id, source } => Self::Corrupt { trace_id, source },
            other @ (StoreError::Unavailable { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Full { .. }
            | StoreError::TooNew { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Truncated { .. }
            | StoreError::Displaced { .. }
            | StoreError::NotFound { .. }) => Self::Store(other),
        }
    }
}

impl From<AcquireError> for JournalError {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Store(error) => error.into(),
            held @ AcquireError::Held { .. } => Self::Held(held),
        }
    }
}

impl From<AppendError> for JournalError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Store(error) => error.into(),
            other @ (AppendError::Fenced { .. }
            | AppendError::Chain { .. }
            | AppendError::KeyTaken(_)) => Self::Append(other),
        }
    }
}
