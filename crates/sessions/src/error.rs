//! Why a session cannot be recorded.

use std::path::PathBuf;

use thiserror::Error;
use windlass_journal::JournalError;
use windlass_kernel::Code;
use windlass_runtime::GatewayError;

/// Why an event of a session could not be handled. Nothing may be allowed then.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The run of the session could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A call could not be judged or recorded.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// What a new session is recorded with could not be made.
    #[error("{reason}")]
    New {
        /// The stable code.
        code: Code,
        /// Why.
        reason: String,
    },
    /// The file that names the run of a session cannot be used.
    #[error("`{}` cannot be used: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

impl SessionError {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Journal(error) => error.code(),
            Self::Gateway(error) => error.code(),
            Self::New { code, .. } => *code,
            Self::File { .. } => Code::FileUnreadable,
        }
    }
}
