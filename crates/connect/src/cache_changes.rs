//! Where commands change caches: one folder for a project and a level of privilege, which one cell at a time may use.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_cell::Mount;

use crate::cache_settings::CacheSettings;

/// Privileges of a command. Code in a cache must not get them from a command that has fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Privilege {
    /// Whether it reaches hosts.
    pub network: bool,
    /// Whether it gets secrets.
    pub secrets: bool,
}

impl Privilege {
    /// The name of the folder for the changes of such commands.
    const fn name(self) -> &'static str {
        match (self.network, self.secrets) {
            (false, false) => "caches",
            (true, false) => "caches-network",
            (false, true) => "caches-secrets",
            (true, true) => "caches-network-secrets",
        }
    }

    /// The privilege of those whose changes such a command sees too: they have more than it, and secrets only if it has them.
    fn above(self) -> Option<Self> {
        (!self.network).then_some(Self { network: true, ..self })
    }
}

/// The folder for the changes of one cell.
#[derive(Debug)]
pub(crate) enum CacheChanges {
    /// That of the project: what a command adds to a cache is there for the next one.
    Shared { folder: PathBuf, earlier: Vec<PathBuf>, _lock: File },
    /// This one loses its changes: another cell uses the project's folder, or nobody should see them.
    Own { folder: TempDir, earlier: Vec<PathBuf> },
}

impl CacheChanges {
    /// Takes the project's folder, or a new one if another cell uses it: the kernel does not say what two
    /// overlays with one upper folder do.
    pub fn take(parent: &Path, privilege: Privilege) -> Result<Self, String> {
        let folder = parent.join(privilege.name());
        let cannot = |error: &std::io::Error| format!("cannot use `{}`: {error}", folder.display());
        std::fs::create_dir_all(&folder).map_err(|error| cannot(&error))?;
        let lock = parent.join(format!("{}.lock", privilege.name()));
        let lock = File::options().create(true).append(true).open(lock);
        let lock = lock.map_err(|error| cannot(&error))?;
        match lock.try_lock() {
            Ok(()) => {
                let earlier = privilege.above().map(|above| parent.join(above.name()));
                Ok(Self::Shared { folder, earlier: earlier.into_iter().collect(), _lock: lock })
            }
            Err(TryLockError::WouldBlock) => Self::own(parent, privilege),
            Err(TryLockError::Error(error)) => Err(cannot(&error)),
        }
    }

    /// Makes a folder for one cell alone, which sees the changes of those with this privilege.
    pub fn own(parent: &Path, privilege: Privilege) -> Result<Self, String> {
        let earlier = [Some(privilege), privilege.above()].into_iter().flatten();
        Self::new(parent, earlier.map(|privilege| parent.join(privilege.name())).collect())
    }

    /// Makes a folder for a cell that measures. It sees what commands with the network have brought, each of which policy
    /// or a person has let through: without the packages among it nothing could be built. What others changed it does not see.
    pub fn measuring(parent: &Path) -> Result<Self, String> {
        let brought = Privilege { network: true, secrets: false };
        Self::new(parent, vec![parent.join(brought.name())])
    }

    fn new(parent: &Path, earlier: Vec<PathBuf>) -> Result<Self, String> {
        let own = TempDir::with_prefix_in("own-caches-", parent);
        let folder = own.map_err(|error| {
            format!("cannot create a folder in `{}`: {error}", parent.display())
        })?;
        Ok(Self::Own { folder, earlier })
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

    /// Changes of other cells that are seen too, uppermost first.
    pub fn earlier(&self) -> &[PathBuf] {
        match self {
            Self::Shared { earlier, .. } | Self::Own { earlier, .. } => earlier,
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
        let plain = Privilege { network: false, secrets: false };
        let [caches, network] = ["caches", "caches-network"].map(|name| parent.path().join(name));
        let first = CacheChanges::take(parent.path(), plain).unwrap();
        assert_eq!((first.folder(), first.earlier()), (&*caches, &[network.clone()][..]));
        let second = CacheChanges::take(parent.path(), plain).unwrap();
        let own = second.folder().to_owned();
        assert_ne!(own, first.folder());
        assert_eq!(second.earlier(), [caches.clone(), network.clone()]);
        let more = Privilege { network: true, ..plain };
        let other = CacheChanges::take(parent.path(), more).unwrap();
        assert_eq!((other.folder(), other.earlier()), (&*network, &[][..]));
        assert_eq!(
            CacheChanges::measuring(parent.path()).unwrap().earlier(),
            std::slice::from_ref(&network)
        );
        drop(second);
        assert!(!own.exists());
        drop(first);
        assert_eq!(CacheChanges::take(parent.path(), plain).unwrap().folder(), caches);
    }
}
