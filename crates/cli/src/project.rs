//! Finds a project, reads its configuration files, and builds its store and gateway.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use windlass_connect::Connectors;
use windlass_engine::KeptOutputs;
use windlass_journal::Runs;
use windlass_kernel::Code;
use windlass_kernel::artifact::{CLIENT_WORKSPACE, PROJECT_WORKSPACE};
use windlass_policy::{PolicySet, Server};
use windlass_redact::Redactor;
use windlass_runtime::{FileWorkspace, Gateway, NoConnector, PolicySupervisor, SystemClock};
use windlass_store::{Store, StoreError};
use windlass_store_sqlite::{Life, Settings as StoreSettings, SqliteStore};

use crate::config::Config;
use crate::failure::Failure;
use crate::input::{self, unreadable};
use crate::journal_copy::JournalCopy;
use crate::output::Output;
use crate::part::{CONFIGURATION_FILES, Part};
use crate::people::AccountPeople;
use crate::user_config::UserConfig;
use crate::{mcp, state, trust, user_folders};

/// The folder that marks a project.
pub const FOLDER: &str = ".windlass";
/// The journal's file in the state folder.
pub const DATABASE: &str = "windlass.db";
/// At so many pages the write-ahead log is checkpointed by an event of a session.
const EVENT_WAL_PAGES: u32 = 100;
/// How many traces an event of a session leaves for others to index.
const EVENT_UNINDEXED_MAX: usize = 16;
/// The maximum size of a configuration file.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// The maximum number of configuration files.
const FILES_MAX: usize = 10_000;

/// A journal that is verified.
pub enum Journal {
    /// The project's own.
    Own(SqliteStore),
    /// A copy of it.
    Copy(JournalCopy),
}

impl Journal {
    /// The store.
    pub const fn store(&self) -> &SqliteStore {
        match self {
            Self::Own(store) => store,
            Self::Copy(copy) => &copy.store,
        }
    }
}

/// What a command may do with a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read the journal and record nothing, so that a read-only one will do.
    Look,
    /// Read the journal, and record decisions that start nothing.
    Read,
    /// Start programs, use the network, change files: only if the user trusts the configuration.
    Act,
}

/// The location of a project.
#[derive(Clone, Debug)]
pub struct Project {
    /// The folder that agents work in.
    pub root: PathBuf,
    /// The `.windlass` folder: the configuration, and the files that show runs.
    pub folder: PathBuf,
    /// The project's folder without links, once it was found.
    real_root: OnceLock<PathBuf>,
    /// The state folder, once it was found.
    state: OnceLock<PathBuf>,
    /// The folder that is worked in, if it is not the project's.
    workspace: Option<PathBuf>,
    /// The folders of the copies of a read-only journal, which are removed with this.
    copies: Arc<Mutex<Vec<windlass_workspace::TemporaryFolder>>>,
}

impl Project {
    /// Says that the journal's write-ahead log grows because another program reads the journal, if that is so.
    pub fn held_log(&self) -> Option<String> {
        let database = self.state().ok()?.join(DATABASE);
        let bytes = windlass_store_sqlite::held_log(&database)?;
        Some(format!(
            "the journal's write-ahead log has {} MiB and grows: another program has `{}` open and reads an old state \
             of it; end that program",
            bytes >> 20,
            database.display()
        ))
    }

    /// Finds the project: the given one, the nearest in a parent folder, or the user's own.
    pub fn find(named: Option<&Path>) -> Result<Self, Failure> {
        if let Some(root) = named {
            return Self::at(root).ok_or_else(|| {
                let message = format!("there is no project in `{}`", root.display());
                Failure::new(Code::ProjectMissing, message)
            });
        }
        let here =
            std::env::current_dir().map_err(|error| Failure::of(Code::FileUnreadable, &error))?;
        Self::nearest(&here)
    }

    /// Finds the project that a folder belongs to: the nearest in it or a parent folder, or the user's own.
    pub fn nearest(here: &Path) -> Result<Self, Failure> {
        Self::around(here).or_else(Self::of_user).ok_or_else(|| {
            Failure::new(
                Code::ProjectMissing,
                "there is no project in this folder or a parent folder",
            )
        })
    }

    /// The nearest project in a folder or a parent folder, if there is one.
    pub fn around(here: &Path) -> Option<Self> {
        here.ancestors().find_map(Self::at)
    }

    /// The user's own project, if there is one.
    pub fn of_user() -> Option<Self> {
        Self::at(&user_folders::project()?)
    }

