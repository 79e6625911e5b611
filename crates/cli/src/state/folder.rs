//! The folder of all states, and the state folder of one project.

use std::fs::{DirBuilder, File, Metadata, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use windlass_kernel::Code;
use windlass_store::{Store as _, TraceFilter};
use windlass_store_sqlite::SqliteStore;

use crate::atomic;
use crate::config::plain_name;
use crate::failure::Failure;
use crate::input::{self, unreadable};
use crate::project::DATABASE;
use crate::state::{ProjectId, ProjectRecord, cannot_write};
use crate::user_folders;

/// The environment variable that names the folder of all states.
const VARIABLE: &str = "WINDLASS_STATE";
/// The record of a state folder's project.
const RECORD: &str = "project.json";
/// The maximum size of that record.
const RECORD_BYTES_MAX: u64 = 64 << 10;
/// The folder of what witnesses how far journals got, apart from their state folders.
const WITNESSES: &str = ".heads";
/// The name prefix of a state folder under construction or removal.
const DRAFT: &str = ".draft-";
/// The lock of changes to the set of state folders.
const LOCK: &str = ".lock";

/// The folder of all states.
#[derive(Clone, Debug)]
pub struct StateRoot(PathBuf);

/// Held while state folders are created, bound and removed.
#[derive(Debug)]
pub struct StateLock(File);

impl Drop for StateLock {
    fn drop(&mut self) {
        // The lock ends with the file in any case.
        drop(self.0.unlock());
    }
}

/// The state folder of one project.
#[derive(Debug)]
pub struct StateFolder {
    /// Its path.
    pub path: PathBuf,
}

impl StateRoot {
    /// Finds the folder: `$WINDLASS_STATE`, or `windlass` in the user's folder for state.
    pub fn find() -> Result<Self, Failure> {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        if let Some(named) = named.map(PathBuf::from) {
            if named.is_absolute() {
                return Ok(Self(named));
            }
            let message = format!("{VARIABLE} is `{}`, which is relative", named.display());
            return Err(Failure::new(Code::ConfigInvalid, message)
                .hint(format!("set {VARIABLE} to an absolute path, or unset it")));
        }
        let folder = user_folders::state().ok_or_else(|| {
            let message = format!("none of {VARIABLE}, XDG_STATE_HOME and HOME names a folder");
            Failure::new(Code::StateMissing, message)
                .hint(format!("set HOME, or set {VARIABLE} to an absolute path"))
        })?;
        Ok(Self(folder.join("windlass")))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Fails if the folder lies in a project, whose path is without links: its commands could change it.
    pub fn require_outside(&self, root: &Path) -> Result<(), Failure> {
        // The part of the path that exists, without links.
        let real = self.0.ancestors().find_map(|part| part.canonicalize().ok());
        if !self.0.starts_with(root) && !real.is_some_and(|real| real.starts_with(root)) {
            return Ok(());
        }
        let message = format!("the state folder `{}` lies inside of the project", self.0.display());
        Err(Failure::new(Code::StateUnsafe, message)
            .hint(format!("set {VARIABLE} to a folder outside of it")))
    }

    /// Creates the folder if it is missing, and locks the set of state folders.
    pub fn lock(&self) -> Result<StateLock, Failure> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&self.0);
        made.map_err(|error| cannot_write(&self.0, &error))?;
        self.check()?;
        let path = self.0.join(LOCK);
        let opened = File::options().create(true).truncate(false).write(true).open(&path);
        let file = opened.map_err(|error| cannot_write(&path, &error))?;
        file.lock().map_err(|error| cannot_write(&path, &error))?;
        Ok(StateLock(file))
    }

    /// Fails if others could change the folder; one that is missing is fine.
    fn check(&self) -> Result<bool, Failure> {
        match std::fs::metadata(&self.0) {
            Ok(found) => require_private(&self.0, &found).map(|()| true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(unreadable(&self.0, &error)),
        }
    }

    /// All state folders, by name.
    pub fn folders(&self) -> Result<Vec<StateFolder>, Failure> {
        if !self.check()? {
            return Ok(Vec::new());
        }
        let entries = std::fs::read_dir(&self.0).map_err(|error| unreadable(&self.0, &error))?;
        let mut folders = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&self.0, &error))?;
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !hidden && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(StateFolder { path: entry.path() });
            }
        }
        folders.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(folders)
    }

    /// The state folder of a project, and its record.
    pub fn folder_of(
        &self,
        id: &ProjectId,
    ) -> Result<Option<(StateFolder, ProjectRecord)>, Failure> {
        let end = format!("-{}", id.short());
        let mut matching = None;
        for folder in self.folders()? {
            if !folder.name().ends_with(&end) {
                continue;
            }
            let record = folder.record()?;
            if record.id != *id {
                continue;
            }
            if matching.is_some() {
                let message = format!("`{}` has two states of the project {id}", self.0.display());
                return Err(Failure::new(Code::StateDamaged, message)
                    .hint("move the one that is a copy to another folder"));
            }
            matching = Some((folder, record));
        }
        if let Some((folder, _)) = &matching {
            folder.check()?;
        }
        Ok(matching)
    }

    /// The file that says how far the journal in a state folder got, whatever happens to the state folder.
    pub fn witness_of(&self, state: &Path) -> Result<PathBuf, Failure> {
        let path = self.witness(&state.file_name().unwrap_or_default().to_string_lossy());
        let folder = path.parent().unwrap_or(&self.0);
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if !folder.is_dir() => Err(cannot_write(folder, &error)),
            Ok(()) | Err(_) => Ok(path),
        }
    }

    fn witness(&self, name: &str) -> PathBuf {
        self.0.join(WITNESSES).join(format!("{name}.head"))
    }

    /// Creates the state folder of a project: under a temporary name, then renamed.
    pub fn create(
        &self,
        _: &StateLock,
        record: &ProjectRecord,
        fill: impl FnOnce(&Path) -> Result<(), Failure>,
    ) -> Result<StateFolder, Failure> {
        self.remove_drafts();
        let folder_name = Path::new(&record.path).file_name().unwrap_or_default();
        let name = format!("{}-{}", plain_name(&folder_name.to_string_lossy()), record.id.short());
        let (draft, path) = (self.0.join(format!("{DRAFT}{name}")), self.0.join(&name));
        // That of an earlier journal says nothing of a new one.
        drop(std::fs::remove_file(self.witness(&name)));
        let made = DirBuilder::new().mode(0o700).create(&draft);
        let made = made.map_err(|error| cannot_write(&draft, &error)).and_then(|()| {
            StateFolder { path: draft.clone() }.write_record(record)?;
            fill(&draft)?;
            atomic::sync_parent(&draft.join(RECORD))
                .and_then(|()| std::fs::rename(&draft, &path))
                .and_then(|()| atomic::sync_parent(&path))
                .map_err(|error| cannot_write(&path, &error))
        });
        if made.is_err() {
            // The original failure is reported.
            drop(std::fs::remove_dir_all(&draft));
        }
        made.map(|()| StateFolder { path })
    }

    /// Removes a state folder; what a crash leaves of it is removed with the next change. Nobody finds it any more when
    /// `before` gets it, and nobody uses it.
    pub fn remove(
        &self,
        _: &StateLock,
        folder: &StateFolder,
        before: impl FnOnce(&StateFolder),
    ) -> Result<(), Failure> {
        self.remove_drafts();
        let fail = |error: std::io::Error| {
            let message = format!("`{}` cannot be removed: {error}", folder.path.display());
            Failure::new(Code::FileUnwritable, message)
        };
        let draft = StateFolder { path: self.0.join(format!("{DRAFT}{}", folder.name())) };
        std::fs::rename(&folder.path, &draft.path).map_err(fail)?;
        // Somebody may have begun to use it meanwhile; from now on nobody can.
        if draft.is_in_use() {
            std::fs::rename(&draft.path, &folder.path).map_err(fail)?;
            return Err(folder.is_used());
        }
        before(&draft);
        drop(std::fs::remove_file(self.witness(&folder.name())));
        std::fs::remove_dir_all(&draft.path).map_err(fail)
    }

    /// Removes what processes that died left behind; the lock is held, so none is at work.
    fn remove_drafts(&self) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(DRAFT.as_bytes()) {
                // A draft that cannot be removed does no harm.
                drop(std::fs::remove_dir_all(entry.path()));
            }
        }
    }
}

