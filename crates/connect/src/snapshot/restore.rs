//! Restoring: a workspace from one snapshot to another.
//!
//! Only what differs between the two is looked at and touched. Everything is checked before anything
//! is changed; contents are written aside in full, then moved into place, so that after a crash every
//! path is as one of the two snapshots has it, and asking again finishes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::objects::Objects;
use super::place::{Found, Place};
use super::stage::{Stage, permissions_for};
use super::state::Kept;
use super::workspace::Workspace;
use super::{Entry, EntryMode, PathChange, SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::{GitCause, Kind};

const OPERATION: &str = "look at";

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Paths that were written.
    pub written: Vec<PathBuf>,
    /// Paths that were removed.
    pub removed: Vec<PathBuf>,
    /// Nested repositories that differ between the snapshots; they are never touched.
    pub left: Vec<PathBuf>,
}

/// Whether a restore was begun before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume<'a> {
    /// It was not: a path that is not as it was captured refuses the restore.
    No,
    /// It was, and did not end: such a path, if the restore would change it, may be what a power
    /// failure left of it. The workspace is captured under the name `aside` first, then the path is
    /// brought to its new state like the others.
    Yes {
        /// Where to keep what is overwritten.
        aside: &'a str,
    },
}

/// What is to be done.
#[derive(Debug, Default)]
struct Plan {
    /// Paths to be written, with the permissions of the file that is replaced.
    write: Vec<(PathBuf, Entry, Option<u32>)>,
    /// Files of which only the mode is different.
    chmod: Vec<(PathBuf, EntryMode, u32)>,
    remove: Vec<PathBuf>,
    /// Paths that are not to be there: folders that they leave empty go.
    gone: Vec<PathBuf>,
    left: Vec<PathBuf>,
    changed: Vec<PathBuf>,
    in_the_way: Vec<PathBuf>,
}

impl Snapshots {
    /// Brings a workspace from a snapshot that was captured of it to another one.
    ///
    /// Paths that are the same in both are neither looked at nor touched, nor is anything that
    /// neither has. A path that is already as `to` has it is left alone. A folder that is left empty
    /// is removed. The user's index and branch stay as they are.
    ///
    /// # Errors
    /// [`SnapshotError::Changed`] before anything is touched, when a path is not as `from` has it or
    /// something is in the way; [`SnapshotError::Interrupted`] when the file system failed half-way.
    pub fn restore(
        &self,
        workspace: &Path,
        from: &TreeId,
        to: &TreeId,
        resume: Resume<'_>,
    ) -> Result<Restored, SnapshotError> {
        let workspace = self.workspace(workspace)?;
        let _lock = workspace.lock(&self.private)?;
        let changes = self.changes(from, to)?;
        let fail = |path: &Path, error: &io::Error| SnapshotError::file(OPERATION, path, error);
        let place = Place::open(&workspace.folder, self.format())
            .map_err(|error| fail(&workspace.folder, &error))?;
        let doomed: BTreeSet<&Path> = changes
            .iter()
            .filter(|change| plain(&change.before).is_some() && plain(&change.after).is_none())
            .map(|change| change.path.as_path())
            .collect();
        let mut plan = Plan::default();
        for change in &changes {
            plan.add(&place, change, &doomed).map_err(|error| fail(&change.path, &error))?;
        }
        if let Resume::Yes { aside } = resume
            && !plan.changed.is_empty()
        {
            self.put_aside(&workspace, from, &place, &changes, &mut plan, aside)?;
        }
        if !plan.changed.is_empty() || !plan.in_the_way.is_empty() {
            let Plan { changed, mut in_the_way, .. } = plan;
            in_the_way.sort();
            in_the_way.dedup();
            return Err(SnapshotError::Changed { changed, in_the_way });
        }
        plan.check_writable(&place)?;
        let stage = self.stage(&workspace)?;
        let mut objects = Objects::new(self);
        for (number, (_, entry, permissions)) in plan.write.iter().enumerate() {
            stage.fill(number, entry, *permissions, to, &mut objects)?;
        }
        plan.apply(&place, &stage)?;
        self.follow(&workspace, &changes)?;
        let chmod = plan.chmod.into_iter().map(|(path, ..)| path);
        let mut written: Vec<PathBuf> =
            plan.write.into_iter().map(|(path, ..)| path).chain(chmod).collect();
        written.sort();
        Ok(Restored { written, removed: plan.remove, left: plan.left })
    }

