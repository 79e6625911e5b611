//! Snapshots of whole workspaces: capture, change, compare, merge, check.
//!
//! A snapshot is a git tree, or a tag of one that also has what trees do not hold,
//! made by the user's own `git` command (2.36 or newer; merging needs 2.38)
//! with a **private git directory** of ours, so that neither the user's index nor their settings are
//! used. Objects and refs are in the private directory. In a repository, objects that the current commit has are
//! borrowed from it, and a ref below `refs/windlass/base/` in the user's repository keeps that commit.
//!
//! Snapshots are exact: no filter, line ending, encoding or keyword is converted in either direction.
//! They contain files with their permissions, symbolic links and empty folders. They do not contain ignored files, files that
//! usually hold secrets and that nobody has committed, owners, times, permissions of folders, or the files of nested repositories, of which they record the commit.
//!
//! INVARIANT: no program that a repository names is ever started: no hook, filter, merge or diff
//! driver, file-system monitor. That is why `git add` is not used: it runs `git status` inside nested
//! repositories, and that runs their filters.

mod borrowed;
mod capture;
mod change;
mod change_fault;
mod change_plan;
mod check;
mod compare;
mod contents;
mod earlier;
mod entry;
mod error;
mod extras;
mod ignored;
mod index_state;
mod ledger;
mod leftovers;
mod lock;
mod merge;
mod object_index;
mod object_reader;
mod object_stream;
mod pack;
mod reference;
mod repository;
mod rooted_dir;
mod space;
mod staging;
mod user_index;
mod with_files;
mod workspace;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use capture::Capture;
pub use change::{Changed, OnConflict, WorkspaceChange, is_in_the_way};
pub use change_fault::die_after;
pub use check::{Damage, DamagedSnapshot};
pub use compare::{ChangeKind, PathChange, Rename, TextDiff};
use contents::SnapshotContents;
pub use entry::{Entry, EntryMode};
pub use error::SnapshotError;
pub(crate) use leftovers::tree_index;
pub use lock::SnapshotLock;
pub use merge::Merged;
pub use object_index::{ObjectIndex, SnapshotFiles};
use object_reader::ObjectFormat;
pub use object_stream::ObjectStreamError;
pub use pack::{PackedObjects, unpack_files};
pub use reference::SNAPSHOT_REFS;
use repository::Repository;
use workspace::Workspace;

use crate::TreeId;
use crate::git::{Access, Invocation, quoted};

/// The snapshots of a project.
#[derive(Debug)]
pub struct Snapshots {
    /// Our own git directory.
    private: PathBuf,
    repository: Repository,
    project: Arc<Workspace>,
    /// The user's global list of ignored files.
    global_excludes: Option<PathBuf>,
    /// The workspaces that were used, by their folder.
    workspaces: Mutex<BTreeMap<PathBuf, Arc<Workspace>>>,
    /// The snapshots that were written or read last.
    known: Mutex<VecDeque<(TreeId, Arc<SnapshotContents>)>>,
    /// The nested repositories of the last capture.
    last_nested: Mutex<Option<(TreeId, Vec<PathBuf>)>>,
}

impl Snapshots {
    /// Opens the snapshots of a project, which may be a git repository or any folder; the private git
    /// directory is created if missing.
    ///
    /// A project that had snapshots before it became a repository borrows nothing.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn open(private: &Path, project: &Path) -> Result<Self, SnapshotError> {
        let (repository, workspace) = repository::locate(private, project)?;
        let private = repository::prepare(private, &repository)?;
        let project_workspace = Arc::new(workspace);
        let known =
            BTreeMap::from([(project_workspace.folder.clone(), Arc::clone(&project_workspace))]);
        let global_excludes = repository::global_excludes(project)?;
        let workspaces = Mutex::new(known);
        let known = Mutex::new(VecDeque::new());
        let last_nested = Mutex::new(None);
        let project = project_workspace;
        Ok(Self { private, repository, project, global_excludes, workspaces, known, last_nested })
    }

    /// The hash function of object ids.
    const fn format(&self) -> ObjectFormat {
        self.repository.format
    }

    /// A git invocation on the objects alone.
    fn objects_git(&self, operation: &'static str, access: Access) -> Invocation<'_> {
        self.git(operation, access, &self.private, &self.private)
    }

    /// A git invocation that sees only the objects in the private git directory, and none of the user's repository.
    fn own_git(&self, operation: &'static str, access: Access) -> Invocation<'_> {
        let git = Invocation::new(operation, &self.private, access).private();
        git.env("GIT_DIR", &self.private)
    }

    /// A git invocation with a private git directory, the snapshots' objects, and no settings of the user
    /// or the system. The user's repository is named by each invocation, so that nothing has to be put right when the
    /// project was moved.
    fn git<'a>(
        &self,
        operation: &'static str,
        access: Access,
        directory: &Path,
        cwd: &'a Path,
    ) -> Invocation<'a> {
        let git = Invocation::new(operation, cwd, access).private().env("GIT_DIR", directory);
        let git = git.env("GIT_OBJECT_DIRECTORY", self.private.join("objects"));
        match self.repository.borrowed() {
            Some(objects) => git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&objects)),
            None => git,
        }
    }

    /// A git invocation in a workspace, with our private index for it.
    fn workspace_git<'a>(
        &self,
        operation: &'static str,
        access: Access,
        workspace: &'a Workspace,
    ) -> Invocation<'a> {
        self.git(operation, access, &self.private, &workspace.top)
            // `IndexState` has a digest of the index.
            .args(["-c", "index.skipHash=true"])
            .env("GIT_WORK_TREE", &workspace.top)
            .env("GIT_INDEX_FILE", workspace.index(&self.private))
    }
}
