//! Folders for an index of our own, outside of the repository.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::error::{GitCause, GitError};

const PREFIX: &str = "windlass-index-";
/// A folder is locked right after it was created; one that is younger is not swept.
const YOUNG: Duration = Duration::from_secs(60);

/// A temporary folder with an index; it is removed when it is dropped. A process that is killed leaves it
/// without its lock.
pub(super) struct IndexFolder {
    folder: TempDir,
    _lock: File,
}

impl IndexFolder {
    pub(super) fn new(operation: &'static str) -> Result<Self, GitError> {
        let create = || {
            let folder = TempDir::with_prefix(PREFIX)?;
            let lock = File::open(folder.path())?;
            lock.lock()?;
            Ok(Self { folder, _lock: lock })
        };
        create()
            .map_err(|error: io::Error| GitError::new(operation, GitCause::File(error.to_string())))
    }

    /// The path of the index.
    pub(super) fn index(&self) -> PathBuf {
        self.folder.path().join("index")
    }
}

/// Removes the temporary folders that killed processes of this user left. What cannot be removed stays.
pub fn sweep_index_folders() {
    let uid = rustix::process::getuid().as_raw();
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry
                .metadata()
                .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid && is_old(&meta));
        if is_ours {
            // The next sweep tries again.
            drop(remove_abandoned(&entry.path()));
        }
    }
}

fn is_old(meta: &std::fs::Metadata) -> bool {
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
        let age = |folder: &Path| {
            let old = std::time::SystemTime::now() - YOUNG * 2;
            File::open(folder).unwrap().set_modified(old).unwrap();
        };
        let live = IndexFolder::new("test").unwrap();
        let young = TempDir::with_prefix(PREFIX).unwrap();
        let dead = TempDir::with_prefix(PREFIX).unwrap();
        std::fs::write(dead.path().join("index"), "x").unwrap();
        age(dead.path());
        age(live.folder.path());
        sweep_index_folders();
        assert!(!dead.path().exists());
        assert!(live.folder.path().exists() && young.path().exists());
    }
}
