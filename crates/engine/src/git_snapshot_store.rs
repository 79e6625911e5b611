//! Stores snapshots as git trees and files as blobs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_journal::Runs;
use windlass_kernel::Digest;
use windlass_kernel::run::{CheckpointArtifact, RunName};
use windlass_workspace::{
    BlobStore, Changed, Damage, Merged, PackedObjects, PathChange, Rename, SnapshotError,
    SnapshotLock, Snapshots, TextDiff, TreeId, WorkspaceChange,
};

use crate::error::EngineError;
use crate::snapshot_store::SnapshotStore;

/// The maximum size of a stored file.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Stores snapshots in a private git directory and files in a blob store. Both are opened, and created
/// if missing, at their first use.
pub struct GitSnapshotStore {
    project: PathBuf,
    private: PathBuf,
    blobs: PathBuf,
    /// The runs of the project, if they are known.
    runs: Option<Runs>,
    opened: Mutex<Option<Arc<Opened>>>,
}

struct Opened {
    snapshots: Snapshots,
    blobs: BlobStore,
}

impl GitSnapshotStore {
    /// Sets the project's folder, the private git directory and the folder of the blobs.
    #[must_use]
    pub const fn new(project: PathBuf, private: PathBuf, blobs: PathBuf) -> Self {
        Self { project, private, blobs, runs: None, opened: Mutex::new(None) }
    }

    /// Moves the snapshots of these runs that an earlier version left in the project's repository. Others there belong to
    /// other projects in the same repository.
    #[must_use]
    pub fn moving_those_of(self, runs: Runs) -> Self {
        Self { runs: Some(runs), ..self }
    }

    fn move_earlier(&self, snapshots: &Snapshots) -> Result<(), EngineError> {
        let Some(runs) = &self.runs else { return Ok(()) };
        let Some(names) = snapshots.earlier_references()? else { return Ok(()) };
        let mut known: BTreeMap<String, bool> = BTreeMap::new();
        let mut ours = BTreeSet::new();
        for name in names {
            let run = name.split('/').next().unwrap_or_default();
            let is_ours = match known.get(run) {
                Some(is_ours) => *is_ours,
                None => {
                    let named = run.parse::<RunName>().ok();
                    let found = named.map(|named| runs.find_named(&named)).transpose()?.flatten();
                    known.insert(run.to_owned(), found.is_some());
                    found.is_some()
                }
            };
            if is_ours {
                ours.insert(name);
            }
        }
        snapshots.move_earlier(&ours)?;
        Ok(())
    }

    fn opened(&self) -> Result<Arc<Opened>, EngineError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &*opened {
            return Ok(Arc::clone(opened));
        }
        let snapshots = Snapshots::open(&self.private, &self.project)?;
        // Until then they are used where they are.
        drop(self.move_earlier(&snapshots));
        let blobs = BlobStore::open(&self.blobs)?;
        Ok(Arc::clone(opened.insert(Arc::new(Opened { snapshots, blobs }))))
    }
}

impl SnapshotStore for GitSnapshotStore {
    fn capture(&self, workspace: &Path, reference: &str) -> Result<TreeId, EngineError> {
        Ok(self.opened()?.snapshots.capture(workspace, reference)?.tree)
    }

    fn capture_unreferenced(&self, workspace: &Path) -> Result<TreeId, EngineError> {
        Ok(self.opened()?.snapshots.capture_unreferenced(workspace)?.tree)
    }

    fn set_reference(&self, tree: &TreeId, reference: &str) -> Result<(), EngineError> {
        Ok(self.opened()?.snapshots.set_reference(tree, reference)?)
    }

    fn delete_references(&self, references: &[String]) -> Result<(), EngineError> {
        Ok(self.opened()?.snapshots.delete_references(references)?)
    }

    fn references(&self) -> Result<BTreeSet<String>, EngineError> {
        Ok(self.opened()?.snapshots.reference_names()?)
    }

    fn references_in(&self, folder: &str) -> Result<BTreeSet<String>, EngineError> {
        Ok(self.opened()?.snapshots.reference_names_in(folder)?)
    }

    fn has_tree(&self, tree: &TreeId) -> Result<bool, EngineError> {
        Ok(self.opened()?.snapshots.has_tree(tree)?)
    }

    fn ignored(
        &self,
        workspace: &Path,
        tree: &TreeId,
        paths: &[PathBuf],
    ) -> Result<BTreeSet<PathBuf>, EngineError> {
        Ok(self.opened()?.snapshots.ignored(workspace, tree, paths)?)
    }

    fn sweep_workspaces(&self) -> Result<(), EngineError> {
        self.opened()?.snapshots.sweep_workspaces()?;
        Ok(())
    }

