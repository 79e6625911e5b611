//! What a restore has to do, and the doing of it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::place::{Found, Place};
use super::stage::{Stage, permissions_for};
use super::{Entry, EntryMode, PathChange, SnapshotError};

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Paths to be written, with the permissions of the file that is replaced.
    pub write: Vec<(PathBuf, Entry, Option<u32>)>,
    /// Files of which only the mode is different.
    pub chmod: Vec<(PathBuf, EntryMode, u32)>,
    pub remove: Vec<PathBuf>,
    /// Paths that are not to be there: folders that they leave empty go.
    pub gone: Vec<PathBuf>,
    pub left: Vec<PathBuf>,
    pub changed: Vec<PathBuf>,
    pub in_the_way: Vec<PathBuf>,
}

/// What is written and removed: everything but nested repositories.
pub(super) fn plain(entry: &Option<Entry>) -> Option<&Entry> {
    entry.as_ref().filter(|entry| entry.mode != EntryMode::Nested)
}

pub(super) const fn permissions(found: &Found) -> Option<u32> {
    match found {
        Found::File { mode, .. } => Some(*mode),
        Found::Absent
        | Found::Blocked(_)
        | Found::Nested(_)
        | Found::Folder
        | Found::Link(_)
        | Found::Other => None,
    }
}

impl Plan {
    /// Refuses a path that is inside a repository of its own.
    pub fn refuse(&mut self, change: &PathChange, folder: PathBuf) {
        if plain(&change.before).is_some() {
            self.changed.push(change.path.clone());
        } else if plain(&change.after).is_some() {
            self.in_the_way.push(folder);
        }
    }

    /// Looks at one path and plans what to do about it; where it is inside a repository of its own,
    /// that folder is told and nothing planned.
    pub fn add(
        &mut self,
        place: &Place,
        change: &PathChange,
        doomed: &BTreeSet<&Path>,
    ) -> io::Result<Option<PathBuf>> {
        let path = &change.path;
        let found = place.look(path)?;
        if let Found::Nested(folder) = found {
            return Ok(Some(folder));
        }
        let is_nested = |entry: &Entry| entry.mode == EntryMode::Nested;
        if [&change.before, &change.after].into_iter().flatten().any(is_nested) {
            self.left.push(path.clone());
        }
        match (plain(&change.before), plain(&change.after)) {
            (None, None) => {}
            (Some(before), None) => self.add_removal(place, path, &found, before)?,
            // Done before.
            (_, Some(after)) if place.is(path, &found, after)? => {}
            (None, Some(after)) => self.add_new(place, path, &found, after, doomed)?,
            (Some(before), Some(after)) => {
                if !place.is(path, &found, before)? {
                    self.changed.push(path.clone());
                } else if let Some(mode) = permissions(&found)
                    && before.object == after.object
                    && after.mode.is_file()
                {
                    self.chmod.push((path.clone(), after.mode, mode));
                } else {
                    self.write.push((path.clone(), after.clone(), permissions(&found)));
                }
            }
        }
        Ok(None)
    }

    fn add_removal(
        &mut self,
        place: &Place,
        path: &Path,
        found: &Found,
        before: &Entry,
    ) -> io::Result<()> {
        self.gone.push(path.to_owned());
        match found {
            Found::Absent | Found::Blocked(_) | Found::Folder => {}
            Found::File { .. } | Found::Link(_) if place.is(path, found, before)? => {
                self.remove.push(path.to_owned());
            }
            Found::File { .. } | Found::Link(_) | Found::Nested(_) | Found::Other => {
                self.changed.push(path.to_owned());
            }
        }
        Ok(())
    }

    fn add_new(
        &mut self,
        place: &Place,
        path: &Path,
        found: &Found,
        after: &Entry,
        doomed: &BTreeSet<&Path>,
    ) -> io::Result<()> {
        match found {
            Found::Absent => {}
            Found::Blocked(by) if doomed.contains(by.as_path()) => {}
            Found::Blocked(by) | Found::Nested(by) => self.in_the_way.push(by.clone()),
            Found::Folder => {
                let inside = place.list(path)?.into_iter();
                let foreign = inside
                    .filter(|(inner, is_folder)| !is_folder && !doomed.contains(inner.as_path()));
                self.in_the_way.extend(foreign.map(|(inner, _)| inner));
            }
            Found::File { .. } | Found::Link(_) | Found::Other => {
                self.in_the_way.push(path.to_owned());
            }
        }
        self.write.push((path.to_owned(), after.clone(), None));
        Ok(())
    }

    /// Refuses before anything is touched where a folder cannot be changed.
    pub fn check_writable(&self, place: &Place) -> Result<(), SnapshotError> {
        let written = self.write.iter().map(|(path, ..)| path);
        for path in written.chain(&self.remove) {
            let fail = |error| SnapshotError::file("change", path, &error);
            if !place.is_writable(path).map_err(fail)? {
                return Err(fail(io::ErrorKind::PermissionDenied.into()));
            }
        }
        Ok(())
    }

    /// Does what was planned: removes first, so that a file can take a folder's place and the other
    /// way round.
    pub fn apply(&self, place: &Place, stage: &Stage) -> Result<(), SnapshotError> {
        let mut done = 0;
        let mut settle = |path: &Path, outcome: io::Result<()>| match outcome {
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
            settle(path, place.remove(path))?;
        }
        for (number, (path, ..)) in self.write.iter().enumerate() {
            settle(
                path,
                clear_folder(place, path).and_then(|()| stage.place(number, place, path)),
            )?;
        }
        for (path, mode, before) in &self.chmod {
            let changed = place
                .file(path)
                .and_then(|file| file.set_permissions(permissions_for(*mode, *before)));
            settle(path, changed)?;
        }
        let mut folders = BTreeSet::new();
        for path in &self.gone {
            let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            folders.extend(above);
        }
        for folder in folders.into_iter().rev() {
            // One that is not empty stays.
            place.remove_folder(folder);
        }
        Ok(())
    }
}

/// Removes the empty folders that stand where a file is to be.
fn clear_folder(place: &Place, path: &Path) -> io::Result<()> {
    if !matches!(place.look(path)?, Found::Folder) {
        return Ok(());
    }
    for (inner, is_folder) in place.list(path)? {
        if !is_folder {
            let what = format!("`{}` has come there meanwhile", inner.display());
            return Err(io::Error::other(what));
        }
        place.remove_folder(&inner);
    }
    place.remove_folder(path);
    Ok(())
}
