//! What can go wrong in the gateway.

use thiserror::Error;
use windlass_kernel::canon::CanonError;
use windlass_kernel::{ChainError, Code, State, TraceId};
use windlass_store::{AcquireError, AppendError, StoreError};

use crate::request::RequestError;

/// A call that could not be taken further. What is recorded stays recorded.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The request is not one; nothing was recorded.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The trace is in use by a live process.
    #[error(transparent)]
    Acquire(AcquireError),
    /// An append was refused.
    #[error(transparent)]
    Append(AppendError),
    /// An artifact could not be written.
    #[error("an artifact of trace `{trace_id}` has no canonical form")]
    Artifact {
        /// The trace.
        trace_id: TraceId,
        /// Why.
        #[source]
        source: CanonError,
    },
    /// The trace does not hold together. It is left as it is.
    #[error("trace `{trace_id}` does not hold together")]
    Corrupt {
        /// The trace.
        trace_id: TraceId,
        /// What does not hold.
        #[source]
        source: ChainError,
    },
    /// The trace holds together, but what is needed to go on is gone.
    #[error("trace `{trace_id}` cannot go on: {reason}")]
    Recovery {
        /// The trace.
        trace_id: TraceId,
        /// What is missing.
        reason: String,
    },
    /// There is nothing left to decide.
    #[error("call `{trace_id}` has been decided: it is {state}")]
    AlreadyDecided {
        /// The trace.
        trace_id: TraceId,
        /// Where it stands.
        state: State,
    },
    /// Policy refuses what a person would approve.
    #[error("policy does not let call `{trace_id}` be approved: {reason}")]
    Refused {
        /// The trace.
        trace_id: TraceId,
        /// The policy's code.
        code: Code,
        /// The policy's reason.
        reason: String,
    },
    /// The trace is not a call.
    #[error("trace `{trace_id}` is not a call")]
    NotACall {
        /// The trace.
        trace_id: TraceId,
    },
}

impl GatewayError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Request(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Acquire(error) => error.code(),
            Self::Append(error) => error.code(),
            Self::Artifact { source, .. } => source.code(),
            Self::Corrupt { source, .. } => source.code(),
            Self::Recovery { .. } => Code::StateRecoveryFailed,
            Self::AlreadyDecided { .. } => Code::DecisionAlreadyMade,
            Self::Refused { code, .. } => *code,
            Self::NotACall { .. } => Code::RequestInvalid,
        }
    }
}

impl From<AcquireError> for GatewayError {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Store(error) => Self::Store(error),
            held @ AcquireError::Held { .. } => Self::Acquire(held),
        }
    }
}

impl From<AppendError> for GatewayError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Store(error) => Self::Store(error),
            other @ (AppendError::Fenced { .. }
            | AppendError::Chain { .. }
            | AppendError::KeyTaken(_)) => Self::Append(other),
        }
    }
}
