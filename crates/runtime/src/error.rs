//! The errors of the gateway.

use thiserror::Error;
use windlass_journal::JournalError;
use windlass_kernel::{Code, State, TraceId};
use windlass_store::StoreError;

use crate::request::RequestError;

/// Why the gateway could not continue a call. Committed entries stay.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The request is invalid; nothing was recorded.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The call's trace could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The trace is intact, but something that is needed to continue is missing.
    #[error("trace `{trace_id}` cannot be continued: {reason}")]
    Recovery {
        /// The trace.
        trace_id: TraceId,
        /// What is missing.
        reason: String,
    },
    /// The call is not on hold.
    #[error("call `{trace_id}` has already been decided: its state is {state}")]
    AlreadyDecided {
        /// The trace.
        trace_id: TraceId,
        /// The state of the call.
        state: State,
    },
    /// The policy denies a call that a person approved.
    #[error("the policy does not allow an approval of call `{trace_id}`: {reason}")]
    Refused {
        /// The trace.
        trace_id: TraceId,
        /// The code of the denial.
        code: Code,
        /// The reason of the denial.
        reason: String,
    },
}

impl GatewayError {
    /// An intact trace that lacks an artifact.
    pub(crate) fn missing(trace_id: TraceId, artifact: &str) -> Self {
        Self::Recovery { trace_id, reason: format!("its {artifact} is not recorded") }
    }

    /// Whether another live process holds the lease of the trace.
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
