//! Removes our files for workspaces that no longer exist, such as those of closed work trees.
//!
//! The lock file of a workspace is the first of its files that is made, says which folder it is, and is the last that is
//! removed: whatever a crash leaves, the next sweep finds by it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::lock::{SnapshotLock, lock_if_free};
use super::workspace::key;
use super::{SnapshotError, Snapshots};
use crate::git::path_of;

/// The beginnings of the names of our files for a workspace.
pub(super) const INDEX: &str = "index-";
pub(super) const STATE: &str = "state-";
pub(super) const STAGE: &str = "stage-";
pub(super) const LOCK: &str = "lock-";
/// That of an index that is made for commits, not for snapshots. A cache: without it, all files are read.
const TREE: &str = "tree-";
/// What git adds to the name of an index that it is writing.
const WRITING: &str = ".lock";
/// The number of digits of a workspace's key.
const KEY_DIGITS: usize = 32;
/// The size limit of a folder's path.
const PATH_BYTES_MAX: u64 = 64 * 1024;
/// The beginning of the names of files that were not finished, and how long they are left alone.
const TEMPORARY: &str = ".tmp";
const TEMPORARY_AGE_MIN: Duration = Duration::from_secs(24 * 60 * 60);
/// How long files are kept whose folder is not known, since versions before this did not write it down.
const UNKNOWN_AGE_MIN: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The name of the kept index of a work tree.
pub(crate) fn tree_index(top: &Path) -> String {
    format!("{TREE}{}", key(top))
}

/// Writes the folder of a workspace to its lock file, unless it is there.
pub(super) fn note_folder(lock: &SnapshotLock, folder: &Path) -> io::Result<()> {
    let bytes = folder.as_os_str().as_encoded_bytes();
    if noted_folder(lock)?.as_deref() == Some(folder) {
        return Ok(());
    }
    let mut file = &lock.file;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(bytes)
}

/// The folder that a lock file names.
fn noted_folder(lock: &SnapshotLock) -> io::Result<Option<PathBuf>> {
    let mut file = &lock.file;
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(PATH_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(path_of(&bytes)))
}

impl Snapshots {
    /// Removes our files for workspaces whose folder is gone; returns how many workspaces these were. One that a live
    /// process uses is left out.
    ///
    /// # Errors
    /// [`SnapshotError::File`].
    pub fn sweep_workspaces(&self) -> Result<usize, SnapshotError> {
        let fail = |error: io::Error| SnapshotError::file("sweep", &self.private, &error);
        let mut keys = BTreeSet::new();
        for entry in fs::read_dir(&self.private).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(TEMPORARY) && is_old(&entry.path(), TEMPORARY_AGE_MIN) {
                removed(fs::remove_file(entry.path())).map_err(fail)?;
            }
            let rest =
                [INDEX, STATE, STAGE, LOCK, TREE].iter().find_map(|start| name.strip_prefix(start));
            let rest = rest.map(|rest| rest.strip_suffix(WRITING).unwrap_or(rest));
            keys.extend(rest.filter(|key| is_key(key)).map(str::to_owned));
        }
        // What cannot be removed leaves nothing else behind.
        let (mut swept, mut failed) = (0, None);
        for key in &keys {
            match self.sweep_workspace(key) {
                Ok(is_swept) => swept += usize::from(is_swept),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(swept), |error| Err(fail(error)))
    }

    /// Removes the files of a workspace if it is gone.
    fn sweep_workspace(&self, name: &str) -> io::Result<bool> {
        let path = self.private.join(format!("{LOCK}{name}"));
        if !path.exists() {
            // Somebody has removed it alone; whoever uses the workspace makes it first.
            fs::File::options().create(true).append(true).open(&path)?;
        }
        let Some(lock) = lock_if_free(&path)? else { return Ok(false) };
        let folder = noted_folder(&lock)?.filter(|folder| key(folder) == name);
        let is_gone = match &folder {
            Some(folder) if !is_missing(folder) => false,
            // Without the folder around it, it may be on a disk that is not there now.
            Some(folder) if folder.parent().is_some_and(|around| !is_missing(around)) => true,
            Some(_) => self.is_unused(name)?,
            None => !self.is_known(name) && self.is_unused(name)?,
        };
        if !is_gone {
            return Ok(false);
        }
        let files = [
            format!("{TREE}{name}"),
            format!("{INDEX}{name}"),
            format!("{INDEX}{name}{WRITING}"),
            format!("{STATE}{name}"),
        ];
        for file in files {
            removed(fs::remove_file(self.private.join(file)))?;
        }
        removed(fs::remove_dir_all(self.private.join(format!("{STAGE}{name}"))))?;
        // Whoever waits for it notices that it is no longer there.
        removed(fs::remove_file(&path))?;
        Ok(true)
    }

    /// Whether this process uses the workspace.
    fn is_known(&self, name: &str) -> bool {
        let known = self.workspaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.keys().any(|folder| key(folder) == name)
    }

    /// Whether the files of a workspace whose folder is not known were not changed for a long time.
    fn is_unused(&self, name: &str) -> io::Result<bool> {
        for start in [INDEX, STATE, STAGE, LOCK, TREE] {
            let path = self.private.join(format!("{start}{name}"));
            match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                found => {
                    found?;
                    if !is_old(&path, UNKNOWN_AGE_MIN) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

/// Whether a file was not changed for so long.
fn is_old(path: &Path, age_min: Duration) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|found| found.modified());
    changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > age_min))
}

fn is_key(text: &str) -> bool {
    text.len() == KEY_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether there is nothing at a path. What cannot be looked at is not missing.
fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| is_absence(&error))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The result of a removal; what was not there is no error.
fn removed(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if is_absence(&error) { Ok(()) } else { Err(error) })
}
