//! Finding a project, reading what decides in it, and putting a gateway together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_journal::Runs;
use windlass_kernel::Code;
use windlass_policy::PolicySet;
use windlass_runtime::{FileWorkspace, Gateway, PolicySupervisor, SystemClock};
use windlass_store::Store;
use windlass_store_sqlite::SqliteStore;
use windlass_views::Files;

use crate::config::Config;
use crate::failure::Failure;

/// The folder that makes a folder a project.
pub const FOLDER: &str = ".windlass";
/// The journal's file in it.
pub const DATABASE: &str = "windlass.db";
/// The largest file that decides.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// The most files that decide.
const FILES_MAX: usize = 10_000;

/// A project: where it is and what decides in it.
#[derive(Debug)]
pub struct Project {
    /// The folder that agents work in.
    pub root: PathBuf,
    /// The folder with what decides and what was recorded.
    pub folder: PathBuf,
}

impl Project {
    /// Finds the project: the one named, the nearest upwards, or the user's own.
    pub fn find(named: Option<&Path>) -> Result<Self, Failure> {
        if let Some(root) = named {
            return Self::at(root).ok_or_else(|| {
                let message = format!("there is no project in `{}`", root.display());
                Failure::new(Code::ProjectMissing, message)
            });
        }
        let here =
            std::env::current_dir().map_err(|error| Failure::of(Code::FileUnreadable, &error))?;
        let mut folder = Some(here.as_path());
        while let Some(root) = folder {
            if let Some(project) = Self::at(root) {
                return Ok(project);
            }
            folder = root.parent();
        }
        user_root().and_then(|root| Self::at(&root)).ok_or_else(|| {
            Failure::new(Code::ProjectMissing, "there is no project here or in a folder above")
        })
    }

    fn at(root: &Path) -> Option<Self> {
        let folder = root.join(FOLDER);
        folder.is_dir().then(|| Self { root: root.to_owned(), folder })
    }

    /// Reads every file that decides, by its path in the project's folder.
    pub fn files(&self) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        let mut files = BTreeMap::new();
        for name in ["config.toml", "tools.toml"] {
            if self.folder.join(name).exists() {
                files.insert(name.to_owned(), read_file(&self.folder.join(name))?);
            }
        }
        for folder in ["policy", "loops", "agents"] {
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
            if path.is_dir() {
                self.collect(&path, &name, files)?;
            } else {
                files.insert(name, read_file(&path)?);
            }
            if files.len() > FILES_MAX {
                let message = format!("the project has more than {FILES_MAX} files that decide");
                return Err(Failure::new(Code::PolicyInvalid, message));
            }
        }
        Ok(())
    }

    /// Reads the settings alone, for what asks nothing but the journal.
    pub fn settings(&self) -> Result<Config, Failure> {
        let path = self.folder.join("config.toml");
        if path.exists() { parse_config(&read_file(&path)?) } else { Ok(Config::default()) }
    }

    /// Reads the settings out of the files that decide.
    pub fn config(files: &BTreeMap<String, Vec<u8>>) -> Result<Config, Failure> {
        files.get("config.toml").map_or_else(|| Ok(Config::default()), |bytes| parse_config(bytes))
    }

    /// Opens the journal, which `init` has made.
    pub fn store(&self, config: &Config) -> Result<SqliteStore, Failure> {
        let path = self.folder.join(DATABASE);
        if !path.exists() {
            let message = format!("the journal `{}` is gone", path.display());
            return Err(Failure::new(Code::StoreUnavailable, message).hint(
                "if this is a fresh clone, or to begin with an empty one, run `windlass init`; \
                 otherwise restore it from a backup, since it knows what has been done",
            ));
        }
        Ok(SqliteStore::open(&path, config.store())?)
    }

    /// Runs as the journal has them: what decides need not even be readable.
    pub fn runs(&self) -> Result<Runs, Failure> {
        Ok(Runs::new(Arc::new(self.store(&self.settings()?)?)))
    }

    /// Where the files that show runs lie.
    pub fn artifacts(&self, config: &Config) -> PathBuf {
        match &config.artifacts_root {
            Some(root) => self.root.join(root),
            None => self.folder.join("artifacts"),
        }
    }

    /// Writes the files that show runs and their checkpoints.
    pub fn shown(&self, store: &Arc<dyn Store>, config: &Config) -> Files {
        let files = Files::new(Arc::clone(store), self.artifacts(config));
        files.with_checkpoints(self.folder.join("checkpoints"))
    }

    /// Where requests to stop lie.
    pub fn stop_folder(&self) -> PathBuf {
        self.folder.join("stop")
    }

    /// Reads the policy.
    pub fn supervisor(
        &self,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<PolicySupervisor, Failure> {
        let set = PolicySet::load(files)?;
        let workspace =
            FileWorkspace::new(&self.root).map_err(|error| unreadable(&self.root, &error))?;
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        // As the kernel will see it: a rule names a file, not a path.
        let confinement = Self::config(files)?.sandbox.confinement(workspace.root());
        let supervisor = PolicySupervisor::new(set, workspace, environment);
        Ok(match confinement {
            Some(confinement) => supervisor.with_sandbox(confinement),
            None => supervisor,
        })
    }

    /// Puts the gateway together.
    pub fn gateway(&self) -> Result<Gateway, Failure> {
        let files = self.files()?;
        let supervisor = self.supervisor(&files)?;
        self.gateway_with(&files, supervisor)
    }

    /// Puts the gateway together around a policy that has been read.
    pub fn gateway_with(
        &self,
        files: &BTreeMap<String, Vec<u8>>,
        supervisor: PolicySupervisor,
    ) -> Result<Gateway, Failure> {
        let config = Self::config(files)?;
        let store = self.store(&config)?;
        Ok(Gateway::new(
            Arc::new(store),
            Arc::new(supervisor),
            Arc::new(config.sandbox.connectors()?),
            Arc::new(SystemClock),
            config.gateway(),
        ))
    }
}

/// The folder of the user's own project.
pub fn user_root() -> Option<PathBuf> {
    let data = std::env::var_os("XDG_DATA_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share")))?;
    Some(data.join("windlass"))
}

/// Reads a file that decides, within its limit.
fn parse_config(bytes: &[u8]) -> Result<Config, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Failure::new(Code::ConfigInvalid, format!("config.toml is not UTF-8: {error}"))
    })?;
    Config::parse(text)
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?.len();
    if bytes > FILE_BYTES_MAX {
        let message = format!(
            "`{}` is {bytes} bytes long, more than the {FILE_BYTES_MAX} allowed",
            path.display()
        );
        return Err(Failure::new(Code::DocSizeExceeded, message));
    }
    std::fs::read(path).map_err(|error| unreadable(path, &error))
}

/// Reads a file that a person names, within a limit.
pub fn read_limited(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let bytes = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?.len();
    if bytes > bytes_max {
        let message = format!("`{}` is larger than {bytes_max} bytes", path.display());
        return Err(Failure::new(Code::DocSizeExceeded, message));
    }
    std::fs::read(path).map_err(|error| unreadable(path, &error))
}

/// The failure for a file that cannot be read.
pub fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Code::FileUnreadable, format!("`{}` cannot be read: {error}", path.display()))
}
