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
use super::plan::{Plan, permissions, plain};
use super::state::Kept;
use super::workspace::Workspace;
use super::{Entry, PathChange, SnapshotError, Snapshots};
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
        let mut place = Place::open(&workspace.folder, self.format())
            .map_err(|error| fail(&workspace.folder, &error))?;
        let doomed: BTreeSet<&Path> = changes
            .iter()
            .filter(|change| plain(&change.before).is_some() && plain(&change.after).is_none())
            .map(|change| change.path.as_path())
            .collect();
        let mut plan = Plan::default();
        for change in &changes {
            let add = |plan: &mut Plan, place: &Place| {
                let added = plan.add(place, change, &doomed);
                added.map_err(|error| fail(&change.path, &error))
            };
            while let Some(folder) = add(&mut plan, &place)? {
                if !self.has_folder(from, &folder)? {
                    plan.refuse(change, folder);
                    break;
                }
                place.allow(folder);
            }
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

    /// Tells whether a snapshot has files in a folder. Then they are the workspace's, even if the
    /// folder became a repository since.
    fn has_folder(&self, tree: &TreeId, folder: &Path) -> Result<bool, SnapshotError> {
        let git = self.objects_git("look into the snapshot", Kind::Read);
        let git = git.args(["ls-tree", "-z", "-d", "--full-tree", tree.as_str(), "--"]);
        Ok(git.arg(folder).output()?.starts_with(b"040000 "))
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
