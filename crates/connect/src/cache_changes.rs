//! Where commands change caches: one folder for a project, which one cell at a time may use.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_cell::Mount;

use crate::cache_settings::CacheSettings;

/// The folder for the changes of one cell.
#[derive(Debug)]
pub(crate) enum CacheChanges {
    /// That of the project: what a command adds to a cache is there for the next one.
    Shared { folder: PathBuf, _lock: File },
    /// Another cell uses that of the project: this one sees its changes, and loses its own.
    Own { folder: TempDir, shared: PathBuf },
}

impl CacheChanges {
    /// Takes the project's folder, or a new one if another cell uses it: the kernel does not say what two
    /// overlays with one upper folder do.
    pub fn take(parent: &Path) -> Result<Self, String> {
        let folder = parent.join("caches");
        let cannot = |error: &std::io::Error| format!("cannot use `{}`: {error}", folder.display());
        std::fs::create_dir_all(&folder).map_err(|error| cannot(&error))?;
        let lock = File::options().create(true).append(true).open(parent.join("caches.lock"));
        let lock = lock.map_err(|error| cannot(&error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self::Shared { folder, _lock: lock }),
            Err(TryLockError::WouldBlock) => Self::own(parent),
            Err(TryLockError::Error(error)) => Err(cannot(&error)),
        }
    }

    /// Makes a folder for one cell alone.
    pub fn own(parent: &Path) -> Result<Self, String> {
        let shared = parent.join("caches");
        let cannot = |error: &std::io::Error| format!("cannot use `{}`: {error}", shared.display());
        std::fs::create_dir_all(&shared).map_err(|error| cannot(&error))?;
        let own = TempDir::with_prefix_in("caches-", parent).map_err(|error| cannot(&error))?;
        Ok(Self::Own { folder: own, shared })
    }

    /// Where the changes go.
    pub fn folder(&self) -> &Path {
        match self {
            Self::Shared { folder, .. } => folder,
            Self::Own { folder, .. } => folder.path(),
        }
    }

    /// Drops the changes of settings and programs, and returns what was dropped. No process may use the
    /// overlays among these mounts.
    pub fn drop_settings(
        &self,
        settings: &CacheSettings,
        mounts: &[Mount],
    ) -> Result<Vec<String>, String> {
        let mut dropped = Vec::new();
        for mount in mounts {
            // What a cell changes in a folder of its own is lost anyway.
            let (Mount::Overlay { path, upper, .. }, Self::Shared { folder, .. }) = (mount, self)
            else {
                continue;
            };
            if upper.starts_with(folder) {
                let found = settings.drop_changes(path, upper).map_err(|error| {
                    format!("cannot drop changes of settings in `{}`: {error}", path.display())
                })?;
                dropped.extend(found);
            }
        }
        Ok(dropped)
    }

    /// Changes of other cells that are seen too.
    pub fn earlier(&self) -> Option<&Path> {
        match self {
            Self::Shared { .. } => None,
            Self::Own { shared, .. } => Some(shared),
        }
    }
}

impl Drop for CacheChanges {
    fn drop(&mut self) {
        if let Self::Own { folder, .. } = self {
            // The kernel leaves folders that nobody may enter.
            for cache in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                crate::sandbox::open_work_folder(&cache.path().join("work"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cell_at_a_time_has_the_folder_of_the_project() {
        let parent = tempfile::tempdir().unwrap();
        let first = CacheChanges::take(parent.path()).unwrap();
        assert_eq!((first.folder(), first.earlier()), (&*parent.path().join("caches"), None));
        let second = CacheChanges::take(parent.path()).unwrap();
        let own = second.folder().to_owned();
        assert_ne!(own, first.folder());
        assert_eq!(second.earlier(), Some(first.folder()));
        drop(second);
        assert!(!own.exists());
        drop(first);
        assert_eq!(CacheChanges::take(parent.path()).unwrap().earlier(), None);
    }
}
