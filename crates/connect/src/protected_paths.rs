//! Paths of a workspace that no command may create or change, and that cannot be made read-only: they do not exist
//! yet, or a folder above them can be moved.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Certainty;
use crate::call_failure::CallFailure;

/// The longest file whose contents are compared. A `.git` file has one line.
const BYTES_MAX: u64 = 16 << 10;

/// These paths.
#[derive(Debug)]
pub(crate) struct ProtectedPaths {
    paths: Vec<PathBuf>,
    /// Where what a command put there is moved.
    removed: PathBuf,
}

/// What was there before a command.
#[derive(Debug, Default)]
pub(crate) struct ProtectedContents(Vec<Content>);

#[derive(Debug, PartialEq, Eq)]
enum Content {
    Absent,
    File(Vec<u8>),
    Other,
}

impl Content {
    fn of(path: &Path) -> Self {
        match path.symlink_metadata() {
            Err(_) => Self::Absent,
            Ok(found) if found.is_file() && found.len() <= BYTES_MAX => {
                fs::read(path).map_or(Self::Other, Self::File)
            }
            Ok(_) => Self::Other,
        }
    }
}

impl ProtectedPaths {
    pub const fn new(removed: PathBuf) -> Self {
        Self { paths: Vec::new(), removed }
    }

    pub fn add(&mut self, path: PathBuf) {
        self.paths.push(path);
    }

    /// What is there now.
    pub fn contents(&self) -> ProtectedContents {
        ProtectedContents(self.paths.iter().map(|path| Content::of(path)).collect())
    }

    /// Moves away what the command put in these places, and says what it was. What the command removed is only
    /// missing.
    pub fn check(&self, before: &ProtectedContents) -> Result<Vec<String>, CallFailure> {
        let mut changed = Vec::new();
        for (path, before) in self.paths.iter().zip(&before.0) {
            let now = Content::of(path);
            if now == *before || now == Content::Absent {
                continue;
            }
            let moved = move_away(path, &self.removed).map_err(|error| {
                let message = format!("cannot remove `{}`: {error}", path.display());
                CallFailure::internal(Certainty::Unknown, message)
            })?;
            changed.extend(
                moved.map(|to| format!("{} (moved to `{}`)", path.display(), to.display())),
            );
        }
        Ok(changed)
    }
}

/// Moves what is at a path into a folder of ours, or, if that is on another file system, to a name beside it
/// that means nothing; returns where it is. It is not deleted: it may be the user who has just created it.
fn move_away(path: &Path, folder: &Path) -> io::Result<Option<PathBuf>> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    fs::create_dir_all(folder)?;
    // An empty folder with a name of its own, which the move replaces or fills.
    let place = TempDir::with_prefix_in("removed-", folder)?.keep();
    let name = path.file_name().unwrap_or_default();
    let aside = place.join(name);
    match fs::rename(path, &aside) {
        Ok(()) => Ok(Some(aside)),
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let label = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let beside = path.with_file_name(format!("{}.{label}", name.to_string_lossy()));
            fs::rename(path, &beside).map(|()| Some(beside))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_may_stay_or_vanish_but_not_change() {
        let (folder, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        for name in ["same", "gone", "changed", "replaced"] {
            fs::write(at(name), "gitdir: x").unwrap();
        }
        fs::create_dir(at("folder")).unwrap();
        let mut paths = ProtectedPaths::new(ours.path().to_owned());
        for name in ["same", "gone", "changed", "replaced", "folder", "new"] {
            paths.add(at(name));
        }
        let before = paths.contents();
        assert_eq!(paths.check(&before).map_err(|failure| failure.message), Ok(Vec::new()));
        fs::remove_file(at("gone")).unwrap();
        fs::write(at("changed"), "gitdir: y").unwrap();
        fs::write(at("new"), "").unwrap();
        fs::remove_file(at("replaced")).unwrap();
        std::os::unix::fs::symlink("same", at("replaced")).unwrap();
        fs::write(at("folder/file"), "").unwrap();
        let changed = paths.check(&before).map_err(|failure| failure.message).unwrap();
        assert_eq!(changed.len(), 3, "{changed:?}");
        for name in ["changed", "new", "replaced"] {
            assert!(at(name).symlink_metadata().is_err(), "{name}");
        }
        assert!(at("same").exists() && at("folder/file").exists());
    }

    #[test]
    fn what_may_not_appear_is_moved_and_not_deleted() {
        let (folder, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join(".git");
        assert_eq!(move_away(&path, ours.path()).unwrap(), None);
        for text in ["one", "two"] {
            fs::create_dir(&path).unwrap();
            fs::write(path.join("HEAD"), text).unwrap();
            let moved = move_away(&path, ours.path()).unwrap().unwrap();
            assert!(!path.exists() && moved.starts_with(ours.path()));
            assert_eq!(fs::read_to_string(moved.join("HEAD")).unwrap(), text);
        }
        // `/dev/shm` is another file system.
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(&path, "three").unwrap();
        let moved = move_away(&path, elsewhere.path()).unwrap().unwrap();
        assert!(!path.exists() && moved.parent() == Some(folder.path()));
        assert_eq!(fs::read_to_string(moved).unwrap(), "three");
    }
}
