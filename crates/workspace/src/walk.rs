//! Walks the files of a workspace.

use std::fs::FileType;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The limit of files and folders.
const ENTRIES_MAX: usize = 1_000_000;

/// Why a walk stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// A folder cannot be read.
    #[error("`{}` cannot be read: {cause}", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        cause: String,
    },
    /// The workspace has too many files.
    #[error("the workspace has more than {ENTRIES_MAX} files")]
    TooManyFiles,
}

impl From<WalkError> for String {
    fn from(error: WalkError) -> Self {
        error.to_string()
    }
}

/// A file that a walk has found.
#[derive(Clone, Copy, Debug)]
pub struct WalkedFile<'a> {
    /// Relative to the workspace, with `/`; other characters stand for bytes that are not UTF-8.
    pub path: &'a str,
    /// Its type. A folder is passed only when its name is not UTF-8; its files are not.
    pub kind: FileType,
    /// Whether `path` is its path.
    pub is_utf8: bool,
}

/// Whether a name at the top of a workspace is that of git's or Windlass's own folder, which are not
/// part of the work.
#[must_use]
pub fn is_private(name: &str) -> bool {
    matches!(name, ".git" | ".windlass")
}

/// Calls `visit` for every file in a workspace, but not for those in private folders. Symbolic links are
/// passed and not followed.
///
/// # Errors
/// [`WalkError`], or the error of `visit`.
pub fn walk_files<E: From<WalkError>>(
    workspace: &Path,
    visit: &mut dyn FnMut(WalkedFile<'_>) -> Result<(), E>,
) -> Result<(), E> {
    Walk { entries: 0, visit }.folder(workspace, "")
}

/// Calls `visit` for every file in a workspace, whatever its name, also in private folders, but not for git's objects. Symbolic
/// links are passed and not followed. The paths are relative to the workspace. With each comes
/// the number of its inode.
///
/// # Errors
/// [`WalkError`].
pub(crate) fn walk_all(
    workspace: &Path,
    visit: &mut dyn FnMut(&Path, FileType, u64),
) -> Result<(), WalkError> {
    let mut folders = vec![PathBuf::new()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        let is_top = folder.as_os_str().is_empty();
        let full = workspace.join(&folder);
        let unreadable = |error: io::Error| WalkError::Unreadable {
            path: full.clone(),
            cause: error.to_string(),
        };
        let entries = match std::fs::read_dir(&full) {
            Ok(entries) => entries,
            // It was removed since it was listed.
            Err(error) if error.kind() == ErrorKind::NotFound && !is_top => continue,
            // Somebody else's, which commands cannot enter either.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && is_foreign(&full) => {
                continue;
            }
            // So deep that nobody can name it.
            Err(error) if error.kind() == ErrorKind::InvalidFilename && !is_top => continue,
            Err(error) => return Err(unreadable(error)),
        };
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            count += 1;
            if count > ENTRIES_MAX {
                return Err(WalkError::TooManyFiles);
            }
            let (name, kind) = (entry.file_name(), entry.file_type().map_err(unreadable)?);
            let path = folder.join(&name);
            if kind.is_dir() {
                let is_of_objects = name == "objects" && path.starts_with(".git");
                folders.extend(Some(path).filter(|_| !is_of_objects));
            } else {
                visit(&path, kind, entry.ino());
            }
        }
    }
    Ok(())
}

/// Whether a folder belongs to another user.
fn is_foreign(folder: &Path) -> bool {
    let owner = folder.symlink_metadata().map(|found| found.uid());
    owner.is_ok_and(|owner| owner != rustix::process::geteuid().as_raw())
}

struct Walk<'a, E> {
    entries: usize,
    visit: &'a mut dyn FnMut(WalkedFile<'_>) -> Result<(), E>,
}

impl<E: From<WalkError>> Walk<'_, E> {
    fn folder(&mut self, folder: &Path, prefix: &str) -> Result<(), E> {
        let unreadable = |error: io::Error| WalkError::Unreadable {
            path: folder.to_owned(),
            cause: error.to_string(),
        };
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            // Another phase may have removed it since it was listed.
            Err(error) if error.kind() == ErrorKind::NotFound && !prefix.is_empty() => {
                return Ok(());
            }
            Err(error) => return Err(unreadable(error).into()),
        };
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(WalkError::TooManyFiles.into());
            }
            let (name, kind) = (entry.file_name(), entry.file_type().map_err(unreadable)?);
            let path = format!("{prefix}{}", name.to_string_lossy());
            let is_utf8 = name.to_str().is_some();
            if prefix.is_empty() && is_private(&path) {
                continue;
            }
            if kind.is_dir() && is_utf8 {
                self.folder(&entry.path(), &format!("{path}/"))?;
            } else {
                (self.visit)(WalkedFile { path: &path, kind, is_utf8 })?;
            }
        }
        Ok(())
    }
}
