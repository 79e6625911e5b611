//! Plans a change of a workspace path by path, and carries it out.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::change_fault::point;
use super::extras::is_usual;
use super::rooted_dir::{DiskEntry, RootedDir};
use super::staging::{StagingDir, permissions_for};
use super::{Entry, EntryMode, PathChange, SnapshotError};

/// The changes of a workspace, and the paths that prevent them.
#[derive(Debug, Default)]
pub(super) struct ChangePlan {
    /// Paths to write, with the permissions of the file that is replaced.
    pub write: Vec<(PathBuf, Entry, Option<u32>)>,
    /// Files of which only the permissions differ, with those that they have.
    pub chmod: Vec<(PathBuf, Entry, u32)>,
    pub remove: Vec<PathBuf>,
    /// Paths that the new snapshot does not have: folders that become empty are removed.
    pub absent: Vec<PathBuf>,
    /// Nested repositories that differ; they are never touched.
    pub nested: Vec<PathBuf>,
    /// As in [`SnapshotError::Changed`].
    pub changed: Vec<PathBuf>,
    /// As in [`SnapshotError::Changed`].
    pub in_the_way: Vec<PathBuf>,
}

/// The entry if a change writes and removes it: everything but a nested repository. Empty folders come last.
pub(super) fn writable(entry: &Option<Entry>) -> Option<&Entry> {
    entry.as_ref().filter(|entry| match entry.mode {
        EntryMode::File | EntryMode::Executable | EntryMode::Symlink => true,
        EntryMode::NestedRepository | EntryMode::Folder => false,
    })
}

/// Whether the permissions that were found are those of an entry.
fn has_permissions(found: &DiskEntry, entry: &Entry) -> bool {
    permissions(found).is_none_or(|found| match entry.permissions {
        Some(wanted) => found == wanted,
        None => is_usual(found),
    })
}

/// The wanted entry with the permissions that a file gets if those that were found are not the expected ones: what both
/// sides allow, or what was found if the change is not about permissions.
fn with_found_permissions(before: Option<&Entry>, after: &Entry, found: &DiskEntry) -> Entry {
    let Some((mode, before)) = permissions(found).zip(before) else { return after.clone() };
    if !after.mode.is_file() || !before.mode.is_file() || has_permissions(found, before) {
        return after.clone();
    }
    let kept = permissions_for(after.mode, mode).mode() & 0o777;
    let kept = match after.permissions {
        wanted if wanted == before.permissions => kept,
        Some(wanted) => kept & wanted,
        None => kept & 0o775,
    };
    Entry { permissions: Some(kept), ..after.clone() }
}

const fn permissions(found: &DiskEntry) -> Option<u32> {
    match found {
        DiskEntry::File { mode, .. } => Some(*mode),
        DiskEntry::Absent
        | DiskEntry::Blocked(_)
        | DiskEntry::Nested(_)
        | DiskEntry::Folder
        | DiskEntry::Symlink(_)
        | DiskEntry::Other => None,
    }
}

impl ChangePlan {
    /// Whether nothing prevents the change.
    pub const fn is_possible(&self) -> bool {
        self.changed.is_empty() && self.in_the_way.is_empty()
    }

    /// The refusal of the change.
    pub fn refusal(self) -> SnapshotError {
        let Self { changed, mut in_the_way, .. } = self;
        in_the_way.sort();
        in_the_way.dedup();
        SnapshotError::Changed { changed, in_the_way }
    }

    /// Refuses a path that is inside a nested repository.
    pub fn refuse(&mut self, change: &PathChange, folder: PathBuf) {
        if writable(&change.before).is_some() {
            self.changed.push(change.path.clone());
        } else if writable(&change.after).is_some() {
            self.in_the_way.push(folder);
        }
    }

    /// Plans the change of one path. If it is inside a nested repository, returns that folder and plans
    /// nothing.
    pub fn add(
        &mut self,
        dir: &RootedDir,
        change: &PathChange,
        removed: &BTreeSet<&Path>,
    ) -> io::Result<Option<PathBuf>> {
        let path = &change.path;
        let found = dir.stat(path)?;
        if let DiskEntry::Nested(folder) = found {
            return Ok(Some(folder));
        }
        let is_nested = |entry: &Entry| entry.mode == EntryMode::NestedRepository;
        if [&change.before, &change.after].into_iter().flatten().any(is_nested) {
            self.nested.push(path.clone());
        }
        match (writable(&change.before), writable(&change.after)) {
            (None, None) => {}
            (Some(before), None) => self.add_removal(dir, path, &found, before)?,
            // Done already.
            (before, Some(after)) if dir.matches(path, &found, after)? => {
                let after = with_found_permissions(before, after, &found);
                if let Some(mode) = permissions(&found).filter(|_| !has_permissions(&found, &after))
                {
                    self.chmod.push((path.clone(), after, mode));
                }
            }
            (None, Some(after)) => self.add_new(dir, path, &found, after, removed)?,
            (Some(before), Some(after)) => {
                let after = with_found_permissions(Some(before), after, &found);
                if !dir.matches(path, &found, before)? {
                    self.changed.push(path.clone());
                } else if let Some(mode) = permissions(&found)
                    && before.object == after.object
                    && after.mode.is_file()
                {
                    self.chmod.push((path.clone(), after, mode));
                } else {
                    self.write.push((path.clone(), after, permissions(&found)));
                }
            }
        }
        Ok(None)
    }

