//! A folder that is captured and restored.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use windlass_kernel::Digest;

use super::objects::Format;
use super::{SnapshotError, Snapshots};
use crate::GitError;
use crate::git::{Invocation, Kind, os, path_of};

/// How long to wait for another process that is at work on the same workspace.
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// Between two looks at the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What is known about a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workspace {
    /// The folder, without symbolic links.
    pub folder: PathBuf,
    /// The top of the work tree that the folder is in; the folder itself outside a repository.
    pub top: PathBuf,
    /// The user's own index, which says what is tracked though it is ignored.
    pub user_index: Option<PathBuf>,
    /// The user's list of what is ignored in this repository.
    pub ignored_here: Option<PathBuf>,
    /// What our files for this workspace are called.
    key: String,
}

/// The right to change a workspace; given back when it is dropped.
pub(super) struct Lock {
    _file: File,
}

fn canonical(folder: &Path) -> Result<PathBuf, SnapshotError> {
    folder.canonicalize().map_err(|error| SnapshotError::file("find", folder, &error))
}

fn key(folder: &Path) -> String {
    let digest = Digest::of(folder.as_os_str().as_encoded_bytes());
    digest.hex().as_str().chars().take(32).collect()
}

impl Workspace {
    /// A folder that is in no repository.
    pub fn alone(folder: &Path) -> Result<Self, SnapshotError> {
        let folder = canonical(folder)?;
        let key = key(&folder);
        Ok(Self { top: folder.clone(), folder, user_index: None, ignored_here: None, key })
    }

    /// Where the folder is below the top: empty, or with a slash at its end.
    pub fn prefix(&self) -> Vec<u8> {
        let inner = self.folder.strip_prefix(&self.top).unwrap_or_else(|_| Path::new(""));
        let mut prefix = inner.as_os_str().as_encoded_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        prefix
    }

    /// Our index for it.
    pub fn index(&self, private: &Path) -> PathBuf {
        private.join(format!("index-{}", self.key))
    }

    /// What we know about our index.
    pub fn state(&self, private: &Path) -> PathBuf {
        private.join(format!("state-{}", self.key))
    }

    /// Where contents lie until they are moved into the workspace.
    pub fn stage(&self, private: &Path) -> PathBuf {
        private.join(format!("stage-{}", self.key))
    }

    /// Waits until no other process is at work on this workspace.
    pub fn lock(&self, private: &Path) -> Result<Lock, SnapshotError> {
        let path = private.join(format!("lock-{}", self.key));
        let fail = |error: std::io::Error| SnapshotError::file("lock", &path, &error);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(fail)?;
        let deadline = Instant::now() + LOCK_WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(TryLockError::Error(error)) => return Err(fail(error)),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    return Err(SnapshotError::Busy(LOCK_WAIT.as_millis()));
                }
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            }
        }
    }
}

/// What there is to know about a folder in a repository: the workspace, the repository's common
/// directory and how it names objects.
pub(super) fn in_repository(folder: &Path) -> Result<(Workspace, PathBuf, Format), SnapshotError> {
    let operation = "find the repository";
    let folder = canonical(folder)?;
    let bytes = Invocation::new(operation, &folder, Kind::Read)
        .args(["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"])
        .args(["--git-path", "index", "--git-path", "info/exclude", "--show-object-format"])
        .output()?;
    let lines: Vec<&[u8]> =
        bytes.strip_suffix(b"\n").unwrap_or(&bytes).split(|byte| *byte == b'\n').collect();
    let &[top, common, index, exclude, format] = lines.as_slice() else {
        return Err(GitError::unexpected(operation, &bytes).into());
    };
    let format = std::str::from_utf8(format).ok().and_then(Format::named);
    let format = format.ok_or_else(|| GitError::unexpected(operation, &bytes))?;
    let workspace = Workspace {
        key: key(&folder),
        top: canonical(Path::new(os(top)))?,
        user_index: Some(path_of(index)),
        ignored_here: Some(path_of(exclude)),
        folder,
    };
    if !workspace.folder.starts_with(&workspace.top) {
        return Err(SnapshotError::Foreign(workspace.folder));
    }
    Ok((workspace, canonical(Path::new(os(common)))?, format))
}

impl Snapshots {
    /// Finds out about a workspace, once.
    pub(super) fn workspace(&self, folder: &Path) -> Result<Arc<Workspace>, SnapshotError> {
        let folder = canonical(folder)?;
        let known = self.workspaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(workspace) = known.get(&folder) {
            return Ok(Arc::clone(workspace));
        }
        drop(known);
        let workspace = Arc::new(match &self.home.repository {
            None => Workspace::alone(&folder)?,
            Some(ours) => {
                let (workspace, common, _) = in_repository(&folder)?;
                if common != *ours {
                    return Err(SnapshotError::Foreign(folder));
                }
                workspace
            }
        });
        let mut known = self.workspaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.insert(folder, Arc::clone(&workspace));
        Ok(workspace)
    }
}

/// Tells whether a file is there, of whatever kind; a symbolic link is not followed.
pub(super) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
