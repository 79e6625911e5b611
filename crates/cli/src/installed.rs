//! Records of the hooks that were installed into clients: what their files were before, and what was written.
//!
//! A record is written before the client's file, so that after a crash in between there is one too many, never one
//! too few. It lies in the state folder, which agents cannot reach.

mod check;

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use windlass_hooks::{
    Binary, Client, Content, InstallError, Scope, Trust, folder_trust_file, plan, trust_file,
};
use windlass_kernel::Code;

pub use check::{all, disabled_elsewhere, problem_of, problems, switched_off};

use crate::atomic;
use crate::failure::Failure;
use crate::input;
use crate::state::{StateRoot, cannot_write};

/// The folder of records in a state folder.
const FOLDER: &str = "installed";
/// The lock of changes to records and to the files of clients.
const LOCK: &str = ".lock";
/// The lock of changes to files of clients that are for all projects, in the folder of all states.
const CLIENTS_LOCK: &str = ".clients.lock";
/// The maximum size of a record: each file twice, with what JSON adds.
const RECORD_BYTES_MAX: u64 = 16 << 20;

/// Hooks that were installed into a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Installation {
    /// The client.
    pub client: Client,
    /// For whom.
    pub scope: Scope,
    /// The program that the hooks start.
    pub binary: String,
    /// The files that have hooks, or trust in them.
    pub files: Vec<InstalledFile>,
    /// The folders that were made for them, outermost first.
    pub folders: Vec<PathBuf>,
}

/// A file of a client that has something of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstalledFile {
    /// Where the client looks for it.
    pub path: PathBuf,
    /// What was in it before; nothing if there was no such file.
    pub before: Option<String>,
    /// What was written.
    pub installed: String,
    /// What it trusts, if it is Codex's or Gemini CLI's file of trust.
    pub trust: Option<Trust>,
    /// Whether the whole of it is ours: an agent of the core loop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
}

impl Installation {
    /// What our part of a file is.
    pub fn content(&self, file: &InstalledFile) -> Result<Content, InstallError> {
        let hooks = || {
            let binary = Binary::new(&self.binary)?;
            let files = plan(self.client, self.scope, &binary);
            files.into_iter().next().map(|file| file.content).ok_or(InstallError::Unsound)
        };
        if file.whole {
            return Ok(Content::Whole(file.installed.clone()));
        }
        match (&file.trust, self.client) {
            (Some(trust), Client::Gemini) => {
                Ok(folder_trust_file(trust.project.as_deref().unwrap_or_default()).content)
            }
            (Some(trust), Client::Claude | Client::Codex | Client::OpenCode) => {
                Ok(trust_file(trust.clone()).content)
            }
            (None, _) => hooks(),
        }
    }

    /// The file that has the hooks.
    pub fn hooks(&self) -> Option<&InstalledFile> {
        self.files.iter().find(|file| file.trust.is_none() && !file.whole)
    }

    /// Where a file or folder beside the hooks is, if these are in the file `hooks` now: a project may have been moved.
    pub fn moved(&self, path: &Path, hooks: &Path) -> PathBuf {
        // The user's files move with the user's home alone, or with a variable, which is another place.
        let before = self.hooks().filter(|_| self.scope == Scope::Project);
        let before = before.and_then(|before| before.path.parent());
        let below = before.and_then(|before| path.strip_prefix(before).ok());
        match (below, hooks.parent()) {
            (Some(below), Some(folder)) if below.as_os_str().is_empty() => folder.to_owned(),
            (Some(below), Some(folder)) => folder.join(below),
            (_, _) => path.to_owned(),
        }
    }

    /// The file at a path of which the whole is ours, if the hooks are in the file `hooks` now.
    pub fn whole(&self, path: &Path, hooks: &Path) -> Option<&InstalledFile> {
        self.files.iter().find(|file| file.whole && self.moved(&file.path, hooks) == path)
    }

    /// The file in which the client is told to trust them.
    pub fn trust(&self) -> Option<&InstalledFile> {
        self.files.iter().find(|file| file.trust.is_some())
    }
}

/// Whether a client starts the same hook twice if the project's settings and the user's have it.
pub const fn asks_twice(client: Client) -> bool {
    match client {
        Client::Codex | Client::OpenCode => true,
        Client::Claude | Client::Gemini => false,
    }
}

fn path(state: &Path, client: Client, scope: Scope) -> PathBuf {
    state.join(FOLDER).join(format!("{}-{}.json", client.as_str(), scope.as_str()))
}

/// Makes sure that no other process installs anything of this state folder's project meanwhile.
pub fn lock(state: &Path) -> Result<File, Failure> {
    let folder = state.join(FOLDER);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| cannot_write(&folder, &error))?;
    let path = folder.join(LOCK);
    let opened = File::options().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(|error| cannot_write(&path, &error))?;
    file.lock().map_err(|error| cannot_write(&path, &error))?;
    Ok(file)
}

/// Makes sure that no other process of the user installs anything meanwhile: some files of clients are for all projects.
pub fn lock_clients() -> Result<File, Failure> {
    let states = StateRoot::find()?;
    drop(states.lock()?);
    let path = states.path().join(CLIENTS_LOCK);
    let opened = File::options().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(|error| cannot_write(&path, &error))?;
    file.lock().map_err(|error| cannot_write(&path, &error))?;
    Ok(file)
}

/// Reads the record of an installation, if there is one.
pub fn read(state: &Path, client: Client, scope: Scope) -> Result<Option<Installation>, Failure> {
    let path = path(state, client, scope);
    if !path.exists() {
        return Ok(None);
    }
    let bytes = input::read(&path, RECORD_BYTES_MAX)?;
    let record: Installation = serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("`{}` is damaged: {error}", path.display());
        Failure::new(Code::StateDamaged, message)
            .hint(format!("remove it; `windlass install {}` writes a new one", client.as_str()))
    })?;
    Ok(Some(record))
}

/// The programs that the hooks of a client start, as far as a state folder knows.
pub fn programs(state: &Path, client: Client) -> Vec<String> {
    let records = [Scope::Project, Scope::User].map(|scope| read(state, client, scope));
    records.into_iter().filter_map(|record| Some(record.ok()??.binary)).collect()
}

/// When the hooks of a client were installed, as far as a state folder knows.
pub fn since(state: &Path, client: Client) -> Option<SystemTime> {
    let records = [Scope::Project, Scope::User].map(|scope| path(state, client, scope));
    let written = records.iter().filter_map(|path| path.metadata().ok()?.modified().ok());
    written.min()
}

/// Writes the record of an installation.
pub fn write(state: &Path, record: &Installation) -> Result<(), Failure> {
    let path = path(state, record.client, record.scope);
    let bytes =
        serde_json::to_vec(record).map_err(|error| Failure::of(Code::FileUnwritable, &error))?;
    atomic::write(&path, &bytes).map_err(|error| cannot_write(&path, &error))
}

/// Removes the record of an installation.
pub fn remove(state: &Path, client: Client, scope: Scope) -> Result<(), Failure> {
    let path = path(state, client, scope);
    match std::fs::remove_file(&path).and_then(|()| atomic::sync_parent(&path)) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => {
            let message = format!("`{}` cannot be removed: {error}", path.display());
            Err(Failure::new(Code::FileUnwritable, message))
        }
    }
}
