//! Checkpoints, rollback, branches and consensus on real repositories.

mod branches;
mod changes;
mod consensus;
mod crash;
mod documents;
mod random;
mod rollback;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use windlass_engine::{
    Checkpointer, Engine, EngineError, GitRepository, GitSnapshotStore, RollbackRequest,
    SnapshotStore,
};
use windlass_kernel::run::plan::Plan;
use windlass_kernel::run::{CheckpointArtifact, Run};
use windlass_kernel::{CheckpointId, Digest};
use windlass_runtime::SystemClock;
use windlass_workspace::{
    Changed, Merged, PackedObjects, PathChange, Rename, SnapshotError, SnapshotLock, TextDiff,
    TreeId, WorkspaceChange,
};

use crate::crash::Life;
use crate::executors::write;
use crate::world::World;

pub fn git(root: &Path, arguments: &[&str]) -> String {
    // Git also sees the objects of the snapshots.
    let snapshots = root.join(".windlass/snapshots.git/objects");
    let mut git = Command::new("git");
    git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", snapshots);
    let output = git.current_dir(root).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A world whose folder is a repository with one commit.
pub fn world() -> World {
    let world = World::new();
    let root = world.root();
    git(root, &["init", "-q", "-b", "main"]);
    git(root, &["config", "user.name", "Ann"]);
    git(root, &["config", "user.email", "ann@example.com"]);
    write(root, ".git/info/exclude", "/locks\n/stop\n/.windlass\n/ignored\n");
    write(root, "a.txt", "base\n");
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", "first"]);
    world
}

/// The snapshots of a world.
pub fn snapshots(world: &World) -> GitSnapshotStore {
    let root = world.root().canonicalize().unwrap();
    let (git, blobs) = (root.join(".windlass/snapshots.git"), root.join(".windlass/blobs"));
    GitSnapshotStore::new(root, git, blobs)
}

/// An engine that keeps checkpoints; its process may die around everything that it keeps.
pub fn engine(world: &World, life: &Arc<Life>) -> Engine {
    engine_with(world, life, Arc::new(|| {}))
}

/// As [`engine`]; `stored` is called after each file that is stored.
pub fn engine_with(world: &World, life: &Arc<Life>, stored: Arc<dyn Fn() + Send + Sync>) -> Engine {
    let repository = Arc::new(GitRepository::new(world.root().to_owned()));
    let store = MortalStore { inner: snapshots(world), life: Arc::clone(life), stored };
    let (root, clock) = (world.root().to_owned(), Arc::new(SystemClock));
    let state = root.join(".windlass");
    let checkpointer = Checkpointer::new(Arc::new(store), clock, root, state);
    crate::executors::engine(world, life, repository).with_checkpointer(Arc::new(checkpointer))
}

pub fn calm(world: &World) -> Engine {
    engine(world, &Life::until(None))
}

/// A plan whose runs make checkpoints.
pub fn kept(plan: Plan) -> Plan {
    Plan { checkpoints: true, ..plan }
}

/// The checkpoints of a run, by their names, oldest first.
pub fn names(world: &World, run: &Run) -> Vec<String> {
    let all = world.checkpoints().list(run.head.trace_id).unwrap();
    all.iter().map(|one| one.name.clone()).collect()
}

pub fn checkpoint(world: &World, run: &Run, name: &str) -> CheckpointId {
    let run_id = &run.started.as_ref().unwrap().run_id;
    world.checkpoints().find(&format!("{run_id}/{name}")).unwrap().1
}

pub fn to(checkpoint: CheckpointId) -> RollbackRequest {
    RollbackRequest {
        checkpoint,
        by: "ann".to_owned(),
        reason: "it went astray".to_owned(),
        force: false,
        resume: false,
    }
}

/// Every file of a workspace: its content, or where it leads, and whether it can be executed.
pub fn files(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, bool)> {
    let mut all = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            let top = path.to_str().unwrap_or_default();
            if [".git", ".windlass", "locks", "stop", "ignored"].contains(&top) {
                continue;
            }
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_symlink() {
                use std::os::unix::ffi::OsStrExt as _;
                let target = std::fs::read_link(entry.path()).unwrap();
                all.insert(path, (target.as_os_str().as_bytes().to_vec(), false));
            } else {
                use std::os::unix::fs::PermissionsExt as _;
                let mode = entry.metadata().unwrap().permissions().mode();
                all.insert(path, (std::fs::read(entry.path()).unwrap(), mode & 0o100 != 0));
            }
        }
    }
    all
}

/// A store whose caller can die before and after every change.
struct MortalStore {
    inner: GitSnapshotStore,
    life: Arc<Life>,
    stored: Arc<dyn Fn() + Send + Sync>,
}

