//! The errors of the gateway.

use thiserror::Error;
use windlass_connect::{ReceivedSignal, received_signal};
use windlass_journal::JournalError;
use windlass_kernel::grant::Status;
use windlass_kernel::run::RunName;
use windlass_kernel::{Code, State, TraceId};
use windlass_store::StoreError;

use crate::people::PersonError;
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
    /// Windlass was asked to end by a signal. A call that was dispatched may have run; recovery continues it.
    #[error("{}", interrupted(*trace_id))]
    Interrupted {
        /// The call that was ended, if one was dispatched.
        trace_id: Option<TraceId>,
    },
    /// The call is not on hold.
    #[error("call `{trace_id}` has already been decided: its state is {state}")]
    AlreadyDecided {
        /// The trace.
        trace_id: TraceId,
        /// The state of the call.
        state: State,
    },
    /// The answer does not fit the question.
    #[error("the answer does not fit call `{trace_id}`: {question}")]
    WrongAnswer {
        /// The trace.
        trace_id: TraceId,
        /// The question.
        question: &'static str,
    },
    /// The call belongs to a run, which alone continues it.
    #[error("call `{trace_id}` belongs to run `{}`, and only the run continues it", RunName::of(*run))]
    OfRun {
        /// The trace.
        trace_id: TraceId,
        /// The trace of the run.
        run: TraceId,
    },
    /// A file that the call names is not as the person saw it.
    #[error("`{path}`, which call `{trace_id}` names, has changed since the question")]
    Stale {
        /// The trace.
        trace_id: TraceId,
        /// The file.
        path: String,
    },
    /// The person cannot decide.
    #[error(transparent)]
    Person(#[from] PersonError),
    /// The grant cannot be given.
    #[error("{reason}")]
    GrantRefused {
        /// The code of the refusal.
        code: Code,
        /// The reason.
        reason: String,
    },
    /// The grant has ended.
    #[error("grant `{trace_id}` has ended: it is {}", status.as_str())]
    GrantEnded {
        /// The trace.
        trace_id: TraceId,
        /// How it ended.
        status: Status,
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

    /// Fails if a signal asked Windlass to end: nothing new is dispatched then.
    pub(crate) fn check_signal() -> Result<(), Self> {
        match received_signal() {
            Some(_) => Err(Self::Interrupted { trace_id: None }),
            None => Ok(()),
        }
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
            Self::Interrupted { .. } => Code::Interrupted,
            Self::AlreadyDecided { .. } => Code::DecisionAlreadyMade,
            Self::WrongAnswer { .. } => Code::RequestInvalid,
            Self::OfRun { .. } => Code::CallOfRun,
            Self::Stale { .. } => Code::HoldStale,
            Self::Person(error) => error.code,
            Self::Refused { code, .. } | Self::GrantRefused { code, .. } => *code,
            Self::GrantEnded { .. } => Code::GrantEnded,
        }
    }
}

fn interrupted(trace_id: Option<TraceId>) -> String {
    let signal = received_signal().map_or("a signal", ReceivedSignal::name);
    match trace_id {
        Some(id) => {
            format!("{signal} came while call `{id}` ran; it was ended and may have had an effect")
        }
        None => format!("{signal} came before the call was dispatched; nothing was done"),
    }
}

impl From<StoreError> for GatewayError {
    fn from(error: StoreError) -> Self {
        Self::Journal(error.into())
    }
}
