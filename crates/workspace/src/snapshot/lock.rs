//! Locks between processes.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{SnapshotError, Snapshots};

/// How long to wait for another process.
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// How long whatever stores snapshots waits for whatever deletes them.
const DELETION_WAIT: Duration = Duration::from_secs(600);
/// The pause between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// The file of the lock on all stored snapshots.
const STORED: &str = "lock-stored";
/// That of the lock on their objects.
const OBJECTS: &str = "lock-objects";

/// A lock, released when it is dropped.
#[derive(Debug)]
pub struct SnapshotLock {
    pub(super) file: File,
}

/// Locks a file; waits while another process has locked it.
pub(super) fn lock_exclusive(path: &Path) -> Result<SnapshotLock, SnapshotError> {
    lock(path, LOCK_WAIT, File::try_lock)
}

fn lock(
    path: &Path,
    wait: Duration,
    try_lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<SnapshotLock, SnapshotError> {
    let fail = |error: io::Error| SnapshotError::file("lock", path, &error);
    let open = || {
        let options =
            File::options().create(true).truncate(false).read(true).write(true).open(path);
        options.map_err(fail)
    };
    let mut file = open()?;
    let deadline = Instant::now() + wait;
    loop {
        match try_lock(&file) {
            Ok(()) if is_at(&file, path) => return Ok(SnapshotLock { file }),
            // Whoever removed the workspace's files has removed it meanwhile.
            Ok(()) => file = open()?,
            Err(TryLockError::Error(error)) => return Err(fail(error)),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(SnapshotError::Busy(wait.as_millis()));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
        }
    }
}

/// Locks a file that exists; `None` if another process has locked it, or removed it.
pub(super) fn lock_if_free(path: &Path) -> io::Result<Option<SnapshotLock>> {
    let file = match File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        Ok(()) => Ok(is_at(&file, path).then_some(SnapshotLock { file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether a path still leads to an open file.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |found: fs::Metadata| (found.dev(), found.ino());
    let (open, there) = (file.metadata().map(id), fs::symlink_metadata(path).map(id));
    open.is_ok_and(|open| there.is_ok_and(|there| there == open))
}

impl Snapshots {
    /// Prevents the deletion of whatever is stored, until what was stored is recorded. Any number of
    /// processes may hold this lock.
    ///
    /// # Errors
    /// [`SnapshotError::Busy`] while something is being deleted.
    pub fn lock_for_storing(&self) -> Result<SnapshotLock, SnapshotError> {
        lock(&self.private.join(STORED), DELETION_WAIT, File::try_lock_shared)
    }

    /// Prevents the removal of objects, until the snapshot that needs them is listed. It is held for a short time.
    pub(super) fn lock_objects(&self) -> Result<SnapshotLock, SnapshotError> {
        lock(&self.private.join(OBJECTS), DELETION_WAIT, File::try_lock_shared)
    }

    /// Excludes all other holders of the lock on objects.
    pub(super) fn lock_objects_for_removal(&self) -> Result<SnapshotLock, SnapshotError> {
        lock(&self.private.join(OBJECTS), DELETION_WAIT, File::try_lock)
    }

    /// Excludes all other holders of either lock.
    ///
    /// # Errors
    /// [`SnapshotError::Busy`] while another process holds one.
    pub fn lock_for_deletion(&self) -> Result<SnapshotLock, SnapshotError> {
        lock_exclusive(&self.private.join(STORED))
    }
}
