//! Temporary folders of which nothing stays for ever: what a process that was killed has left is swept by a later one.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

/// The beginnings of the names of temporary folders that are swept.
const PREFIXES: [&str; 4] =
    ["windlass-index-", "windlass-check-", "windlass-journal-", "windlass-doctor-"];
/// A folder is locked right after it was created; one that is younger is not swept.
const YOUNG: Duration = Duration::from_secs(60);

/// What a temporary folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporaryUse {
    /// An index of git.
    Index,
    /// The check of a client.
    Check,
    /// A copy of a journal.
    Journal,
    /// What `doctor` tries.
    Doctor,
}

impl TemporaryUse {
    fn prefix(self) -> &'static str {
        let [index, check, journal, doctor] = PREFIXES;
        match self {
            Self::Index => index,
            Self::Check => check,
            Self::Journal => journal,
            Self::Doctor => doctor,
        }
    }
}

/// A folder that is removed when it is dropped. It is locked as long as it is in use; a process that is killed leaves it
/// without its lock.
#[derive(Debug)]
pub struct TemporaryFolder {
    // Removed before the lock is given back.
    folder: TempDir,
    _lock: File,
}

impl TemporaryFolder {
    /// Creates a folder below the one for temporary files.
    ///
    /// # Errors
    /// The system's error, with the path.
    pub fn new(purpose: TemporaryUse) -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir(), purpose.prefix())
    }

    /// Creates a folder below another one, with a name that begins so.
    ///
    /// # Errors
    /// The system's error, with the path.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        let folder = TempDir::with_prefix_in(prefix, parent)?;
        let lock = File::open(folder.path())?;
        lock.lock()?;
        Ok(Self { folder, _lock: lock })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the temporary folders that killed processes of this user left. What cannot be removed stays.
pub fn sweep_temporary_folders() {
    PREFIXES.iter().for_each(|prefix| sweep_folders(&std::env::temp_dir(), prefix));
}

/// Removes the folders with such a name that killed processes of this user left below another one.
pub fn sweep_folders(parent: &Path, prefix: &str) {
    let uid = rustix::process::getuid().as_raw();
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes())
            && entry
                .metadata()
                .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid && is_old(&meta));
        if is_ours {
            // The next sweep tries again.
            drop(remove_abandoned(&entry.path()));
        }
    }
}

fn is_old(meta: &Metadata) -> bool {
    meta.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age > YOUNG)
}

fn remove_abandoned(folder: &Path) -> io::Result<()> {
    let lock = File::open(folder)?;
    match lock.try_lock() {
        Ok(()) => std::fs::remove_dir_all(folder),
        // A live process has it.
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_dead_processes_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let age = |folder: &Path| {
            let old = std::time::SystemTime::now() - YOUNG * 2;
            File::open(folder).unwrap().set_modified(old).unwrap();
        };
        let new = |name: &str| TempDir::with_prefix_in(name, parent.path()).unwrap();
        for purpose in
            [TemporaryUse::Index, TemporaryUse::Check, TemporaryUse::Journal, TemporaryUse::Doctor]
        {
            let prefix = purpose.prefix();
            let live = TemporaryFolder::new_in(parent.path(), prefix).unwrap();
            let (young, dead) = (new(prefix), new(prefix));
            // A demo stays, for its user.
            let other = new("windlass-demo-");
            std::fs::write(dead.path().join("index"), "x").unwrap();
            [dead.path(), live.path(), other.path()].into_iter().for_each(age);
            let link = parent.path().join(format!("{prefix}link"));
            std::os::unix::fs::symlink(other.path(), &link).unwrap();
            sweep_folders(parent.path(), prefix);
            assert!(!dead.path().exists());
            assert!(live.path().exists() && young.path().exists() && other.path().exists());
            assert!(link.exists());
        }
    }
}