impl MortalStore {
    fn around<T>(&self, act: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
        if !self.life.point() {
            return Err(dead());
        }
        let result = act();
        if !self.life.point() {
            return Err(dead());
        }
        result
    }
}

fn dead() -> EngineError {
    EngineError::NoCheckpoint { what: "the process is dead".to_owned() }
}

impl SnapshotStore for MortalStore {
    fn capture(&self, workspace: &Path, reference: &str) -> Result<TreeId, EngineError> {
        self.around(|| self.inner.capture(workspace, reference))
    }

    fn capture_unreferenced(&self, workspace: &Path) -> Result<TreeId, EngineError> {
        self.inner.capture_unreferenced(workspace)
    }

    fn set_reference(&self, tree: &TreeId, reference: &str) -> Result<(), EngineError> {
        self.around(|| self.inner.set_reference(tree, reference))
    }

    fn delete_references(&self, references: &[String]) -> Result<(), EngineError> {
        self.inner.delete_references(references)
    }

    fn references(&self) -> Result<BTreeSet<String>, EngineError> {
        self.inner.references()
    }

    fn references_in(&self, folder: &str) -> Result<BTreeSet<String>, EngineError> {
        self.inner.references_in(folder)
    }

    fn has_tree(&self, tree: &TreeId) -> Result<bool, EngineError> {
        self.inner.has_tree(tree)
    }

    fn ignored(
        &self,
        workspace: &Path,
        tree: &TreeId,
        paths: &[PathBuf],
    ) -> Result<BTreeSet<PathBuf>, EngineError> {
        self.inner.ignored(workspace, tree, paths)
    }

    fn sweep_workspaces(&self) -> Result<(), EngineError> {
        self.inner.sweep_workspaces()
    }

    fn lock_for_storing(&self) -> Result<SnapshotLock, EngineError> {
        self.inner.lock_for_storing()
    }

    fn lock_for_deletion(&self) -> Result<SnapshotLock, EngineError> {
        self.inner.lock_for_deletion()
    }

    fn changes(&self, from: &TreeId, to: &TreeId) -> Result<Vec<PathChange>, EngineError> {
        self.inner.changes(from, to)
    }

    fn nested(&self, tree: &TreeId) -> Result<Vec<PathBuf>, EngineError> {
        self.inner.nested(tree)
    }

    fn renames(&self, from: &TreeId, to: &TreeId) -> Result<Vec<Rename>, EngineError> {
        self.inner.renames(from, to)
    }

    fn list_objects(&self, trees: &[TreeId], bytes_max: u64) -> Result<PackedObjects, EngineError> {
        self.inner.list_objects(trees, bytes_max)
    }

    fn write_objects(
        &self,
        packed: &PackedObjects,
        target: &mut dyn std::io::Write,
    ) -> Result<(), SnapshotError> {
        self.inner.write_objects(packed, target)
    }

    fn text_diff(&self, from: &TreeId, to: &TreeId, max: usize) -> Result<TextDiff, EngineError> {
        self.inner.text_diff(from, to, max)
    }

    fn with_files(
        &self,
        tree: &TreeId,
        from: &TreeId,
        paths: &[PathBuf],
    ) -> Result<TreeId, EngineError> {
        self.inner.with_files(tree, from, paths)
    }

    fn merge(&self, base: &TreeId, ours: &TreeId, theirs: &TreeId) -> Result<Merged, EngineError> {
        self.inner.merge(base, ours, theirs)
    }

    fn prepare_change(
        &self,
        workspace: &Path,
        change: &WorkspaceChange<'_>,
    ) -> Result<(), EngineError> {
        self.around(|| self.inner.prepare_change(workspace, change))
    }

    fn change(
        &self,
        workspace: &Path,
        change: &WorkspaceChange<'_>,
    ) -> Result<Changed, EngineError> {
        self.around(|| self.inner.change(workspace, change))
    }

    fn free_space(&self) -> Result<(), EngineError> {
        self.inner.free_space()
    }

    fn check_restorable(&self, from: &TreeId, to: &TreeId) -> Result<(), EngineError> {
        self.inner.check_restorable(from, to)
    }

    fn store_file(&self, workspace: &Path, path: &str) -> Result<CheckpointArtifact, EngineError> {
        let file = self.around(|| self.inner.store_file(workspace, path))?;
        (self.stored)();
        Ok(file)
    }

    fn files(&self) -> Result<Vec<Digest>, EngineError> {
        self.inner.files()
    }

    fn delete_file(&self, digest: &Digest) -> Result<u64, EngineError> {
        self.inner.delete_file(digest)
    }

    fn check(&self) -> Result<Vec<String>, EngineError> {
        self.inner.check()
    }
}