    fn lock_for_storing(&self) -> Result<SnapshotLock, EngineError> {
        Ok(self.opened()?.snapshots.lock_for_storing()?)
    }

    fn lock_for_deletion(&self) -> Result<SnapshotLock, EngineError> {
        Ok(self.opened()?.snapshots.lock_for_deletion()?)
    }

    fn changes(&self, from: &TreeId, to: &TreeId) -> Result<Vec<PathChange>, EngineError> {
        Ok(self.opened()?.snapshots.changes(from, to)?)
    }

    fn nested(&self, tree: &TreeId) -> Result<Vec<PathBuf>, EngineError> {
        Ok(self.opened()?.snapshots.nested(tree)?)
    }

    fn renames(&self, from: &TreeId, to: &TreeId) -> Result<Vec<Rename>, EngineError> {
        Ok(self.opened()?.snapshots.renames(from, to)?)
    }

    fn text_diff(
        &self,
        from: &TreeId,
        to: &TreeId,
        bytes_max: usize,
    ) -> Result<TextDiff, EngineError> {
        Ok(self.opened()?.snapshots.text_diff(from, to, &[], bytes_max)?)
    }

    fn with_files(
        &self,
        tree: &TreeId,
        from: &TreeId,
        paths: &[PathBuf],
    ) -> Result<TreeId, EngineError> {
        Ok(self.opened()?.snapshots.with_files(tree, from, paths)?)
    }

    fn merge(&self, base: &TreeId, ours: &TreeId, theirs: &TreeId) -> Result<Merged, EngineError> {
        Ok(self.opened()?.snapshots.merge(base, ours, theirs)?)
    }

    fn prepare_change(
        &self,
        workspace: &Path,
        change: &WorkspaceChange<'_>,
    ) -> Result<(), EngineError> {
        Ok(self.opened()?.snapshots.prepare_change(workspace, change)?)
    }

    fn change(
        &self,
        workspace: &Path,
        change: &WorkspaceChange<'_>,
    ) -> Result<Changed, EngineError> {
        Ok(self.opened()?.snapshots.change(workspace, change)?)
    }

    fn free_space(&self) -> Result<(), EngineError> {
        Ok(self.opened()?.snapshots.free_space()?)
    }

    fn check_restorable(&self, from: &TreeId, to: &TreeId) -> Result<(), EngineError> {
        Ok(self.opened()?.snapshots.check_restorable(from, to)?)
    }

    fn list_objects(&self, trees: &[TreeId], bytes_max: u64) -> Result<PackedObjects, EngineError> {
        Ok(self.opened()?.snapshots.list_objects(trees, bytes_max)?)
    }

    fn write_objects(
        &self,
        packed: &PackedObjects,
        target: &mut dyn std::io::Write,
    ) -> Result<(), SnapshotError> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Whoever has a list has opened the snapshots.
        let Some(opened) = opened else { return Ok(()) };
        opened.snapshots.write_objects(packed, target)
    }

    fn store_file(&self, workspace: &Path, path: &str) -> Result<CheckpointArtifact, EngineError> {
        let stored = self.opened()?.blobs.put_file(&workspace.join(path), FILE_BYTES_MAX)?;
        let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
        Ok(CheckpointArtifact {
            artifact_type: extension.unwrap_or("file").to_owned(),
            digest: stored.digest,
            size_bytes: stored.bytes,
        })
    }

    fn files(&self) -> Result<Vec<Digest>, EngineError> {
        Ok(self.opened()?.blobs.list()?.collect::<Result<_, _>>()?)
    }

    fn delete_file(&self, digest: &Digest) -> Result<u64, EngineError> {
        let opened = self.opened()?;
        let bytes = opened.blobs.len(digest).unwrap_or_default();
        Ok(if opened.blobs.remove(digest)? { bytes } else { 0 })
    }

    fn check(&self) -> Result<Vec<String>, EngineError> {
        let opened = self.opened()?;
        let mut damaged: Vec<String> = opened
            .snapshots
            .check()?
            .iter()
            .map(|snapshot| match &snapshot.damage {
                Damage::Reference => {
                    format!("the reference `{}` cannot be read", snapshot.reference)
                }
                Damage::Base(commit) => format!(
                    "`{}` needs the commit {commit} of the repository, which is not there any more",
                    snapshot.reference
                ),
                Damage::Object(object) => {
                    format!("`{}` is corrupt: its object {object}", snapshot.reference)
                }
            })
            .collect();
        damaged.extend(opened.blobs.check()?.errors.iter().map(ToString::to_string));
        Ok(damaged)
    }
}
