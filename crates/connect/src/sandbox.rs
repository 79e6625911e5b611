//! The cell of a command: what it has of the machine, its workspace, and what of it is protected.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use windlass_cell::{
    Access, Cell, CellLimits, Confined, Finished, GitPaths, Layout, Level, Limits, Mount, Network,
    Program, WorkspaceView, find_git,
};

use windlass_broker::BrokerRules;
use windlass_kernel::HostRule;
use windlass_workspace::{Baseline, Git, PinnedPath, Signature, TreeId, take_over};

use crate::Certainty;
use crate::cache_changes::CacheChanges;
use crate::call_failure::CallFailure;
use crate::hidden_files;
use crate::pinned::ShownFiles;

/// How long the temporary files of a run are kept after its last command.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long the trial of a cell may take.
const TRY_OUT: Duration = Duration::from_secs(10);

/// What one command may change and reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The folder in which it works.
    pub workspace: PathBuf,
    /// Whether it may change that folder.
    pub access: Access,
    /// The hosts that it may reach, through the broker.
    pub hosts: Vec<HostRule>,
    /// The run to which it belongs, whose commands share `/tmp`.
    pub scope: Option<String>,
    /// Files of the workspace that it gets as they were when the run started.
    pub pinned: Vec<PinnedPath>,
    /// The tree that git shows it as staged, in an index of its own; otherwise it has the user's index.
    pub staged: Option<TreeId>,
}

impl Confinement {
    /// A command that may change the workspace and reach nothing.
    #[must_use]
    pub fn writing(workspace: &Path, scope: impl ToString) -> Self {
        Self {
            workspace: workspace.to_owned(),
            access: Access::Write,
            hosts: Vec::new(),
            scope: Some(scope.to_string()),
            pinned: Vec::new(),
            staged: None,
        }
    }
}

/// How the commands of a project are confined.
#[derive(Debug)]
pub struct Sandbox {
    settings: SandboxSettings,
    workspaces: Mutex<BTreeMap<PathBuf, Arc<WorkspaceFacts>>>,
}

/// What is found out about a workspace once.
#[derive(Debug)]
struct WorkspaceFacts {
    /// The hidden files; what commands create later is theirs.
    hidden: Vec<PathBuf>,
    /// The variables that tell git who commits: the user's settings are not in a cell.
    identity: Vec<(&'static str, String)>,
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
    /// Hosts whose addresses may be private.
    pub private_hosts: Vec<HostRule>,
}

/// A cell for one command.
#[derive(Debug)]
pub(crate) struct OpenCell {
    launcher: PathBuf,
    cell: Cell,
    git: Option<GitChanges>,
    /// Protected paths that did not exist before the command.
    absent: Vec<PathBuf>,
    /// Where they are moved if it created them.
    removed: PathBuf,
    rules: BrokerRules,
    variables: Vec<(&'static str, String)>,
    _shown: ShownFiles,
    _caches: CacheChanges,
}

/// The changes of a command in a git directory, which are taken over when it has ended.
#[derive(Debug)]
struct GitChanges {
    folder: TempDir,
    git: GitPaths,
    /// The refs and files before the command.
    before: Baseline,
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
    /// Uses these settings, and removes what commands of old runs left in `/tmp`.
    #[must_use]
    pub fn new(settings: SandboxSettings) -> Self {
        remove_old(&settings.folder.join("tmp"));
        Self { settings, workspaces: Mutex::default() }
    }

