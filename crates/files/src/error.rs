//! Why a tool did not do what it was asked.

use rustix::io::Errno;
use thiserror::Error;

/// Why a tool did not do what it was asked. The messages are written for an agent that has to correct itself.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FilesError {
    /// There is no such file, or it is hidden.
    #[error("there is no `{path}`; find the right path with `list` or `search`")]
    NotFound {
        /// The path of the call.
        path: String,
    },
    /// It is never done, however it is asked.
    #[error("{0}")]
    Refused(String),
    /// The file is not as the caller takes it to be.
    #[error("{0}")]
    Changed(String),
    /// An edit does not say where to make it.
    #[error("{0}")]
    Ambiguous(String),
    /// The arguments are wrong.
    #[error("{0}")]
    Invalid(String),
    /// A limit was exceeded.
    #[error("{0}")]
    TooLarge(String),
    /// The operating system failed.
    #[error("cannot {operation} `{path}`: {reason}")]
    Io {
        /// What was done, as a verb.
        operation: &'static str,
        /// The path below the workspace.
        path: String,
        /// What the operating system said.
        reason: String,
    },
}

impl FilesError {
    /// The kind of the error, as a stable word.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::Refused(_) => "refused",
            Self::Changed(_) => "changed",
            Self::Ambiguous(_) => "ambiguous",
            Self::Invalid(_) => "invalid",
            Self::TooLarge(_) => "too_large",
            Self::Io { .. } => "io",
        }
    }

    /// A system call on `path` failed.
    pub(crate) fn system(operation: &'static str, path: &str, error: Errno) -> Self {
        let path = path.to_owned();
        match error {
            Errno::NOENT | Errno::NOTDIR => Self::NotFound { path },
            Errno::NAMETOOLONG => Self::Invalid(format!("the path `{path}` is too long")),
            Errno::NOSYS => Self::Refused(
                "files cannot be opened safely here: the system call `openat2` is missing"
                    .to_owned(),
            ),
            // Resolution found no link a moment ago.
            Errno::LOOP | Errno::XDEV => {
                Self::Refused(format!("a folder of `{path}` was replaced by a link meanwhile"))
            }
            _ => Self::Io { operation, path, reason: error.to_string() },
        }
    }

    /// Reading or writing the contents of `path` failed.
    pub(crate) fn io(operation: &'static str, path: &str, error: &std::io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(errno) => Self::system(operation, path, errno),
            None => Self::Io { operation, path: path.to_owned(), reason: error.to_string() },
        }
    }
}
