//! The cell of a command: what it has of the machine, its workspace, and what of it is protected.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use windlass_cell::{
    Access, Cell, CellLimits, Excess, Layout, Level, Limits, Maker, Mount, Network, OnSignal,
    Program, WorkspaceView, choose_maker, find_git,
};

use windlass_broker::BrokerRules;
use windlass_gate::{Gate, Rules};
use windlass_kernel::{Code, Digest, HostRule};
use windlass_workspace::{
    Git, HiddenFiles, PinnedPath, Signature, TreeId, find_helper, telling_folder,
};

use crate::Certainty;
use crate::cache_changes::{CacheChanges, Privilege};
use crate::cache_settings::CacheSettings;
use crate::call_failure::CallFailure;
use crate::client_files::client_files;
use crate::open_cell::{GitChanges, OpenCell};
use crate::pinned::ShownFiles;
use crate::workspace_watch::{Repository, WorkspaceWatch};

/// How long the temporary files of a run are kept after its last command.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The folder in which it is remembered what commands do not see.
const HIDDEN: &str = "hidden";
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
    /// Whether it lives longer than a call, as a server does. Then git's folder is read-only, and what it
    /// changes in caches is lost: both are taken over when a command has ended.
    pub is_server: bool,
    /// Whether what it does to git is dropped: it is asked about work, or prepares it, and does none.
    pub drops_git_changes: bool,
    /// Whether it measures work. Then it has `/tmp` and caches of its own, and what it does to git and to these is dropped.
    pub measures: bool,
    /// Whether it gets secrets. Then it sees no caches that a command without has changed.
    pub has_secrets: bool,
    /// Files of the workspace that it gets as they were when the run started.
    pub pinned: Vec<PinnedPath>,
    /// The rules about files of the workspace, against which what it changed is held at its end.
    pub file_rules: Arc<Rules>,
    /// The files that its line names as written: it was judged with them in view.
    pub named: Vec<String>,
    /// The tree that git shows it as staged, in an index of its own; otherwise it has the user's index.
    pub staged: Option<TreeId>,
}

impl Confinement {
    /// A command that may change the workspace and reach nothing.
    #[must_use]
    pub fn writing(workspace: &Path, scope: impl ToString) -> Self {
        let scope = Some(scope.to_string());
        Self { scope, ..Self::new(workspace.to_owned(), Access::Write) }
    }

    /// One that reaches nothing and belongs to no run.
    #[must_use]
    pub fn new(workspace: PathBuf, access: Access) -> Self {
        Self {
            workspace,
            access,
            hosts: Vec::new(),
            scope: None,
            is_server: false,
            drops_git_changes: false,
            measures: false,
            has_secrets: false,
            pinned: Vec::new(),
            file_rules: Arc::new(Rules::new(Vec::new())),
            named: Vec::new(),
            staged: None,
        }
    }
}

/// How the commands of a project are confined.
#[derive(Debug)]
pub struct Sandbox {
    settings: SandboxSettings,
    /// Who makes cells here, found out by a trial.
    maker: OnceLock<Result<Maker, String>>,
    /// By the top of the work tree.
    workspaces: Mutex<BTreeMap<PathBuf, Arc<WorkspaceFacts>>>,
}

/// What is found out about a work tree once.
#[derive(Debug)]
struct WorkspaceFacts {
    /// The top of the repository, all of which is shown, or the workspace if it is in none.
    top: PathBuf,
    hidden: Mutex<HiddenFiles>,
    /// The variables that tell git who commits: the user's settings are not in a cell.
    identity: Vec<(&'static str, String)>,
}

impl WorkspaceFacts {
    /// The files that commands do not see.
    fn hidden(&self) -> Result<Vec<PathBuf>, String> {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner).paths(&self.top)
    }
}

/// The settings of a [`Sandbox`].
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// How strongly commands are confined.
    pub level: Level,
    /// Our own binary, which is the launcher.
    pub launcher: PathBuf,
    /// The `bwrap` program that the user names, for machines on which the launcher can make no cells.
    pub bwrap: Option<PathBuf>,
    /// What every cell has of the machine.
    pub layout: Layout,
    /// What a command may use.
    pub limits: CellLimits,
    /// A private folder for what commands change in git directories.
    pub folder: PathBuf,
    /// Hosts whose addresses may be private.
    pub private_hosts: Vec<HostRule>,
}

impl Sandbox {
    /// Uses these settings, and removes what commands of old runs left in `/tmp`.
    #[must_use]
    pub fn new(settings: SandboxSettings) -> Self {
        remove_old(&settings.folder.join("tmp"));
        Self { settings, maker: OnceLock::new(), workspaces: Mutex::default() }
    }