    /// Describes the cell of one command and creates what it needs outside.
    pub(crate) fn open(&self, confinement: &Confinement) -> Result<OpenCell, CallFailure> {
        let Confinement { workspace, access, hosts, scope, pinned, staged } = confinement;
        let SandboxSettings { level, folder, .. } = &self.settings;
        let temporary = scope.as_ref().filter(|_| !self.is_below_tmp(workspace));
        let temporary = temporary.map(|scope| self.temporary(scope)).transpose()?;
        let facts = self.facts(workspace)?;
        let caches = CacheChanges::take(&self.settings.folder).map_err(CallFailure::sandbox)?;
        let mut shown = ShownFiles::default();
        shown.pin(*level, folder, workspace, pinned)?;
        if let Some(tree) = staged {
            shown.stage(*level, folder, workspace, tree)?;
        }
        let (mut mounts, changes) = match level {
            Level::Full => {
                let git = find_git(workspace).map_err(CallFailure::sandbox)?;
                let writes = *access == Access::Write;
                let changes = git.clone().filter(|_| writes).map(|git| self.git_changes(git));
                let changes = changes.transpose()?;
                let folders = changes.as_ref().map(|changes| (changes.upper(), changes.work()));
                let view = WorkspaceView {
                    folder: workspace,
                    access: *access,
                    git: git.as_ref(),
                    git_changes: folders.as_ref().map(|(upper, work)| (&**upper, &**work)),
                    hidden: &facts.hidden,
                };
                let mut mounts = self.machine(temporary, &caches);
                mounts.extend(view.mounts());
                (mounts, changes)
            }
            Level::Landlock => (self.landlock_mounts(workspace, *access), None),
        };
        mounts.append(&mut shown.mounts);
        let cell = Cell {
            level: *level,
            mounts,
            network: if hosts.is_empty() { Network::Closed } else { Network::Broker },
            limits: self.settings.limits,
        };
        let protected = [workspace.join(".windlass"), workspace.join(".git")];
        let absent = protected.into_iter().filter(|path| path.symlink_metadata().is_err());
        let absent = absent.filter(|_| *access == Access::Write).collect();
        let rules = BrokerRules {
            hosts: hosts.clone(),
            private_hosts: self.settings.private_hosts.clone(),
            ..BrokerRules::default()
        };
        let variables = facts.identity.iter().cloned().chain(shown.variables.drain(..)).collect();
        Ok(OpenCell {
            launcher: self.settings.launcher.clone(),
            cell,
            git: changes,
            absent,
            removed: self.settings.folder.join("removed"),
            rules,
            variables,
            _shown: shown,
            _caches: caches,
        })
    }

    /// Without a root of its own a command sees everything; these are the folders that it may change.
    fn landlock_mounts(&self, workspace: &Path, access: Access) -> Vec<Mount> {
        let bind = |path: &Path, access| Mount::Bind { path: path.to_owned(), access };
        let temporary = std::env::temp_dir();
        let writable = self.settings.layout.writable.iter().chain([&temporary]);
        let writable = writable.filter(|path| path.exists()).map(|path| bind(path, Access::Write));
        writable.chain([bind(workspace, access)]).collect()
    }

    /// What the cell has of the machine.
    fn machine(&self, temporary: Option<PathBuf>, caches: &CacheChanges) -> Vec<Mount> {
        let mut layout = self.settings.layout.clone();
        layout.temporary = temporary;
        layout.cache_changes = Some(caches.folder().to_owned());
        layout.earlier_cache_changes = caches.earlier().map(Path::to_owned);
        layout.mounts()
    }

    /// Whether something that a cell shows lies below `/tmp`. Then `/tmp` cannot be shared: a command could
    /// remove the folder on which another cell has its workspace, and with it the mount.
    fn is_below_tmp(&self, workspace: &Path) -> bool {
        let home = self.settings.layout.variables.get("HOME").map(Path::new);
        let shown = self.settings.layout.visible.iter().chain(&self.settings.layout.writable);
        let shown = shown.map(PathBuf::as_path).chain(home).chain([workspace]);
        shown.into_iter().any(|path| path.starts_with("/tmp"))
    }