    /// Keeps what is neither as it was nor as it is to be, and plans to overwrite it.
    fn put_aside(
        &self,
        workspace: &Workspace,
        from: &TreeId,
        place: &Place,
        changes: &[PathChange],
        plan: &mut Plan,
        aside: &str,
    ) -> Result<(), SnapshotError> {
        let now = self.capture_locked(workspace)?.tree;
        let captured: BTreeMap<PathBuf, Option<Entry>> = self
            .changes(from, &now)?
            .into_iter()
            .map(|change| (change.path, change.after))
            .collect();
        self.keep(&now, aside)?;
        let unsettled = std::mem::take(&mut plan.changed);
        for change in changes.iter().filter(|change| unsettled.contains(&change.path)) {
            let path = &change.path;
            let fail = |error| SnapshotError::file(OPERATION, path, &error);
            let found = place.look(path).map_err(fail)?;
            let kept = captured.get(path).and_then(Option::as_ref);
            let safe = match (&found, kept) {
                (Found::Absent, _) => true,
                (Found::File { .. } | Found::Link(_), Some(entry)) => {
                    place.is(path, &found, &Entry { size: None, ..entry.clone() }).map_err(fail)?
                }
                (
                    Found::File { .. }
                    | Found::Link(_)
                    | Found::Blocked(_)
                    | Found::Nested(_)
                    | Found::Folder
                    | Found::Other,
                    _,
                ) => false,
            };
            match (safe, plain(&change.after)) {
                (false, _) => plan.changed.push(path.clone()),
                (true, Some(after)) => {
                    plan.write.push((path.clone(), after.clone(), permissions(&found)));
                }
                (true, None) => plan.remove.push(path.clone()),
            }
        }
        Ok(())
    }

    /// Brings the private index to the new snapshot, so that a file which is ignored and part of the
    /// snapshot is part of the next one too. What cannot be followed is found out by the next capture.
    fn follow(&self, workspace: &Workspace, changes: &[PathChange]) -> Result<(), SnapshotError> {
        let Kept::Index(mut state) = self.kept(workspace) else { return Ok(()) };
        let prefix = workspace.prefix();
        let zeros = "0".repeat(self.format().bytes() * 2);
        let (mut gone, mut present) = (Vec::new(), Vec::new());
        for change in changes {
            let (lines, facts) = match (plain(&change.before), plain(&change.after)) {
                (None, None) => continue,
                (_, Some(entry)) => {
                    (&mut present, format!("{} {}\t", entry.mode.as_str(), entry.object))
                }
                (Some(_), None) => (&mut gone, format!("0 {zeros}\t")),
            };
            lines.extend_from_slice(facts.as_bytes());
            lines.extend_from_slice(&prefix);
            lines.extend_from_slice(change.path.as_os_str().as_encoded_bytes());
            lines.push(0);
        }
        gone.extend_from_slice(&present);
        if gone.is_empty() {
            return Ok(());
        }
        let git = self.workspace_git("follow the restore", Kind::Write, workspace);
        let git = git.args(["update-index", "--replace", "-z", "--index-info"]).stdin(gone);
        match git.output() {
            Ok(_) => {
                state.tree = None;
                self.keep_state(workspace, state)
            }
            Err(error) if matches!(error.cause, GitCause::Exit { .. } | GitCause::Locked(_)) => {
                self.drop_index(workspace)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// What is written and removed: everything but nested repositories.
fn plain(entry: &Option<Entry>) -> Option<&Entry> {
    entry.as_ref().filter(|entry| entry.mode != EntryMode::Nested)
}

const fn permissions(found: &Found) -> Option<u32> {
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
    /// Looks at one path and plans what to do about it.
    fn add(
        &mut self,
        place: &Place,
        change: &PathChange,
        doomed: &BTreeSet<&Path>,
    ) -> io::Result<()> {
        let path = &change.path;
        let (before, after) = (plain(&change.before), plain(&change.after));
        if [&change.before, &change.after].into_iter().flatten().any(|entry| plain_is_not(entry)) {
            self.left.push(path.clone());
        }
        let found = place.look(path)?;
        let Some(after) = after else {
            let Some(before) = before else { return Ok(()) };
            self.gone.push(path.clone());
            match &found {
                Found::Absent | Found::Blocked(_) | Found::Folder => {}
                Found::File { .. } | Found::Link(_) if place.is(path, &found, before)? => {
                    self.remove.push(path.clone());
                }
                Found::File { .. } | Found::Link(_) | Found::Nested(_) | Found::Other => {
                    self.changed.push(path.clone());
                }
            }
            return Ok(());
        };
        if place.is(path, &found, after)? {
            return Ok(());
        }
        let Some(before) = before else {
            match &found {
                Found::Absent => {}
                Found::Blocked(by) if doomed.contains(by.as_path()) => {}
                Found::Blocked(by) | Found::Nested(by) => self.in_the_way.push(by.clone()),
                Found::Folder => {
                    let inside = place.list(path)?.into_iter();
                    let foreign = inside.filter(|(inner, is_folder)| {
                        !is_folder && !doomed.contains(inner.as_path())
                    });
                    self.in_the_way.extend(foreign.map(|(inner, _)| inner));
                }
                Found::File { .. } | Found::Link(_) | Found::Other => {
                    self.in_the_way.push(path.clone());
                }
            }
            self.write.push((path.clone(), after.clone(), None));
            return Ok(());
        };
        if !place.is(path, &found, before)? {
            self.changed.push(path.clone());
        } else if let (true, Some(mode)) = (before.object == after.object, permissions(&found))
            && after.mode.is_file()
        {
            self.chmod.push((path.clone(), after.mode, mode));
        } else {
            self.write.push((path.clone(), after.clone(), permissions(&found)));
        }
        Ok(())
    }

    /// Refuses before anything is touched where a folder cannot be changed.
    fn check_writable(&self, place: &Place) -> Result<(), SnapshotError> {
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
    fn apply(&self, place: &Place, stage: &Stage) -> Result<(), SnapshotError> {
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

fn plain_is_not(entry: &Entry) -> bool {
    entry.mode == EntryMode::Nested
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
