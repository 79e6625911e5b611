//! Why something could not be done with a snapshot.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use windlass_kernel::Code;

use crate::{GitError, TreeId};

/// How many paths a message names.
const NAMED_MAX: usize = 10;

/// Something that could not be done with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The workspace is not as the snapshot that it is to come from; nothing was touched.
    #[error("{}", refusal(changed, in_the_way))]
    Changed {
        /// Paths that are neither as they were nor as they are to be.
        changed: Vec<PathBuf>,
        /// What no snapshot has and stands where something is to be written.
        in_the_way: Vec<PathBuf>,
    },
    /// An object of a snapshot is gone or is not what its name says.
    #[error("the snapshot `{tree}` is damaged: its object `{object}` is missing or unreadable")]
    Corrupt {
        /// The snapshot.
        tree: TreeId,
        /// The full name of the object.
        object: String,
    },
    /// A name under which no snapshot can be kept.
    #[error("`{0}` cannot name a snapshot")]
    Reference(String),
    /// The workspace belongs to another repository than the project.
    #[error("`{}` is no workspace of this project", .0.display())]
    Foreign(PathBuf),
    /// Another process is capturing or restoring the same workspace.
    #[error("another process has been at work on the workspace for {0} ms")]
    Busy(u128),
    /// A file could not be read or changed.
    #[error("cannot {operation} `{}`: {cause}", path.display())]
    File {
        /// What was to be done with it.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// A restore ended half-way; asking for it again goes on from there.
    #[error("the restore stopped at `{}` after {done} paths: {cause}", path.display())]
    Interrupted {
        /// Where it stopped.
        path: PathBuf,
        /// How many paths it has brought to their new state.
        done: usize,
        /// What the system said.
        cause: String,
    },
    /// Git could not do its part.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl SnapshotError {
    /// The stable code under which this leaves the process.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Changed { .. } => Code::WorkspaceChanged,
            Self::Corrupt { .. } => Code::SnapshotCorrupt,
            Self::Reference(_)
            | Self::Foreign(_)
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

/// Says which paths keep a restore from beginning.
fn refusal(changed: &[PathBuf], in_the_way: &[PathBuf]) -> String {
    let mut text = String::from("the workspace is not as it was captured");
    for (what, paths) in [("changed", changed), ("in the way", in_the_way)] {
        for (number, path) in paths.iter().take(NAMED_MAX).enumerate() {
            let lead = if number == 0 { format!("; {what}: ") } else { ", ".to_owned() };
            // Writing into a string cannot fail.
            let _ = write!(text, "{lead}`{}`", path.display());
        }
        if let Some(more) = paths.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
            let _ = write!(text, " and {more} more");
        }
    }
    windlass_connect::one_line(&text)
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
