//! Errors of git operations.

use std::path::PathBuf;

use windlass_kernel::Code;

/// A git operation that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {operation}: {cause}")]
pub struct GitError {
    /// The operation, as a phrase: `read the status`.
    pub operation: &'static str,
    /// Why it failed.
    pub cause: GitCause,
}

/// Why a git operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitCause {
    /// There is no program that may be used.
    #[error("git cannot be used: {0}")]
    Helper(String),
    /// The program cannot be started.
    #[error("git cannot be started: {0}")]
    Missing(String),
    /// A file needs a program to be read or written, and the user's settings do not allow it.
    #[error("`{}` needs the {conversion}, which the user's settings do not allow", path.display())]
    Filter {
        /// The first such file, relative to the top.
        path: PathBuf,
        /// What it needs: `filter `lfs``.
        conversion: String,
    },
    /// There is no repository here.
    #[error("`{}` is not in a git repository", .0.display())]
    NotARepository(PathBuf),
    /// The repository is bare.
    #[error("the repository at `{}` has no work tree", .0.display())]
    NoWorkTree(PathBuf),
    /// The work tree has what git would silently leave out of a commit.
    #[error("{0}")]
    Unrecordable(String),
    /// Only part of the files is checked out, so a tree of them would miss the others.
    #[error("the work tree is sparse")]
    Sparse,
    /// Another git process holds a lock, or left it behind.
    #[error("another git process holds a lock: {0}")]
    Locked(String),
    /// It did not end within its time limit.
    #[error("git did not end within {0} ms")]
    Timeout(u128),
    /// Its output is larger than the limit.
    #[error("git wrote more than {0} bytes")]
    TooLarge(usize),
    /// A signal asked Windlass to end.
    #[error("it was ended because Windlass received {0}")]
    Interrupted(&'static str),
    /// It exited with an error.
    #[error("git {how}: {line}")]
    Exit {
        /// How it ended.
        how: String,
        /// The first line of its error stream.
        line: String,
    },
    /// Its output could not be parsed.
    #[error("git gave unexpected output: {0}")]
    Unexpected(String),
    /// An argument was refused before git was started.
    #[error("{0}")]
    Refused(String),
    /// There are changes that would be lost.
    #[error("`{}` has changes that are not committed", .0.display())]
    Dirty(PathBuf),
    /// Something else has this path.
    #[error("`{}` is taken by something else", .0.display())]
    Taken(PathBuf),
    /// The branch exists and does not descend from the base.
    #[error("the branch `{0}` does not contain the base")]
    Diverged(String),
    /// A file could not be created or removed.
    #[error("cannot change a file: {0}")]
    File(String),
}

impl GitError {
    /// The stable code under which this leaves the process.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self.cause {
            GitCause::Helper(_) => Code::HelperMissing,
            GitCause::Missing(_) => Code::ToolServerUnavailable,
            GitCause::Filter { .. } => Code::GitFilterRefused,
            GitCause::Unrecordable(_) => Code::GitUnrecordable,
            GitCause::Timeout(_) => Code::ToolTimeout,
            GitCause::TooLarge(_) => Code::ToolOutputTooLarge,
            GitCause::Unexpected(_) => Code::ToolProtocolError,
            GitCause::Interrupted(_) => Code::Interrupted,
            GitCause::NotARepository(_)
            | GitCause::NoWorkTree(_)
            | GitCause::Sparse
            | GitCause::Locked(_)
            | GitCause::Exit { .. }
            | GitCause::Refused(_)
            | GitCause::Dirty(_)
            | GitCause::Taken(_)
            | GitCause::Diverged(_)
            | GitCause::File(_) => Code::ToolFailed,
        }
    }

    pub(crate) const fn new(operation: &'static str, cause: GitCause) -> Self {
        Self { operation, cause }
    }

    pub(crate) fn unexpected(operation: &'static str, output: &[u8]) -> Self {
        let output = windlass_cell::one_line(&String::from_utf8_lossy(output));
        Self::new(operation, GitCause::Unexpected(output))
    }

    pub(crate) fn refused(operation: &'static str, why: impl Into<String>) -> Self {
        Self::new(operation, GitCause::Refused(why.into()))
    }
}
