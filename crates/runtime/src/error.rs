//! What can go wrong in the gateway.

use thiserror::Error;
use windlass_journal::JournalError;
use windlass_kernel::{Code, State, TraceId};
use windlass_store::StoreError;

use crate::request::RequestError;

/// A call that could not be taken further. What is recorded stays recorded.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The request is not one; nothing was recorded.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The call's trace could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
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
}

impl GatewayError {
    /// Whether a live process holds the trace.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Journal(JournalError::Held(_)))
    }

    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Request(error) => error.code(),
            Self::Journal(error) => error.code(),
            Self::Recovery { .. } => Code::StateRecoveryFailed,
            Self::AlreadyDecided { .. } => Code::DecisionAlreadyMade,
            Self::Refused { code, .. } => *code,
        }
    }
}

impl From<StoreError> for GatewayError {
    fn from(error: StoreError) -> Self {
        Self::Journal(error.into())
    }
}