    fn at(root: &Path) -> Option<Self> {
        let folder = root.join(FOLDER);
        folder.is_dir().then(|| Self {
            root: root.to_owned(),
            folder,
            real_root: OnceLock::new(),
            state: OnceLock::new(),
            workspace: None,
            copies: Arc::default(),
        })
    }

    /// The project in whose name a client works in a folder. The user's own project serves where there is none; what
    /// is worked in is then the git repository around the folder, or the folder itself.
    pub fn of_session(named: Option<&Path>, here: &Path) -> Result<Self, Failure> {
        let mut project = match named {
            Some(_) => Self::find(named)?,
            None => Self::nearest(here)?,
        };
        if user_folders::project().is_some_and(|user| user == project.root) {
            let repository = here.ancestors().find(|folder| folder.join(".git").exists());
            project.set_workspace(repository.unwrap_or(here))?;
        }
        Ok(project)
    }

    /// Sets the folder that is worked in. One that has the states of projects in it cannot be.
    pub fn set_workspace(&mut self, workspace: &Path) -> Result<(), Failure> {
        let workspace = workspace.canonicalize().map_err(|error| unreadable(workspace, &error))?;
        let states = state::StateRoot::find()?.path().to_owned();
        if states.starts_with(&workspace) {
            let message = format!(
                "`{}` cannot be worked in: the journals and keys of Windlass are in it",
                workspace.display()
            );
            return Err(Failure::new(Code::ProjectMissing, message)
                .hint("work in a folder of its own, or create a project with `windlass init`"));
        }
        self.workspace = Some(workspace);
        Ok(())
    }

    /// The project's folder, without links.
    pub fn real_root(&self) -> Result<&Path, Failure> {
        if let Some(root) = self.real_root.get() {
            return Ok(root);
        }
        let root = self.root.canonicalize().map_err(|error| unreadable(&self.root, &error))?;
        Ok(self.real_root.get_or_init(|| root))
    }

    /// The folder that is worked in, without links.
    pub fn real_workspace(&self) -> Result<&Path, Failure> {
        self.workspace.as_deref().map_or_else(|| self.real_root(), Ok)
    }

    /// The folder that is worked in.
    pub fn workspace(&self) -> &Path {
        self.workspace.as_deref().unwrap_or(&self.root)
    }

    /// The state folder: journal, leases, keys, snapshots and work trees. Fails if the project has none, or
    /// has been moved or copied.
    pub fn state(&self) -> Result<&Path, Failure> {
        if let Some(state) = self.state.get() {
            return Ok(state);
        }
        let state = self.real_root().and_then(|root| state::open(root, &self.folder));
        // There the user's state does not exist, and every other reason would mislead.
        let state = state.map_err(|failure| match windlass_cell::inside_a_cell() {
            Some(inside) => {
                Failure::new(Code::SandboxUnavailable, inside).hint("run Windlass outside of it")
            }
            None => failure,
        })?;
        Ok(self.state.get_or_init(|| state))
    }

    /// Fails unless the user trusts these configuration files.
    pub fn require_trust(&self, files: &BTreeMap<String, Vec<u8>>) -> Result<(), Failure> {
        trust::require(self.state()?, Part::Whole, files)
    }

