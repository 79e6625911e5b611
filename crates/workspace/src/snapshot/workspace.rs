//! A folder that is captured and restored.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_kernel::Digest;

use super::leftovers::{self, INDEX, LOCK, STAGE, STATE};
use super::lock::{SnapshotLock, lock_exclusive};
use super::object_reader::ObjectFormat;
use super::{SnapshotError, Snapshots};
use crate::GitError;
use crate::git::{Access, Invocation, os, path_of};

/// A folder that is captured and restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workspace {
    /// The folder, without symbolic links.
    pub folder: PathBuf,
    /// The top of the work tree that the folder is in; the folder itself outside a repository.
    pub top: PathBuf,
    /// The user's own index, which may track ignored files.
    pub user_index: Option<PathBuf>,
    /// The repository's list of ignored files (`info/exclude`).
    pub local_excludes: Option<PathBuf>,
    /// The suffix of our files for this workspace.
    key: String,
}

fn canonical(folder: &Path) -> Result<PathBuf, SnapshotError> {
    folder.canonicalize().map_err(|error| SnapshotError::file("find", folder, &error))
}

pub(super) fn key(folder: &Path) -> String {
    let digest = Digest::of(folder.as_os_str().as_encoded_bytes());
    digest.hex().as_str().chars().take(32).collect()
}

impl Workspace {
    /// Describes a folder that is in no repository.
    pub fn outside_repository(folder: &Path) -> Result<Self, SnapshotError> {
        let folder = canonical(folder)?;
        let key = key(&folder);
        Ok(Self { top: folder.clone(), folder, user_index: None, local_excludes: None, key })
    }

    /// The path of the folder below the top: empty, or with a slash at its end.
    pub fn prefix(&self) -> Vec<u8> {
        let inner = self.folder.strip_prefix(&self.top).unwrap_or_else(|_| Path::new(""));
        let mut prefix = inner.as_os_str().as_encoded_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        prefix
    }

    /// The path of our private index.
    pub fn index(&self, private: &Path) -> PathBuf {
        private.join(format!("{INDEX}{}", self.key))
    }

    /// The path of the saved [`IndexState`](super::index_state::IndexState).
    pub fn state(&self, private: &Path) -> PathBuf {
        private.join(format!("{STATE}{}", self.key))
    }

    /// The path of the staging directory.
    pub fn staging(&self, private: &Path) -> PathBuf {
        private.join(format!("{STAGE}{}", self.key))
    }

    /// Locks the workspace; waits while another process has locked it.
    pub fn lock(&self, private: &Path) -> Result<SnapshotLock, SnapshotError> {
        let path = private.join(format!("{LOCK}{}", self.key));
        let lock = lock_exclusive(&path)?;
        leftovers::note_folder(&lock, &self.folder)
            .map_err(|error| SnapshotError::file("lock", &path, &error))?;
        Ok(lock)
    }
}

/// Describes a folder in a repository: the workspace, the repository's common directory, and the hash
/// function of its object ids.
pub(super) fn in_repository(
    folder: &Path,
) -> Result<(Workspace, PathBuf, ObjectFormat), SnapshotError> {
    let operation = "find the repository";
    let folder = canonical(folder)?;
    let bytes = Invocation::new(operation, &folder, Access::Read)
        .args(["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"])
        .args(["--git-path", "index", "--git-path", "info/exclude", "--show-object-format"])
        .output()?;
    let lines: Vec<&[u8]> =
        bytes.strip_suffix(b"\n").unwrap_or(&bytes).split(|byte| *byte == b'\n').collect();
    let &[top, common, index, exclude, format] = lines.as_slice() else {
        return Err(GitError::unexpected(operation, &bytes).into());
    };
    let format = std::str::from_utf8(format).ok().and_then(ObjectFormat::from_name);
    let format = format.ok_or_else(|| GitError::unexpected(operation, &bytes))?;
    let workspace = Workspace {
        key: key(&folder),
        top: canonical(Path::new(os(top)))?,
        user_index: Some(path_of(index)),
        local_excludes: Some(path_of(exclude)),
        folder,
    };
    if !workspace.folder.starts_with(&workspace.top) {
        return Err(SnapshotError::OutsideProject(workspace.folder));
    }
    Ok((workspace, canonical(Path::new(os(common)))?, format))
}

impl Snapshots {
    /// Returns the description of a workspace, which is read once.
    pub(super) fn workspace(&self, folder: &Path) -> Result<Arc<Workspace>, SnapshotError> {
        let folder = canonical(folder)?;
        let known = self.workspaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(workspace) = known.get(&folder) {
            return Ok(Arc::clone(workspace));
        }
        drop(known);
        let workspace = Arc::new(match &self.repository.common_dir {
            None => Workspace::outside_repository(&folder)?,
            Some(ours) => {
                let (workspace, common, _) = in_repository(&folder)?;
                if common != *ours {
                    return Err(SnapshotError::OutsideProject(folder));
                }
                workspace
            }
        });
        let mut known = self.workspaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.insert(folder, Arc::clone(&workspace));
        Ok(workspace)
    }
}

/// Whether a path exists; a symbolic link is not followed.
pub(super) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
