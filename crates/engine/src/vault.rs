//! Where the workspaces and files of checkpoints are kept.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use windlass_kernel::Digest;
use windlass_kernel::run::CheckpointArtifact;

use crate::error::EngineError;

/// Keeps whole workspaces by the names of their trees, and files by their digests.
///
/// What is kept under a reference stays until the reference is given up.
pub trait Vault: Send + Sync {
    /// Keeps a workspace under a reference, and tells its tree.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be kept.
    fn capture(&self, workspace: &Path, reference: &str) -> Result<String, EngineError>;

    /// The tree of a workspace as it is now, not kept under any reference.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be told.
    fn present(&self, workspace: &Path) -> Result<String, EngineError>;

    /// Keeps a file of a workspace.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be kept.
    fn keep(&self, workspace: &Path, path: &str) -> Result<CheckpointArtifact, EngineError>;

    /// Keeps a tree that is known under a reference more.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be kept.
    fn hold_on_to(&self, tree: &str, reference: &str) -> Result<(), EngineError>;

    /// The files that differ between two trees.
    ///
    /// # Errors
    /// [`EngineError`] when a tree is not whole.
    fn changes(&self, from: &str, to: &str) -> Result<Vec<Altered>, EngineError>;

    /// The tree that has these files of another one too.
    ///
    /// # Errors
    /// [`EngineError`] when a tree is not whole.
    fn with_files(&self, tree: &str, from: &str, paths: &[PathBuf]) -> Result<String, EngineError>;

    /// Brings a workspace that is as one tree has it to what another one has. What is not as either
    /// has it stops it before anything is touched, unless it was begun before (`resuming`): then that
    /// is put aside.
    ///
    /// # Errors
    /// [`EngineError`] with the code `WORKSPACE_CHANGED`, or when it cannot be done; it may be asked
    /// for again.
    fn restore(&self, workspace: &Path, way: &Way<'_>) -> Result<(), EngineError>;

    /// Reads everything that bringing a workspace from one tree to another would write.
    ///
    /// # Errors
    /// [`EngineError`] with the code `SNAPSHOT_CORRUPT` when something of it is not whole.
    fn readable(&self, from: &str, to: &str) -> Result<(), EngineError>;

    /// Merges two trees that come from a third.
    ///
    /// # Errors
    /// [`EngineError`] when a tree is not whole.
    fn merge(&self, base: &str, ours: &str, theirs: &str) -> Result<Joined, EngineError>;

    /// What differs between two trees, as a unified diff, and whether it was cut off.
    ///
    /// # Errors
    /// [`EngineError`] when a tree is not whole.
    fn difference(
        &self,
        from: &str,
        to: &str,
        bytes_max: usize,
    ) -> Result<(Vec<u8>, bool), EngineError>;

    /// The references under which trees are kept.
    ///
    /// # Errors
    /// [`EngineError`] when they cannot be read.
    fn references(&self) -> Result<Vec<String>, EngineError>;

    /// Gives a reference up.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be written.
    fn forget(&self, reference: &str) -> Result<(), EngineError>;

    /// The files that are kept, by their digests.
    ///
    /// # Errors
    /// [`EngineError`] when they cannot be read.
    fn files(&self) -> Result<Vec<Digest>, EngineError>;

    /// Gives a file up, and tells how large it was.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be removed.
    fn drop_file(&self, digest: &Digest) -> Result<u64, EngineError>;

    /// What of it all is damaged, each by its name.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be looked at.
    fn faults(&self) -> Result<Vec<String>, EngineError>;
}

/// From where to where a workspace is brought.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// As it is.
    pub from: &'a str,
    /// As it is to be.
    pub to: &'a str,
    /// Whether it was begun before.
    pub resuming: bool,
    /// The reference under which what is in the way is kept.
    pub aside: &'a str,
}

/// A file that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Altered {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// How.
    pub how: How,
    /// How large it was.
    pub before: Option<u64>,
    /// How large it is.
    pub after: Option<u64>,
}

/// How a file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It is another.
    Modified,
}

/// What came of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// One tree.
    Clean(String),
    /// Both sides have changed the same files in different ways.
    Conflict {
        /// The tree in which they are marked.
        marked: String,
        /// The files.
        paths: Vec<String>,
        /// What git said.
        messages: Vec<String>,
    },
}

impl Serialize for Altered {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "path": self.path.to_string_lossy(),
            "change": match self.how {
                How::Added => "added",
                How::Removed => "removed",
                How::Modified => "modified",
            },
            "bytes_before": self.before,
            "bytes_after": self.after,
        })
        .serialize(serializer)
    }
}