    /// Describes the cell of one command and creates what it needs outside.
    pub(crate) fn open(&self, confinement: &Confinement) -> Result<OpenCell, CallFailure> {
        let Confinement { workspace, access, hosts, scope, is_server, .. } = confinement;
        let Confinement { pinned, staged, .. } = confinement;
        let SandboxSettings { level, folder, .. } = &self.settings;
        let mut shown = ShownFiles::default();
        let temporary = match scope.as_ref().filter(|_| !self.is_below_tmp(workspace)) {
            None => None,
            Some(_) if confinement.measures => Some(shown.folder("tmp-", folder)?),
            Some(scope) => Some(self.temporary(scope)?),
        };
        let drops_git_changes = confinement.drops_git_changes || confinement.measures;
        let facts = self.facts(workspace)?;
        let maker = match level {
            Level::Full => self.maker().map_err(CallFailure::sandbox)?,
            Level::Landlock => Maker::Own,
        };
        let has_overlays = maker == Maker::Own;
        let privilege = Privilege { network: !hosts.is_empty(), secrets: confinement.has_secrets };
        let caches = match (confinement.measures, is_server) {
            (true, _) => CacheChanges::measuring(folder),
            (false, true) => CacheChanges::own(folder, privilege),
            (false, false) => CacheChanges::take(folder, privilege),
        };
        let caches = caches.map_err(CallFailure::sandbox)?;
        shown.pin(*level, folder, workspace, pinned)?;
        if let Some(tree) = staged {
            shown.stage(*level, folder, workspace, tree)?;
        }
        let (mut repository, mut unseen) = (Repository::default(), Vec::new());
        let (mut mounts, changes) = match level {
            Level::Full => {
                let git = find_git(workspace).map_err(CallFailure::sandbox)?;
                repository.top = git.as_ref().map(|git| git.top.clone());
                if let Some(git) = &git {
                    shown.without_credentials(folder, git)?;
                }
                let writes = *access == Access::Write && has_overlays && !is_server;
                let reaches = !hosts.is_empty();
                let changes = git.clone().filter(|_| writes);
                let changes = changes.map(|git| GitChanges::new(folder, git, workspace, reaches));
                let changes = changes.transpose()?;
                let folders = changes.as_ref().map(|changes| (changes.upper(), changes.work()));
                let hidden = facts.hidden().map_err(CallFailure::sandbox)?;
                let telling = hidden.iter().filter_map(|path| {
                    let folder = telling_folder(path.strip_prefix(&facts.top).ok()?)?;
                    Some(facts.top.join(folder))
                });
                let telling: BTreeSet<PathBuf> = telling.collect();
                let view = WorkspaceView {
                    folder: workspace,
                    access: *access,
                    git: git.as_ref(),
                    git_changes: folders.as_ref().map(|(upper, work)| (&**upper, &**work)),
                    fixed: &telling,
                    hidden: &hidden,
                };
                let below = hidden.iter().filter_map(|path| path.strip_prefix(&facts.top).ok());
                unseen.extend(below.filter_map(|path| Some(path.to_str()?.to_owned())));
                repository.hidden.clone_from(&unseen);
                let taken = changes.as_ref().filter(|_| !drops_git_changes);
                repository.tips = taken.map(|changes| changes.before.tips());
                let mut mounts = self.machine(temporary, has_overlays.then_some(&caches));
                mounts.extend(view.mounts());
                if *access == Access::Write {
                    mounts.extend(client_files(workspace));
                }
                (mounts, changes)
            }
            Level::Landlock => {
                if *access == Access::Write {
                    repository = Repository::without_cell(workspace)?;
                }
                (self.landlock_mounts(workspace, *access), None)
            }
        };
        let cache_settings = CacheSettings::of(&self.settings.layout);
        // Those of a command whose Windlass died.
        caches.drop_settings(&cache_settings, &mounts).map_err(CallFailure::sandbox)?;
        let watch = match access {
            Access::Write => {
                let place = folder.join("gate");
                let watch =
                    WorkspaceWatch::start(&place, *level, confinement, repository, &mounts)?;
                mounts.extend(watch.seals());
                Some(watch)
            }
            Access::Read => None,
        };
        mounts.append(&mut shown.mounts);
        Layout::make_way(&mut mounts);
        let cell = Cell {
            level: *level,
            maker,
            mounts,
            network: if hosts.is_empty() { Network::Closed } else { Network::Broker },
            limits: self.settings.limits,
        };
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
            hidden: unseen,
            drops_git_changes,
            watch,
            rules,
            variables,
            _shown: shown,
            caches,
            cache_settings,
        })
    }

    /// How strongly commands are confined.
    pub(crate) const fn level(&self) -> Level {
        self.settings.level
    }

    /// What a command may use.
    pub(crate) const fn limits(&self) -> CellLimits {
        self.settings.limits
    }

    /// Our own binary.
    pub(crate) fn launcher(&self) -> &Path {
        &self.settings.launcher
    }

    /// The files of a workspace's whole work tree that commands do not see.
    pub(crate) fn hidden(&self, workspace: &Path) -> Result<Vec<PathBuf>, CallFailure> {
        self.facts(workspace)?.hidden().map_err(CallFailure::sandbox)
    }

    /// Who makes cells on this machine.
    pub(crate) fn maker(&self) -> Result<Maker, String> {
        let bwrap = || find_helper("bwrap", self.settings.bwrap.as_deref());
        self.maker.get_or_init(|| choose_maker(&self.settings.launcher, bwrap)).clone()
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
    fn machine(&self, temporary: Option<PathBuf>, caches: Option<&CacheChanges>) -> Vec<Mount> {
        let mut layout = self.settings.layout.clone();
        layout.temporary = temporary;
        layout.cache_changes = caches.map(|caches| caches.folder().to_owned());
        layout.earlier_cache_changes =
            caches.map_or_else(Vec::new, |caches| caches.earlier().to_vec());
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

    /// Makes a cell and runs a program in it that does nothing. Returns who made it.
    ///
    /// # Errors
    /// Why it does not work.
    pub fn try_out(&self) -> Result<Maker, String> {
        let workspace = self.settings.folder.join("trial");
        let made = std::fs::create_dir_all(&workspace);
        made.map_err(|error| format!("cannot create `{}`: {error}", workspace.display()))?;
        let cell = self
            .open(&Confinement::writing(&workspace, "doctor"))
            .map_err(|failure| failure.message)?;
        let program = Program {
            argv: vec!["true".as_ref()],
            stdin: None,
            env: Vec::new(),
            cwd: &workspace,
            limits: Limits { timeout: TRY_OUT, output_bytes_max: 4096 },
            confined: Some(cell.confined()),
            excess: Excess::End,
            on_signal: OnSignal::End,
        };
        let finished = windlass_cell::run(&program).map_err(|error| error.to_string())?;
        if finished.status.is_some_and(|status| status.success()) {
            return Ok(cell.cell.maker);
        }
        Err("a program that does nothing fails in a cell".to_owned())
    }

    /// Accepts what a tool of ours has written to a file.
    pub(crate) fn accept(
        &self,
        workspace: &Path,
        path: &Path,
        written: Digest,
    ) -> Result<(), CallFailure> {
        let accepted = Gate::accept(&self.settings.folder.join("gate"), workspace, path, written);
        accepted.map_err(|error| CallFailure::internal(Certainty::Unknown, error.to_string()))
    }

    /// Holds back what commands left whose Windlass was killed, and says what.
    ///
    /// # Errors
    /// Why it cannot be found out.
    pub fn settle(&self) -> Result<Vec<String>, String> {
        let mut told = Vec::new();
        let unsettled = Gate::unsettled(&self.settings.folder.join("gate"));
        for (workspace, file_rules) in unsettled.map_err(|error| error.to_string())? {
            if !workspace.is_dir() {
                continue;
            }
            let confinement =
                Confinement { file_rules, ..Confinement::new(workspace, Access::Write) };
            match self.open(&confinement) {
                Err(failure) if failure.code == Code::ProtectedPathChanged => {
                    told.push(failure.message);
                }
                Err(failure) => return Err(failure.message),
                Ok(_) => {}
            }
        }
        Ok(told)
    }

    fn facts(&self, workspace: &Path) -> Result<Arc<WorkspaceFacts>, CallFailure> {
        let git = find_git(workspace).map_err(CallFailure::sandbox)?;
        let top = git.map_or_else(|| workspace.to_owned(), |git| git.top);
        let mut known = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(facts) = known.get(&top) {
            return Ok(Arc::clone(facts));
        }
        let records = self.settings.folder.join(HIDDEN);
        let hidden = HiddenFiles::find(&top, &records).map_err(CallFailure::sandbox)?;
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
        let hidden = Mutex::new(hidden);
        let facts = Arc::new(WorkspaceFacts { top: top.clone(), hidden, identity });
        known.insert(top, Arc::clone(&facts));
        Ok(facts)
    }
}

/// Lets trees and snapshots of this process leave out what the cells of a sandbox with this folder do not show.
pub fn remember_hidden_in(folder: &Path) {
    windlass_workspace::remember_hidden_in(&folder.join(HIDDEN));
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

/// Opens the folder that the kernel leaves in the work folder of an overlay: nobody may enter it, so it
/// could not be removed.
pub(crate) fn open_work_folder(work: &Path) {
    let open = std::fs::Permissions::from_mode(0o700);
    // It may not be there.
    let _ = std::fs::set_permissions(work.join("work"), open);
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
    fn a_workspace_below_tmp_keeps_tmp_from_being_shared() {
        let settings = |home: &str| SandboxSettings {
            level: Level::Full,
            bwrap: None,
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