    /// Reads all configuration files, keyed by path in the `.windlass` folder. The policy hash covers
    /// exactly these.
    pub fn files(&self) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        self.files_of(Part::Whole)
    }

    /// Reads the configuration files of a part.
    pub fn files_of(&self, part: Part) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        let mut files = BTreeMap::new();
        for name in CONFIGURATION_FILES {
            if self.folder.join(name).exists() {
                files
                    .insert(name.to_owned(), input::read(&self.folder.join(name), FILE_BYTES_MAX)?);
            }
        }
        for folder in part.folders() {
            self.collect(&self.folder.join(folder), folder, &mut files)?;
        }
        Ok(files)
    }

    fn collect(
        &self,
        folder: &Path,
        name: &str,
        files: &mut BTreeMap<String, Vec<u8>>,
    ) -> Result<(), Failure> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(folder, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(folder, &error))?;
            let Ok(file) = entry.file_name().into_string() else {
                let message =
                    format!("a file in `{}` has a name that is not UTF-8", folder.display());
                return Err(Failure::new(Code::PolicyInvalid, message));
            };
            let (path, name) = (entry.path(), format!("{name}/{file}"));
            let kind = entry.file_type().map_err(|error| unreadable(&path, &error))?;
            if kind.is_file() {
                files.insert(name, input::read_listed(&path, FILE_BYTES_MAX)?);
            } else if path.is_dir() {
                self.collect(&path, &name, files)?;
            } else {
                files.insert(name, input::read(&path, FILE_BYTES_MAX)?);
            }
            if files.len() > FILES_MAX {
                let message = format!("the project has more than {FILES_MAX} configuration files");
                return Err(Failure::new(Code::PolicyInvalid, message));
            }
        }
        Ok(())
    }

    /// Reads only the settings, for commands that need nothing but the journal.
    pub fn settings(&self) -> Result<Config, Failure> {
        let path = self.folder.join("config.toml");
        if path.exists() {
            Config::from_bytes(&input::read(&path, FILE_BYTES_MAX)?)
        } else {
            Ok(Config::default())
        }
    }

    /// Parses the settings among the configuration files.
    pub fn config(files: &BTreeMap<String, Vec<u8>>) -> Result<Config, Failure> {
        files
            .get("config.toml")
            .map_or_else(|| Ok(Config::default()), |bytes| Config::from_bytes(bytes))
    }

    /// Opens the journal for one event of a session. A process that lives so shortly reads the whole write-ahead log to
    /// open the journal, and all that is not indexed to write to it, so both are kept short.
    pub fn store_for_event(&self, config: &Config) -> Result<SqliteStore, Failure> {
        self.store_with(StoreSettings {
            wal_pages: EVENT_WAL_PAGES,
            unindexed_max: EVENT_UNINDEXED_MAX,
            life: Life::Moment,
            ..config.store()
        })
    }

    /// Opens the journal that `init` created.
    pub fn store(&self, config: &Config) -> Result<SqliteStore, Failure> {
        self.store_with(config.store())
    }

    fn store_with(&self, settings: StoreSettings) -> Result<SqliteStore, Failure> {
        let path = self.state()?.join(DATABASE);
        if !path.exists() {
            let message = format!("the journal `{}` is missing", path.display());
            return Err(Failure::new(Code::StoreUnavailable, message).hint(
                "restore it from a backup: it records which effects have happened; `windlass init --new` \
                 starts with an empty one",
            ));
        }
        let witness = state::StateRoot::find()?.witness_of(self.state()?)?;
        SqliteStore::open_witnessed(&path, settings, &witness).map_err(|error| {
            if !matches!(error, StoreError::ReadOnly { .. }) {
                return error.into();
            }
            let folder = path.parent().unwrap_or(&path);
            let message = format!("the journal in `{}` is read-only", folder.display());
            Failure::new(error.code(), message)
        })
    }

    /// Opens the journal to verify it; of one that is read-only, a copy.
    pub fn store_to_verify(&self, config: &Config, output: &Output) -> Result<Journal, Failure> {
        match self.store(config) {
            Ok(store) => Ok(Journal::Own(store)),
            Err(failure) if failure.code() == Code::StoreReadOnly => {
                let journal = self.state()?.join(DATABASE);
                let copy = JournalCopy::new(&journal, config.store())?;
                output.note("the journal is read-only, so a copy of it is verified");
                Ok(Journal::Copy(copy))
            }
            Err(failure) => Err(failure),
        }
    }

    /// The runs in the journal; works even if policy or loop files are invalid.
    pub fn runs(&self) -> Result<Runs, Failure> {
        Ok(Runs::new(Arc::new(self.store_to_read(&self.settings()?)?)))
    }

    /// Opens the journal for a command that writes nothing to it; of one that is read-only, a copy.
    pub fn store_to_read(&self, config: &Config) -> Result<SqliteStore, Failure> {
        match self.store(config) {
            Err(failure) if failure.code() == Code::StoreReadOnly => {
                let journal = self.state()?.join(DATABASE);
                let JournalCopy { store, folder } = JournalCopy::new(&journal, config.store())?;
                let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
                copies.push(folder);
                Ok(store)
            }
            opened => opened,
        }
    }

    /// Opens the journal for what a command may do with it.
    pub fn store_for(&self, config: &Config, access: Access) -> Result<SqliteStore, Failure> {
        match access {
            Access::Look => self.store_to_read(config),
            Access::Read | Access::Act => self.store(config),
        }
    }

    /// The folder of stop requests.
    pub fn stop_folder(&self) -> Result<PathBuf, Failure> {
        Ok(self.state()?.join("stop"))
    }

    /// The policy of the files of a part, as it was kept if it was loaded before.
    pub fn policy(
        &self,
        part: Part,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<PolicySet, Failure> {
        match self.state() {
            Ok(state) => crate::kept_policy::load(state, part, files),
            Err(_) => Ok(PolicySet::load(files)?),
        }
    }

    /// Loads the policy of a part and builds its supervisor, which knows the wrapped servers, too.
    pub fn supervisor(
        &self,
        part: Part,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<PolicySupervisor, Failure> {
        let user = UserConfig::load()?;
        self.supervisor_with(part, files, &user, self.wrapped(&user), BTreeMap::new())
    }

    /// The wrapped servers as the user accepted them; none if the project has no state.
    pub fn wrapped(&self, user: &UserConfig) -> Vec<Server> {
        self.state().map(|state| mcp::servers(state, user)).unwrap_or_default()
    }

    /// Builds a supervisor that knows these wrapped servers, and these variables besides those of the environment.
    pub fn supervisor_with(
        &self,
        part: Part,
        files: &BTreeMap<String, Vec<u8>>,
        user: &UserConfig,
        wrapped: Vec<Server>,
        variables: BTreeMap<String, String>,
    ) -> Result<PolicySupervisor, Failure> {
        let set = self.policy(part, files)?.with_wrapped(wrapped);
        let workspace =
            FileWorkspace::new(self.workspace()).map_err(|error| unreadable(&self.root, &error))?;
        let workspace = workspace.with_views(&self.views(&Self::config(files)?));
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let environment = environment.chain(variables);
        let supervisor =
            PolicySupervisor::new(set, workspace, environment).with_secrets(user.named_secrets());
        crate::secrets::hide(&supervisor.redactor());
        Ok(supervisor)
    }

    /// Builds the gateway.
    pub fn gateway(&self, access: Access) -> Result<Gateway, Failure> {
        let files = self.files()?;
        let supervisor = self.supervisor(Part::Whole, &files)?;
        self.gateway_with(&files, supervisor, access)
    }

    /// Builds the gateway with a loaded policy.
    pub fn gateway_with(
        &self,
        files: &BTreeMap<String, Vec<u8>>,
        supervisor: PolicySupervisor,
        access: Access,
    ) -> Result<Gateway, Failure> {
        let config = Self::config(files)?;
        if access == Access::Act {
            self.require_trust(files)?;
        }
        let user = UserConfig::load()?;
        user.apply()?;
        let connectors = Arc::new(user.connectors(self)?);
        let store = self.store_for(&config, access)?;
        self.gateway_over(store, &config, supervisor, connectors)
    }

    /// Builds the gateway of calls that coding agents make themselves. It starts nothing.
    pub fn client_gateway(
        &self,
        part: Part,
        files: &BTreeMap<String, Vec<u8>>,
        config: &Config,
        supervisor: Arc<PolicySupervisor>,
        store: Arc<dyn Store>,
    ) -> Result<Gateway, Failure> {
        trust::require(self.state()?, part, files)?;
        Ok(Gateway::new(
            store,
            supervisor,
            Arc::new(NoConnector),
            Arc::new(SystemClock),
            config.gateway(),
            CLIENT_WORKSPACE,
        )
        .with_people(Arc::new(AccountPeople::open()?)))
    }

    /// Builds the gateway over connectors. The caller has checked the trust.
    pub fn gateway_of(
        &self,
        config: &Config,
        supervisor: PolicySupervisor,
        connectors: Arc<Connectors>,
    ) -> Result<Gateway, Failure> {
        self.gateway_over(self.store(config)?, config, supervisor, connectors)
    }

    /// The outputs of commands that are too long to be recorded.
    pub fn kept_outputs(&self, redactor: Arc<Redactor>) -> Result<KeptOutputs, Failure> {
        Ok(KeptOutputs::new(self.state()?.join("outputs"), redactor))
    }

    fn gateway_over(
        &self,
        store: SqliteStore,
        config: &Config,
        supervisor: PolicySupervisor,
        connectors: Arc<Connectors>,
    ) -> Result<Gateway, Failure> {
        connectors.keep_outputs(Arc::new(self.kept_outputs(supervisor.redactor())?));
        Ok(Gateway::new(
            Arc::new(store),
            Arc::new(supervisor),
            connectors,
            Arc::new(SystemClock),
            config.gateway(),
            PROJECT_WORKSPACE,
        )
        .with_people(Arc::new(AccountPeople::open()?)))
    }
}