impl StateFolder {
    /// Its name.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Reads the record of its project.
    pub fn record(&self) -> Result<ProjectRecord, Failure> {
        let path = self.path.join(RECORD);
        let damaged = |why: String| {
            let message = format!("`{}` is damaged: {why}", path.display());
            Failure::new(Code::StateDamaged, message)
        };
        if !path.exists() {
            return Err(damaged("it is missing".to_owned()));
        }
        let bytes = input::read(&path, RECORD_BYTES_MAX)?;
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))
    }

    /// Writes the record of its project.
    pub fn write_record(&self, record: &ProjectRecord) -> Result<(), Failure> {
        let path = self.path.join(RECORD);
        let text = serde_json::to_vec_pretty(record)
            .map_err(|error| Failure::of(Code::Internal, &error))?;
        atomic::write(&path, &text).map_err(|error| cannot_write(&path, &error))
    }

    /// Fails if others could change the folder.
    fn check(&self) -> Result<(), Failure> {
        let found = std::fs::symlink_metadata(&self.path);
        let found = found.map_err(|error| unreadable(&self.path, &error))?;
        require_private(&self.path, &found)
    }

    /// Whether it has nothing but what `init` creates, and its journal no entries.
    pub fn is_unused(&self) -> Result<bool, Failure> {
        let path = self.path.join(DATABASE);
        let entries =
            std::fs::read_dir(&self.path).map_err(|error| unreadable(&self.path, &error))?;
        let fresh = entries.flatten().all(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with(DATABASE) || name.ends_with(".json")
        });
        if !fresh || !path.exists() {
            return Ok(false);
        }
        let store = SqliteStore::open(&path, windlass_store_sqlite::Settings::default())?;
        let any = TraceFilter::all(1);
        Ok(store.list_traces(&any)?.is_empty())
    }

    /// Fails if a live process uses it.
    pub fn require_unused(&self) -> Result<(), Failure> {
        if self.is_in_use() { Err(self.is_used()) } else { Ok(()) }
    }

    fn is_used(&self) -> Failure {
        let message = format!("a live process uses `{}`", self.path.display());
        Failure::new(Code::StateLockAcquireFailed, message)
    }

    /// Whether a live process uses it: one holds a lock in it.
    fn is_in_use(&self) -> bool {
        let folders = [self.path.join(format!("{DATABASE}.locks")), self.path.join("locks")];
        folders.iter().any(|folder| {
            let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            files
                .filter_map(|file| File::open(file.path()).ok())
                .any(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
        })
    }
}

/// Fails unless a folder belongs to the user and only the user can write to it.
fn require_private(path: &Path, found: &Metadata) -> Result<(), Failure> {
    let fail = |what: &str| {
        let message = format!("the state folder `{}` {what}", path.display());
        Failure::new(Code::StateUnsafe, message)
    };
    if !found.is_dir() {
        return Err(fail("is not a folder").hint("move it away, or set WINDLASS_STATE"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(fail("belongs to another user")
            .hint("set WINDLASS_STATE to a folder of your own, or run as its owner"));
    }
    if found.mode() & 0o022 != 0 {
        let hint = format!("close it to others: `chmod 700 {}`", path.display());
        return Err(fail("can be changed by other users").hint(hint));
    }
    Ok(())
}
