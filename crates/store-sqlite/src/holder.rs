//! Who is alive: each process that opens a store holds an OS file lock under its own id.
//!
//! The kernel frees the lock when the process dies, however it dies, so a dead holder's traces are
//! free at once and a live holder's never are.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use windlass_kernel::{HolderId, Uuid7};
use windlass_store::StoreError;

use crate::error::During;

/// This process's presence.
#[derive(Debug)]
pub struct Holder {
    id: HolderId,
    folder: PathBuf,
    path: PathBuf,
    // Held, never read: dropping it frees the lock.
    _lock: File,
}

impl Holder {
    /// Makes this process known in `folder`.
    pub fn register(folder: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder).during("make its folder of locks")?;
        let id = fresh_id()?;
        let path = lock_path(folder, id);
        let lock = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .during("make its lock file")?;
        lock.lock().during("lock its lock file")?;
        // Swept away before it was locked, it would not be seen: better not to begin.
        if !path.exists() {
            let source = "its lock file was removed while it was being made";
            return Err(StoreError::Unavailable {
                operation: "make its lock file",
                source: source.into(),
            });
        }
        let holder = Self { id, folder: folder.to_owned(), path, _lock: lock };
        holder.sweep();
        Ok(holder)
    }

    /// This process's id.
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

    /// Removes the files of dead processes. Their names are never used again.
    fn sweep(&self) {
        for file in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = file.path();
            let young = file
                .metadata()
                .and_then(|meta| meta.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() < 60));
            // A file that was made a moment ago may not be locked yet.
            if !young && matches!(is_locked(&path), Ok(false)) {
                drop(std::fs::remove_file(&path));
            }
        }
    }
}

impl Drop for Holder {
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
        Err(error) => return Err(error).during("open a holder's lock file"),
    };
    // Shared, so that two who ask at once do not take each other for the holder.
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error).during("test a holder's lock file"),
    }
}

fn fresh_id() -> Result<HolderId, StoreError> {
    Uuid7::from_bytes(*uuid::Uuid::now_v7().as_bytes())
        .map(HolderId)
        .map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}