    fn add_removal(
        &mut self,
        dir: &RootedDir,
        path: &Path,
        found: &DiskEntry,
        before: &Entry,
    ) -> io::Result<()> {
        self.absent.push(path.to_owned());
        match found {
            DiskEntry::Absent | DiskEntry::Blocked(_) | DiskEntry::Folder => {}
            DiskEntry::File { .. } | DiskEntry::Symlink(_)
                if dir.matches(path, found, before)? =>
            {
                self.remove.push(path.to_owned());
            }
            DiskEntry::File { .. }
            | DiskEntry::Symlink(_)
            | DiskEntry::Nested(_)
            | DiskEntry::Other => {
                self.changed.push(path.to_owned());
            }
        }
        Ok(())
    }

    fn add_new(
        &mut self,
        dir: &RootedDir,
        path: &Path,
        found: &DiskEntry,
        after: &Entry,
        removed: &BTreeSet<&Path>,
    ) -> io::Result<()> {
        match found {
            DiskEntry::Absent => {}
            DiskEntry::Blocked(by) if removed.contains(by.as_path()) => {}
            DiskEntry::Blocked(by) | DiskEntry::Nested(by) => self.in_the_way.push(by.clone()),
            DiskEntry::Folder => {
                let inside = dir.list(path)?.into_iter();
                let others = inside
                    .filter(|(inner, is_folder)| !is_folder && !removed.contains(inner.as_path()));
                self.in_the_way.extend(others.map(|(inner, _)| inner));
            }
            DiskEntry::File { .. } | DiskEntry::Symlink(_) | DiskEntry::Other => {
                self.in_the_way.push(path.to_owned());
            }
        }
        self.write.push((path.to_owned(), after.clone(), None));
        Ok(())
    }

    /// Fails if a folder is not writable, before anything is changed.
    pub fn check_writable(&self, dir: &RootedDir) -> Result<(), SnapshotError> {
        let written = self.write.iter().map(|(path, ..)| path);
        for path in written.chain(&self.remove) {
            let fail = |error| SnapshotError::file("change", path, &error);
            if !dir.is_writable(path).map_err(fail)? {
                return Err(fail(io::ErrorKind::PermissionDenied.into()));
            }
        }
        Ok(())
    }

    /// Carries out the plan. Removes first, so that a file can replace a folder and the other way round.
    pub fn apply(&self, dir: &RootedDir, staging: &StagingDir) -> Result<(), SnapshotError> {
        let mut done = 0;
        let mut count = |path: &Path, outcome: io::Result<()>| match outcome.and_then(|()| point())
        {
            Ok(()) => {
                done += 1;
                Ok(())
            }
            Err(error) => Err(SnapshotError::Interrupted {
                path: path.to_owned(),
                done,
                cause: error.to_string(),
            }),
        };
        for path in &self.remove {
            count(path, dir.remove(path))?;
        }
        for (number, (path, ..)) in self.write.iter().enumerate() {
            count(
                path,
                clear_folder(dir, path).and_then(|()| staging.move_into(number, dir, path)),
            )?;
        }
        for (path, entry, before) in &self.chmod {
            let wanted = staging.permissions(entry, Some(*before));
            let changed = dir.file(path).and_then(|file| file.set_permissions(wanted));
            count(path, changed)?;
        }
        let mut folders = BTreeSet::new();
        for path in &self.absent {
            let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            folders.extend(above);
        }
        for folder in folders.into_iter().rev() {
            // A folder that is not empty stays.
            dir.remove_folder(folder);
        }
        Ok(())
    }
}

/// Removes the empty folders where a file is to be written.
fn clear_folder(dir: &RootedDir, path: &Path) -> io::Result<()> {
    if !matches!(dir.stat(path)?, DiskEntry::Folder) {
        return Ok(());
    }
    for (inner, is_folder) in dir.list(path)? {
        if !is_folder {
            let what = format!("`{}` was created there meanwhile", inner.display());
            return Err(io::Error::other(what));
        }
        dir.remove_folder(&inner);
    }
    dir.remove_folder(path);
    Ok(())
}
