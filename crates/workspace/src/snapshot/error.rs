//! Errors of snapshot operations.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use windlass_kernel::Code;

use crate::{CommitId, GitCause, GitError, TreeId};

/// How many paths a message lists.
const LISTED_MAX: usize = 10;

/// A snapshot operation that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The workspace differs from the snapshot that the restore starts from; nothing was changed.
    #[error("{}", refusal(changed, in_the_way))]
    Changed {
        /// Paths that match neither the old nor the new snapshot.
        changed: Vec<PathBuf>,
        /// Paths that are in neither snapshot and where a file is to be written.
        in_the_way: Vec<PathBuf>,
    },
    /// An object of a snapshot is missing or does not match its id.
    #[error("the snapshot `{tree}` is damaged: its object `{object}` is missing or unreadable")]
    Corrupt {
        /// The snapshot.
        tree: TreeId,
        /// The id of the object.
        object: String,
    },
    /// A snapshot borrows objects of a commit that the repository does not have any more.
    #[error(
        "the snapshot `{tree}` needs the commit {base} of the project's repository, which is not there any more: the \
         repository was deleted or replaced, or its ref below `refs/windlass/base/` was deleted"
    )]
    BaseGone {
        /// The snapshot.
        tree: TreeId,
        /// The commit.
        base: CommitId,
    },
    /// A name that is not valid for a reference.
    #[error("`{0}` is not a valid name for a snapshot")]
    Reference(String),
    /// The workspace belongs to another repository than the project.
    #[error("`{}` is not a workspace of this project", .0.display())]
    OutsideProject(PathBuf),
    /// Another process is capturing or restoring the same workspace.
    #[error("another process has locked the workspace for {0} ms")]
    Busy(u128),
    /// A file could not be read or changed.
    #[error("cannot {operation} `{}`: {cause}", path.display())]
    File {
        /// The operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        cause: String,
    },
    /// A restore stopped half-way; starting it again continues it.
    #[error("the restore stopped at `{}` after {done} paths: {cause}", path.display())]
    Interrupted {
        /// Where it stopped.
        path: PathBuf,
        /// How many paths it had restored.
        done: usize,
        /// The error of the operating system.
        cause: String,
    },
    /// A git command failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl SnapshotError {
    /// The stable code under which this leaves the process.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Changed { .. } => Code::WorkspaceChanged,
            Self::Corrupt { .. } | Self::BaseGone { .. } => Code::SnapshotCorrupt,
            Self::Git(GitError { cause: GitCause::Helper(_), .. }) => Code::HelperMissing,
            Self::Git(GitError { cause: GitCause::Interrupted(_), .. }) => Code::Interrupted,
            Self::Reference(_)
            | Self::OutsideProject(_)
            | Self::Busy(_)
            | Self::File { .. }
            | Self::Interrupted { .. }
            | Self::Git(_) => Code::SnapshotFailed,
        }
    }

    pub(super) fn file(operation: &'static str, path: &Path, cause: &io::Error) -> Self {
        Self::File { operation, path: path.to_owned(), cause: cause.to_string() }
    }
}

/// Lists the paths that prevent a restore.
fn refusal(changed: &[PathBuf], in_the_way: &[PathBuf]) -> String {
    let mut text = String::from("the workspace is not as it was captured");
    for (what, paths) in [("changed", changed), ("in the way", in_the_way)] {
        for (number, path) in paths.iter().take(LISTED_MAX).enumerate() {
            let lead = if number == 0 { format!("; {what}: ") } else { ", ".to_owned() };
            // Writing into a string cannot fail.
            let _ = write!(text, "{lead}`{}`", path.display());
        }
        if let Some(more) = paths.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
            let _ = write!(text, " and {more} more");
        }
    }
    windlass_cell::one_line(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_line_and_names_some() {
        let many: Vec<PathBuf> = (0..12).map(|number| format!("f{number}").into()).collect();
        let error = SnapshotError::Changed { changed: many, in_the_way: vec!["a\nb".into()] };
        let text = error.to_string();
        assert!(text.ends_with("`f9` and 2 more; in the way: `a b`"), "{text}");
        assert!(!text.contains("f10") && !text.contains('\n'), "{text}");
    }
}
