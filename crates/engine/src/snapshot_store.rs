//! The storage of checkpoints: snapshots of workspaces, and files by their digest.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use windlass_kernel::run::CheckpointArtifact;
use windlass_kernel::{Code, Digest};
use windlass_workspace::{
    Changed, Merged, PackedObjects, PathChange, Rename, SnapshotError, SnapshotLock, TextDiff,
    TreeId, WorkspaceChange,
};

use crate::error::EngineError;

/// Stores snapshots of workspaces as trees, and files by their digest.
///
/// A snapshot with a reference is stored until the reference is deleted.
///
/// # Errors
/// Every method fails with [`EngineError::Requirement`], with the code `SNAPSHOT_CORRUPT` if a tree is corrupt; a
/// change fails with [`EngineError::InTheWay`] if it would overwrite what others have made.
pub trait SnapshotStore: Send + Sync {
    /// Captures a workspace and sets a reference to the snapshot.
    fn capture(&self, workspace: &Path, reference: &str) -> Result<TreeId, EngineError>;

    /// Captures a workspace without a reference.
    fn capture_unreferenced(&self, workspace: &Path) -> Result<TreeId, EngineError>;

    /// Sets a reference to a snapshot.
    fn set_reference(&self, tree: &TreeId, reference: &str) -> Result<(), EngineError>;

    /// Deletes references.
    fn delete_references(&self, references: &[String]) -> Result<(), EngineError>;

    /// Lists the references, also those that cannot be read.
    fn references(&self) -> Result<BTreeSet<String>, EngineError>;

    /// Lists the references in a folder, also those that cannot be read, without a look at the others.
    fn references_in(&self, folder: &str) -> Result<BTreeSet<String>, EngineError>;

    /// Whether the tree of a snapshot exists.
    fn has_tree(&self, tree: &TreeId) -> Result<bool, EngineError>;

    /// Returns those of the paths that the snapshot's own lists ignore.
    fn ignored(
        &self,
        workspace: &Path,
        tree: &TreeId,
        paths: &[PathBuf],
    ) -> Result<BTreeSet<PathBuf>, EngineError>;

    /// Prevents a purge until what is stored now is recorded.
    fn lock_for_storing(&self) -> Result<SnapshotLock, EngineError>;

    /// Waits until whatever was stored is recorded, and prevents that more is stored.
    fn lock_for_deletion(&self) -> Result<SnapshotLock, EngineError>;

    /// Lists the paths that differ between two snapshots.
    fn changes(&self, from: &TreeId, to: &TreeId) -> Result<Vec<PathChange>, EngineError>;

    /// Lists the nested repositories of a snapshot, whose files it does not have.
    fn nested(&self, tree: &TreeId) -> Result<Vec<PathBuf>, EngineError>;

    /// Lists the files that were renamed between two snapshots.
    fn renames(&self, from: &TreeId, to: &TreeId) -> Result<Vec<Rename>, EngineError>;

    /// Returns the difference between two snapshots as a unified diff.
    fn text_diff(
        &self,
        from: &TreeId,
        to: &TreeId,
        bytes_max: usize,
    ) -> Result<TextDiff, EngineError>;

    /// Returns the tree of a snapshot with these files of another one added.
    fn with_files(
        &self,
        tree: &TreeId,
        from: &TreeId,
        paths: &[PathBuf],
    ) -> Result<TreeId, EngineError>;

    /// Merges the changes of two snapshots since a third.
    fn merge(&self, base: &TreeId, ours: &TreeId, theirs: &TreeId) -> Result<Merged, EngineError>;

    /// Decides a change of a workspace without making it, and sets the references that keep what it needs.
    fn prepare_change(
        &self,
        workspace: &Path,
        change: &WorkspaceChange<'_>,
    ) -> Result<(), EngineError>;

    /// Changes a workspace. The same change may be made again after an error or a crash.
    fn change(
        &self,
        workspace: &Path,
        change: &WorkspaceChange<'_>,
    ) -> Result<Changed, EngineError>;

    /// Removes what belongs to no snapshot any more, after some time.
    fn free_space(&self) -> Result<(), EngineError>;

    /// Reads every object that a restore from one snapshot to another would write.
    fn check_restorable(&self, from: &TreeId, to: &TreeId) -> Result<(), EngineError>;

    /// Lists the objects of snapshots, of at most so many bytes together.
    fn list_objects(&self, trees: &[TreeId], bytes_max: u64) -> Result<PackedObjects, EngineError>;

    /// Writes objects of snapshots as one stream.
    fn write_objects(
        &self,
        packed: &PackedObjects,
        target: &mut dyn std::io::Write,
    ) -> Result<(), SnapshotError>;

    /// Stores a file of a workspace.
    fn store_file(&self, workspace: &Path, path: &str) -> Result<CheckpointArtifact, EngineError>;

    /// Lists the digests of the stored files.
    fn files(&self) -> Result<Vec<Digest>, EngineError>;

    /// Deletes a stored file and returns its size.
    fn delete_file(&self, digest: &Digest) -> Result<u64, EngineError>;

    /// Removes what is kept beside the snapshots for work trees that no longer exist.
    fn sweep_workspaces(&self) -> Result<(), EngineError>;

    /// Checks all snapshots and files and describes each corrupt one.
    fn check(&self) -> Result<Vec<String>, EngineError>;
}

/// Parses a tree id from the journal.
pub fn recorded_tree(text: &str) -> Result<TreeId, EngineError> {
    text.parse().map_err(|_| EngineError::Requirement {
        code: Code::SnapshotCorrupt,
        message: format!("`{text}` is recorded as a git tree but is not one"),
    })
}
