//! Snapshots of whole workspaces: capture, restore, compare, merge, check.
//!
//! A snapshot is a git tree, made by the user's own `git` command (2.36 or newer; merging needs 2.38)
//! with a **private git directory** of ours, so that neither the user's index nor their settings take
//! part. In a repository the contents lie among the user's own objects, and refs under
//! `refs/windlass/` keep them there; elsewhere both lie in the private directory.
//!
//! Snapshots are exact: no filter, line ending, encoding or keyword is converted in either direction.
//! They hold files, their executable bit, and symbolic links. They do not hold ignored files, empty
//! folders, owners, times, other permissions, or what is inside nested repositories, which are named.
//!
//! INVARIANT: no program that a repository names is ever started: no hook, filter, merge or diff
//! driver, file-system monitor. That is why `git add` is not used: it runs `git status` inside nested
//! repositories, and that runs their filters.

mod capture;
mod check;
mod compare;
mod entry;
mod error;
mod graft;
mod home;
mod merge;
mod objects;
mod place;
mod plan;
mod readable;
mod reference;
mod restore;
mod stage;
mod state;
mod tracked;
mod workspace;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use capture::Capture;
pub use check::{Fault, FaultKind};
pub use compare::{ChangeKind, PathChange, TextDiff};
pub use entry::{Entry, EntryMode};
pub use error::SnapshotError;
use home::{Home, Wishes};
pub use merge::Merged;
use objects::Format;
pub use reference::SNAPSHOT_REFS;
pub use restore::{Restored, Resume};
use workspace::Workspace;

use crate::git::{Invocation, Kind};

/// The snapshots of a project.
#[derive(Debug)]
pub struct Snapshots {
    /// Our own git directory.
    private: PathBuf,
    home: Home,
    wishes: Wishes,
    /// What is known about workspaces that were used.
    workspaces: Mutex<BTreeMap<PathBuf, Arc<Workspace>>>,
}

impl Snapshots {
    /// Opens the snapshots of a project, which may be a git repository or any folder; the private git
    /// directory is made when it is not there.
    ///
    /// A project that had snapshots before it became a repository keeps them where they are.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn open(private: &Path, project: &Path) -> Result<Self, SnapshotError> {
        let (home, workspace) = home::find(private, project)?;
        let private = home::prepare(private, &home)?;
        let known = BTreeMap::from([(workspace.folder.clone(), Arc::new(workspace))]);
        let wishes = home::wishes(project)?;
        Ok(Self { private, home, wishes, workspaces: Mutex::new(known) })
    }

    /// How objects are named.
    const fn format(&self) -> Format {
        self.home.format
    }

    /// A start of git that sees only objects.
    fn objects_git(&self, operation: &'static str, kind: Kind) -> Invocation<'_> {
        self.git(operation, kind, &self.private, &self.private)
    }

    /// A start of git with a private git directory, the snapshots' objects and nobody's settings.
    fn git<'a>(
        &self,
        operation: &'static str,
        kind: Kind,
        directory: &Path,
        cwd: &'a Path,
    ) -> Invocation<'a> {
        let git = Invocation::new(operation, cwd, kind)
            .env("GIT_DIR", directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1");
        let git = git.env("GIT_OBJECT_DIRECTORY", self.home.objects(&self.private));
        match &self.wishes.shared {
            Some(shared) => git.arg("-c").arg(format!("core.sharedRepository={shared}")),
            None => git,
        }
    }

    /// A start of git in a workspace, with the index of our own for it.
    fn workspace_git<'a>(
        &self,
        operation: &'static str,
        kind: Kind,
        workspace: &'a Workspace,
    ) -> Invocation<'a> {
        self.git(operation, kind, &self.private, &workspace.top)
            // Whether the index is the one that we left is known by a digest of our own.
            .args(["-c", "index.skipHash=true"])
            .env("GIT_WORK_TREE", &workspace.top)
            .env("GIT_INDEX_FILE", workspace.index(&self.private))
    }
}