    /// The folder that is `/tmp` for the commands of one run.
    fn temporary(&self, scope: &str) -> Result<PathBuf, CallFailure> {
        let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
        let name: String = scope.chars().map(plain).collect();
        let folder = self.settings.folder.join("tmp").join(name);
        let made = std::fs::create_dir_all(&folder);
        made.map_err(|error| {
            CallFailure::sandbox(format!("cannot create `{}`: {error}", folder.display()))
        })?;
        Ok(folder)
    }

    /// Makes a cell and runs a program in it that does nothing.
    ///
    /// # Errors
    /// Why it does not work.
    pub fn try_out(&self) -> Result<(), String> {
        let cell = self
            .open(&Confinement::writing(&self.settings.folder, "doctor"))
            .map_err(|failure| failure.message)?;
        let program = Program {
            argv: vec!["true".as_ref()],
            stdin: None,
            env: Vec::new(),
            cwd: &self.settings.folder,
            limits: Limits { timeout: TRY_OUT, output_bytes_max: 4096 },
            confined: Some(cell.confined()),
        };
        let finished = windlass_cell::run(&program).map_err(|error| error.to_string())?;
        if finished.status.is_some_and(|status| status.success()) {
            return Ok(());
        }
        Err("a program that does nothing fails in a cell".to_owned())
    }

    /// The folders for the changes of a command in the git directory.
    fn git_changes(&self, git: GitPaths) -> Result<GitChanges, CallFailure> {
        let parent = &self.settings.folder;
        let cannot = |path: &Path, error: &std::io::Error| {
            CallFailure::sandbox(format!("cannot create a folder in `{}`: {error}", path.display()))
        };
        let folder =
            TempDir::with_prefix_in("git-", parent).map_err(|error| cannot(parent, &error))?;
        let before = Baseline::read(&git.common, &git.top)
            .map_err(|error| CallFailure::git(Certainty::DidNotRun, &error))?;
        let changes = GitChanges { folder, git, before };
        for folder in [changes.upper(), changes.work()] {
            std::fs::create_dir(&folder).map_err(|error| cannot(&folder, &error))?;
        }
        Ok(changes)
    }

    fn facts(&self, workspace: &Path) -> Result<Arc<WorkspaceFacts>, CallFailure> {
        let mut known = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(facts) = known.get(workspace) {
            return Ok(Arc::clone(facts));
        }
        let hidden = hidden_files::find(workspace).map_err(CallFailure::sandbox)?;
        // Without one, git in the cell says so itself.
        let identity = Git::new(workspace).identity().map_or_else(
            |_| Vec::new(),
            |Signature { name, email }| {
                let names =
                    ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|key| (key, name.clone()));
                let emails = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"];
                names.into_iter().chain(emails.map(|key| (key, email.clone()))).collect()
            },
        );
        let facts = Arc::new(WorkspaceFacts { hidden, identity });
        known.insert(workspace.to_owned(), Arc::clone(&facts));
        Ok(facts)
    }
}

impl OpenCell {
    /// Takes over what the command changed in the git directory, and removes what it may not create.
    pub fn close(self, finished: Result<Finished, CallFailure>) -> Result<Finished, CallFailure> {
        let mut protected = Vec::new();
        if let Some(changes) = &self.git {
            let GitChanges { git, before, .. } = changes;
            let taken = take_over(&git.common, &changes.upper(), &git.top, before)
                .map_err(|error| CallFailure::git(Certainty::Unknown, &error))?;
            protected.extend(taken.protected.into_iter().map(|path| format!(".git/{path}")));
        }
        for path in &self.absent {
            let moved = move_away(path, &self.removed).map_err(|error| {
                let message = format!("cannot remove `{}`: {error}", path.display());
                CallFailure::internal(Certainty::Unknown, message)
            })?;
            protected.extend(
                moved.map(|to| format!("{} (moved to `{}`)", path.display(), to.display())),
            );
        }
        match protected.is_empty() {
            true => finished,
            false => Err(CallFailure::protected(&protected)),
        }
    }

