//! Liveness of the processes that hold leases: each process that opens a store locks a file that is named
//! after its id.
//!
//! The operating system releases the lock when the process dies, however it dies. So the leases of a
//! dead process are free at once, and those of a live process never are.
//!
//! A holder is dead only if its file is there and nobody locks it. If the file is missing, somebody has
//! removed it, and the process may live. So the file of a dead process stays as long as an open trace names
//! the process, and a process that ends with a lease leaves its file.

use std::collections::BTreeSet;
use std::fs::{DirEntry, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_kernel::{HolderId, Uuid7};
use windlass_store::StoreError;

use crate::files::KnownFile;
use crate::sql::Context as _;

/// Whether a holder of leases lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Alive,
    Dead,
    /// Its lock file is missing.
    Unknown,
}

/// The lock file of this process.
#[derive(Debug)]
pub struct Liveness {
    id: HolderId,
    folder: PathBuf,
    file: KnownFile,
    /// Whether the file stays when this process ends.
    kept: AtomicBool,
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
        let found = lock.metadata().context("look at its lock file")?;
        let file = KnownFile::new("lock file", path, &found);
        // Another process may have removed it before it was locked; then nobody would see the lock.
        file.check()?;
        let kept = AtomicBool::new(false);
        Ok(Self { id, folder: folder.to_owned(), file, kept, _lock: lock })
    }

    /// The lock file of this process.
    pub const fn file(&self) -> &KnownFile {
        &self.file
    }

    /// Leaves the file when this process ends: a trace names the process as its holder.
    pub fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    pub const fn id(&self) -> HolderId {
        self.id
    }

    /// Whether the process that registered as `id` still lives.
    pub fn holder(&self, id: HolderId) -> Result<Holder, StoreError> {
        if id == self.id {
            return Ok(Holder::Alive);
        }
        test(&lock_path(&self.folder, id))
    }

    /// Removes the files of dead processes that no open trace names. Their ids are never used again.
    pub fn remove_stale(&self, named: impl FnOnce() -> Result<BTreeSet<HolderId>, StoreError>) {
        let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_stale = |file: &DirEntry| {
            let young = file
                .metadata()
                .and_then(|meta| meta.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() < 60));
            // A young file may not be locked yet.
            !young && matches!(test(&file.path()), Ok(Holder::Dead))
        };
        let stale: Vec<PathBuf> = files.filter(is_stale).map(|file| file.path()).collect();
        if stale.is_empty() {
            return;
        }
        let Ok(named) = named() else { return };
        let named: BTreeSet<PathBuf> =
            named.into_iter().map(|id| lock_path(&self.folder, id)).collect();
        for path in stale.iter().filter(|path| !named.contains(*path)) {
            drop(std::fs::remove_file(path));
        }
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        let path = self.file.path();
        if !self.kept.load(Ordering::Relaxed) {
            if self.file.is_there() {
                drop(std::fs::remove_file(path));
            }
        } else if !self.file.is_there() {
            // It was removed. This process ends now: a file without a lock says so.
            drop(std::fs::create_dir_all(&self.folder));
            drop(OpenOptions::new().write(true).create_new(true).open(path));
        }
    }
}

fn lock_path(folder: &Path, id: HolderId) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

fn test(path: &Path) -> Result<Holder, StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Holder::Unknown),
        Err(error) => return Err(error).context("open a holder's lock file"),
    };
    // Shared, so that two processes that test at once do not see each other's lock.
    match file.try_lock_shared() {
        Ok(()) => Ok(Holder::Dead),
        Err(TryLockError::WouldBlock) => Ok(Holder::Alive),
        Err(TryLockError::Error(error)) => Err(error).context("test a holder's lock file"),
    }
}

/// A new id, also on a machine whose clock is before 1970, for which ids have no room.
pub fn random_id() -> uuid::Uuid {
    match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
        Ok(_) => uuid::Uuid::now_v7(),
        Err(_) => uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 0, 0)),
    }
}

fn fresh_id() -> Result<HolderId, StoreError> {
    Uuid7::from_bytes(*random_id().as_bytes())
        .map(HolderId)
        .map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}
