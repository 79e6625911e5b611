//! Liveness of the processes that hold leases: each process that opens a store locks a file that is named
//! after its id.
//!
//! The operating system releases the lock when the process dies, however it dies. So the leases of a
//! dead process are free at once, and those of a live process never are.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use windlass_kernel::{HolderId, Uuid7};
use windlass_store::StoreError;

use crate::sql::Context as _;

/// The lock file of this process.
#[derive(Debug)]
pub struct Liveness {
    id: HolderId,
    folder: PathBuf,
    path: PathBuf,
    // Dropping the file releases its lock.
    _lock: File,
}

impl Liveness {
    /// Creates and locks a file for this process in `folder`.
    pub fn register(folder: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder).context("create its folder of lock files")?;
        let id = fresh_id()?;
        let path = lock_path(folder, id);
        let lock = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .context("create its lock file")?;
        lock.lock().context("lock its lock file")?;
        // Another process may have removed it before it was locked; then nobody would see the lock.
        if !path.exists() {
            let source = "its lock file was removed while it was being created";
            return Err(StoreError::Unavailable {
                operation: "create its lock file",
                source: source.into(),
            });
        }
        let liveness = Self { id, folder: folder.to_owned(), path, _lock: lock };
        liveness.remove_stale();
        Ok(liveness)
    }

    pub const fn id(&self) -> HolderId {
        self.id
    }

    /// Whether the process that registered as `id` still lives.
    pub fn is_alive(&self, id: HolderId) -> Result<bool, StoreError> {
        if id == self.id {
            return Ok(true);
        }
        is_locked(&lock_path(&self.folder, id))
    }

    /// Removes the files of dead processes. Their ids are never used again.
    fn remove_stale(&self) {
        for file in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = file.path();
            let young = file
                .metadata()
                .and_then(|meta| meta.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() < 60));
            // A young file may not be locked yet.
            if !young && matches!(is_locked(&path), Ok(false)) {
                drop(std::fs::remove_file(&path));
            }
        }
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

fn lock_path(folder: &Path, id: HolderId) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

fn is_locked(path: &Path) -> Result<bool, StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error).context("open a holder's lock file"),
    };
    // Shared, so that two processes that test at once do not see each other's lock.
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error).context("test a holder's lock file"),
    }
}

fn fresh_id() -> Result<HolderId, StoreError> {
    Uuid7::from_bytes(*uuid::Uuid::now_v7().as_bytes())
        .map(HolderId)
        .map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}
