//! What can keep a run from starting or going on.

use thiserror::Error;
use windlass_journal::{JournalError, ObserverError};
use windlass_kernel::Code;
use windlass_runtime::GatewayError;
use windlass_store::StoreError;
use windlass_workspace::{BlobError, GitError, SnapshotError};

/// Why a run cannot start or go on. Nothing was recorded unless the variant says so.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The run has ended.
    #[error("run `{run}` has ended: {outcome}, {reason}")]
    Ended {
        /// The run.
        run: String,
        /// How.
        outcome: &'static str,
        /// Why.
        reason: String,
    },
    /// A checkpoint cannot be made or gone back to.
    #[error("{what}")]
    NoCheckpoint {
        /// Why.
        what: String,
    },
    /// Files have changed since the run left them.
    #[error("files have changed since run `{run}` left them: {}", listed(paths))]
    Changed {
        /// The run.
        run: String,
        /// The files.
        paths: Vec<String>,
    },
    /// The hold has not been answered.
    #[error("run `{run}` waits for a person: {question}")]
    Unresolved {
        /// The run.
        run: String,
        /// What is asked.
        question: String,
    },
    /// The run is not on hold.
    #[error("run `{run}` does not wait for a person")]
    NotOnHold {
        /// The run.
        run: String,
    },
    /// The hold has been answered.
    #[error("the hold of run `{run}` has been answered: {decision}")]
    AlreadyResolved {
        /// The run.
        run: String,
        /// What was said.
        decision: &'static str,
    },
    /// The same person cannot approve twice.
    #[error("`{by}` has approved this hold of run `{run}` before; it needs another person")]
    SamePerson {
        /// The run.
        run: String,
        /// The person.
        by: String,
    },
    /// The hold has lapsed; the run has been ended.
    #[error("the hold of run `{run}` has lapsed; the run has ended BLOCKED")]
    Expired {
        /// The run.
        run: String,
    },
    /// The answer is to something else than what is asked now.
    #[error("what you were shown of run `{run}` is not what waits now")]
    Stale {
        /// The run.
        run: String,
    },
    /// Something a run needs is not so.
    #[error("{message}")]
    Requirement {
        /// Which code says it.
        code: Code,
        /// What is not so.
        message: String,
    },
    /// The policy is another one than the run's; the run has been ended.
    #[error("the policy has changed since run `{run}` began; the run has ended BLOCKED")]
    PolicyChanged {
        /// The run.
        run: String,
    },
    /// The stop switch is on.
    #[error("stopped by {by}: {reason}")]
    Stopped {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// A packet on disk is not the journal's.
    #[error("`{path}` {what}")]
    Packet {
        /// Which code says it.
        code: Code,
        /// The file.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// A file that shows the journal cannot be written.
    #[error("`{path}` cannot be written")]
    Unwritable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Input is not what it must be.
    #[error("{message}")]
    Invalid {
        /// Which code says it.
        code: Code,
        /// What is wrong.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A call of the run.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// The run's trace could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        Self::Journal(error.into())
    }
}

impl EngineError {
    /// Whether a trace does not hold together: others may be whole.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Journal(error) if error.is_damage())
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Ended { .. } => Code::RunEnded,
            Self::NoCheckpoint { .. } => Code::CheckpointUnavailable,
            Self::Changed { .. } => Code::WorkspaceChanged,
            Self::Unresolved { .. } => Code::RunOnHold,
            Self::NotOnHold { .. } => Code::RunNotOnHold,
            Self::AlreadyResolved { .. } | Self::SamePerson { .. } => Code::HoldAlreadyResolved,
            Self::Expired { .. } => Code::HoldExpired,
            Self::Stale { .. } => Code::HoldStale,
            Self::PolicyChanged { .. } => Code::PolicyChangedMidRun,
            Self::Stopped { .. } => Code::RunStopped,
            Self::Unwritable { .. } => Code::FileUnwritable,
            Self::Requirement { code, .. }
            | Self::Packet { code, .. }
            | Self::Invalid { code, .. } => *code,
            Self::Gateway(error) => error.code(),
            Self::Journal(error) => error.code(),
        }
    }

    /// This error as an observer reports it: the entries are durable, but a view could not follow them.
    #[must_use]
    pub fn into_observer_error(self) -> ObserverError {
        let (code, message) = (self.code(), self.to_string());
        let source = if let Self::Unwritable { source, .. } = self { Some(source) } else { None };
        ObserverError { code, message, source }
    }

    /// What to do, where the code's own hint is not enough.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        if let Self::Invalid { hint, .. } = self { hint.as_deref() } else { None }
    }
}

macro_rules! requirement_from {
    ($($error:ty),*) => {$(
        impl From<$error> for EngineError {
            fn from(error: $error) -> Self {
                Self::Requirement { code: error.code(), message: error.to_string() }
            }
        }
    )*};
}
requirement_from!(BlobError, GitError, SnapshotError);

/// The first few of many files.
fn listed(paths: &[String]) -> String {
    let names: Vec<String> = paths.iter().take(5).map(|path| format!("`{path}`")).collect();
    let more = if paths.len() > names.len() { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}