    /// Variables for the command.
    pub fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    /// What the broker lets through.
    pub const fn rules(&self) -> &BrokerRules {
        &self.rules
    }

    /// Where the command is started.
    pub fn confined(&self) -> Confined<'_> {
        Confined { launcher: &self.launcher, cell: &self.cell }
    }
}

/// Removes the folders that have not been used for a long time.
fn remove_old(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > TEMPORARY_AGE_MAX) {
            // The next start tries again.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for GitChanges {
    fn drop(&mut self) {
        open_work_folder(&self.work());
    }
}

/// Opens the folder that the kernel leaves in the work folder of an overlay: nobody may enter it, so it
/// could not be removed.
pub(crate) fn open_work_folder(work: &Path) {
    let open = std::fs::Permissions::from_mode(0o700);
    // It may not be there.
    let _ = std::fs::set_permissions(work.join("work"), open);
}

/// Moves what is at a path into a folder of ours, or, if that is on another file system, to a name beside it
/// that means nothing; returns where it is. It is not deleted: it may be the user who has just created it.
fn move_away(path: &Path, folder: &Path) -> std::io::Result<Option<PathBuf>> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    std::fs::create_dir_all(folder)?;
    // An empty folder with a name of its own, which the move replaces or fills.
    let place = TempDir::with_prefix_in("removed-", folder)?.keep();
    let name = path.file_name().unwrap_or_default();
    let aside = place.join(name);
    match std::fs::rename(path, &aside) {
        Ok(()) => Ok(Some(aside)),
        Err(error) if error.kind() == std::io::ErrorKind::CrossesDevices => {
            let label = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let beside = path.with_file_name(format!("{}.{label}", name.to_string_lossy()));
            std::fs::rename(path, &beside).map(|()| Some(beside))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_old_temporary_folders_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["old", "new"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("old/file"), "x").unwrap();
        let old = std::fs::File::open(folder.path().join("old")).unwrap();
        old.set_modified(SystemTime::now() - TEMPORARY_AGE_MAX * 2).unwrap();
        remove_old(folder.path());
        assert!(!folder.path().join("old").exists() && folder.path().join("new").exists());
        remove_old(&folder.path().join("missing"));
    }

    #[test]
    fn what_may_not_appear_is_moved_and_not_deleted() {
        let (folder, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join(".git");
        assert_eq!(move_away(&path, ours.path()).unwrap(), None);
        for text in ["one", "two"] {
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("HEAD"), text).unwrap();
            let moved = move_away(&path, ours.path()).unwrap().unwrap();
            assert!(!path.exists() && moved.starts_with(ours.path()));
            assert_eq!(std::fs::read_to_string(moved.join("HEAD")).unwrap(), text);
        }
        // `/dev/shm` is another file system.
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        std::fs::write(&path, "three").unwrap();
        let moved = move_away(&path, elsewhere.path()).unwrap().unwrap();
        assert!(!path.exists() && moved.parent() == Some(folder.path()));
        assert_eq!(std::fs::read_to_string(moved).unwrap(), "three");
    }

    #[test]
    fn a_workspace_below_tmp_keeps_tmp_from_being_shared() {
        let settings = |home: &str| SandboxSettings {
            level: Level::Full,
            launcher: "/bin/true".into(),
            layout: Layout {
                variables: BTreeMap::from([("HOME".to_owned(), home.to_owned())]),
                ..Layout::default()
            },
            limits: CellLimits::default(),
            folder: "/nonexistent".into(),
            private_hosts: Vec::new(),
        };
        let sandbox = Sandbox::new(settings("/srv/ann"));
        assert!(!sandbox.is_below_tmp(Path::new("/srv/ann/project")));
        assert!(sandbox.is_below_tmp(Path::new("/tmp/project")));
        assert!(Sandbox::new(settings("/tmp/home")).is_below_tmp(Path::new("/srv/project")));
    }
}
