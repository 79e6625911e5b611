//! The cell of a command: what it has of the machine, its workspace, and what of it is protected.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;
use windlass_cell::{Access, Cell, CellLimits, Confined, Finished, Layout, Level, Mount, Network};
use windlass_workspace::{GitLocation, locate_git};

use crate::call_failure::CallFailure;
use crate::hidden_files;

/// The folder of Windlass in a project.
const PROJECT: &str = ".windlass";
/// What no command may change in a git directory: through these a git outside the cell would start programs
/// or work elsewhere.
const GIT_PROTECTED: [&str; 7] =
    ["config", "config.worktree", "hooks", "info", "commondir", "gitdir", "modules"];

/// What one command may change and reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The folder in which it works.
    pub workspace: PathBuf,
    /// Whether it may change that folder.
    pub access: Access,
    /// Whether it may reach the network.
    pub network: Network,
}

/// How the commands of a project are confined.
#[derive(Debug)]
pub struct Sandbox {
    settings: SandboxSettings,
    /// The hidden files of each workspace, found once: what commands create later is theirs.
    hidden: Mutex<BTreeMap<PathBuf, Arc<Vec<PathBuf>>>>,
}

/// The settings of a [`Sandbox`].
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// How strongly commands are confined.
    pub level: Level,
    /// Our own binary, which is the launcher.
    pub launcher: PathBuf,
    /// What every cell has of the machine.
    pub layout: Layout,
    /// What a command may use.
    pub limits: CellLimits,
    /// A private folder for what commands change in git directories.
    pub folder: PathBuf,
}

/// A cell for one command.
#[derive(Debug)]
pub(crate) struct OpenCell {
    launcher: PathBuf,
    cell: Cell,
    git: Option<GitChanges>,
}

/// The changes of a command in a git directory, which are taken over when it has ended.
#[derive(Debug)]
struct GitChanges {
    folder: TempDir,
    location: GitLocation,
}

impl GitChanges {
    fn upper(&self) -> PathBuf {
        self.folder.path().join("upper")
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }
}

impl Sandbox {
    /// Uses these settings.
    #[must_use]
    pub fn new(settings: SandboxSettings) -> Self {
        Self { settings, hidden: Mutex::default() }
    }

    /// Describes the cell of one command and creates what it needs outside.
    pub(crate) fn open(&self, confinement: &Confinement) -> Result<OpenCell, CallFailure> {
        let mut mounts = match self.settings.level {
            Level::Full => self.settings.layout.mounts(),
            Level::Landlock => self.landlock_mounts(),
        };
        let git = self.workspace_mounts(confinement, &mut mounts)?;
        let cell = Cell {
            level: self.settings.level,
            mounts,
            network: confinement.network,
            limits: self.settings.limits,
        };
        Ok(OpenCell { launcher: self.settings.launcher.clone(), cell, git })
    }

    /// Without a root of its own a command sees everything; these are the folders that it may change.
    fn landlock_mounts(&self) -> Vec<Mount> {
        let temporary = std::env::temp_dir();
        let writable = self.settings.layout.writable.iter().chain([&temporary]);
        let writable = writable.filter(|path| path.exists());
        writable.map(|path| Mount::Bind { path: path.clone(), access: Access::Write }).collect()
    }

    fn workspace_mounts(
        &self,
        confinement: &Confinement,
        mounts: &mut Vec<Mount>,
    ) -> Result<Option<GitChanges>, CallFailure> {
        let Confinement { workspace, access, .. } = confinement;
        let location = locate_git(workspace).map_err(CallFailure::sandbox)?;
        // The rest of the work tree is shown, or git would report it as deleted.
        if let Some(location) = &location
            && location.top != *workspace
        {
            mounts.push(Mount::Bind { path: location.top.clone(), access: Access::Read });
        }
        mounts.push(Mount::Bind { path: workspace.clone(), access: *access });
        if self.settings.level == Level::Landlock {
            return Ok(None);
        }
        let folder = workspace.join(PROJECT);
        if folder.symlink_metadata().is_ok() {
            mounts.push(Mount::Bind { path: folder, access: Access::Read });
        }
        let git = match location {
            Some(location) => self.git_mounts(location, *access, mounts)?,
            None => None,
        };
        let hidden = self.hidden(workspace)?;
        mounts.extend(hidden.iter().map(|path| Mount::Mask { path: path.clone() }));
        Ok(git)
    }

    fn git_mounts(
        &self,
        location: GitLocation,
        access: Access,
        mounts: &mut Vec<Mount>,
    ) -> Result<Option<GitChanges>, CallFailure> {
        if let Some(link) = &location.link {
            mounts.push(Mount::Bind { path: link.clone(), access: Access::Read });
        }
        let common = location.common.clone();
        if access == Access::Read {
            mounts.push(Mount::Bind { path: common, access: Access::Read });
            return Ok(None);
        }
        let made = TempDir::with_prefix_in("git-", &self.settings.folder);
        let folder = made.map_err(|error| {
            let folder = self.settings.folder.display();
            CallFailure::sandbox(format!("cannot create a folder in `{folder}`: {error}"))
        })?;
        let changes = GitChanges { folder, location };
        for folder in [changes.upper(), changes.work()] {
            std::fs::create_dir(&folder).map_err(|error| {
                CallFailure::sandbox(format!("cannot create `{}`: {error}", folder.display()))
            })?;
        }
        mounts.push(Mount::Overlay {
            path: common.clone(),
            lower: vec![common],
            upper: changes.upper(),
            work: changes.work(),
        });
        let location = &changes.location;
        let folders = [&location.common, &location.directory];
        let folders = folders.iter().take(if location.link.is_some() { 2 } else { 1 });
        for folder in folders {
            let protected = GIT_PROTECTED.iter().map(|name| folder.join(name));
            let present = protected.filter(|path| path.symlink_metadata().is_ok());
            mounts.extend(present.map(|path| Mount::Bind { path, access: Access::Read }));
        }
        Ok(Some(changes))
    }

    fn hidden(&self, workspace: &Path) -> Result<Arc<Vec<PathBuf>>, CallFailure> {
        let mut known = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hidden) = known.get(workspace) {
            return Ok(Arc::clone(hidden));
        }
        let hidden = Arc::new(hidden_files::find(workspace).map_err(CallFailure::sandbox)?);
        known.insert(workspace.to_owned(), Arc::clone(&hidden));
        Ok(hidden)
    }
}

impl OpenCell {
    /// Takes over what the command changed in the git directory.
    pub fn close(self, finished: Result<Finished, CallFailure>) -> Result<Finished, CallFailure> {
        finished
    }

    /// Where the command is started.
    pub fn confined(&self) -> Confined<'_> {
        Confined { launcher: &self.launcher, cell: &self.cell }
    }
}
