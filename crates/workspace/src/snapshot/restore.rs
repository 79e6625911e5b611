//! Restores a workspace from one snapshot to another.
//!
//! Only paths that differ between the two are read and changed. Everything is checked before anything
//! is changed; files are written completely to a staging directory, then moved into place, so that after
//! a crash every path is as one of the two snapshots has it, and restoring again completes it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::extras::restore_folders;
use super::index_state::SavedIndex;
use super::object_reader::ObjectReader;
use super::restore_plan::{RestorePlan, permissions, writable};
use super::rooted_dir::{DiskEntry, RootedDir};
use super::staging::StagingDir;
use super::workspace::Workspace;
use super::{Entry, PathChange, SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::{Access, GitCause};

const OPERATION: &str = "read";

/// The result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Paths that were written.
    pub written: Vec<PathBuf>,
    /// Paths that were removed.
    pub removed: Vec<PathBuf>,
    /// Nested repositories that differ between the snapshots; they are never touched.
    pub nested: Vec<PathBuf>,
}

/// Whether a restore is started or continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreMode<'a> {
    /// It is started: a path that differs from the old snapshot refuses the restore.
    First,
    /// It was interrupted and is continued: a path that matches neither snapshot may be the result of a
    /// power failure. The workspace is captured under the reference `backup` first, then such a path is
    /// restored like the others.
    Resume {
        /// The reference of the capture.
        backup: &'a str,
    },
}

impl Snapshots {
    /// Restores a workspace, which is as the snapshot `from` has it, to the snapshot `to`.
    ///
    /// Paths that are the same in both are neither read nor changed, nor are paths that neither has. A
    /// path that is already as `to` has it is not changed. A folder that becomes empty is removed. The
    /// user's index and branch stay as they are.
    ///
    /// # Errors
    /// [`SnapshotError::Changed`] before anything is changed, when a path is not as `from` has it or
    /// something is in the way; [`SnapshotError::Interrupted`] when the file system failed half-way.
    pub fn restore(
        &self,
        workspace: &Path,
        from: &TreeId,
        to: &TreeId,
        mode: RestoreMode<'_>,
    ) -> Result<Restored, SnapshotError> {
        let workspace = self.workspace(workspace)?;
        let _lock = workspace.lock(&self.private)?;
        let changes = self.changes(from, to)?;
        let fail = |path: &Path, error: &io::Error| SnapshotError::file(OPERATION, path, error);
        let mut dir = RootedDir::open(&workspace.folder, self.format())
            .map_err(|error| fail(&workspace.folder, &error))?;
        let removed: BTreeSet<&Path> = changes
            .iter()
            .filter(|change| {
                writable(&change.before).is_some() && writable(&change.after).is_none()
            })
            .map(|change| change.path.as_path())
            .collect();
        let mut plan = RestorePlan::default();
        for change in &changes {
            let add = |plan: &mut RestorePlan, dir: &RootedDir| {
                let added = plan.add(dir, change, &removed);
                added.map_err(|error| fail(&change.path, &error))
            };
            while let Some(folder) = add(&mut plan, &dir)? {
                if !self.has_folder(from, &folder)? {
                    plan.refuse(change, folder);
                    break;
                }
                dir.allow(folder);
            }
        }
        if let RestoreMode::Resume { backup } = mode
            && !plan.changed.is_empty()
        {
            self.back_up_changed(&workspace, from, &dir, &changes, &mut plan, backup)?;
        }
        if !plan.changed.is_empty() || !plan.in_the_way.is_empty() {
            let RestorePlan { changed, mut in_the_way, .. } = plan;
            in_the_way.sort();
            in_the_way.dedup();
            return Err(SnapshotError::Changed { changed, in_the_way });
        }
        let (before, after) = (self.contents(from)?, self.contents(to)?);
        plan.check_writable(&dir)?;
        let staging = StagingDir::create(workspace.staging(&self.private))?;
        let mut objects = ObjectReader::new(self);
        for (number, (_, entry, permissions)) in plan.write.iter().enumerate() {
            staging.write(number, entry, *permissions, to, &mut objects)?;
        }
        plan.apply(&dir, &staging)?;
        restore_folders(&dir, &before.extras, &after.extras);
        self.update_private_index(&workspace, &changes)?;
        let chmod = plan.chmod.into_iter().map(|(path, ..)| path);
        let mut written: Vec<PathBuf> =
            plan.write.into_iter().map(|(path, ..)| path).chain(chmod).collect();
        written.sort();
        Ok(Restored { written, removed: plan.remove, nested: plan.nested })
    }

    /// Whether a snapshot has files in a folder. Then they belong to the workspace, even if the folder
    /// became a repository since.
    fn has_folder(&self, tree: &TreeId, folder: &Path) -> Result<bool, SnapshotError> {
        let git = self.objects_git("read the snapshot", Access::Read);
        let git = git.args(["ls-tree", "-z", "-d", "--full-tree", tree.as_str(), "--"]);
        Ok(git.arg(folder).output()?.starts_with(b"040000 "))
    }

    /// Captures the workspace, and plans to overwrite the paths that match neither snapshot.
    fn back_up_changed(
        &self,
        workspace: &Workspace,
        from: &TreeId,
        dir: &RootedDir,
        changes: &[PathChange],
        plan: &mut RestorePlan,
        backup: &str,
    ) -> Result<(), SnapshotError> {
        let now = self.capture_locked(workspace)?.tree;
        let captured: BTreeMap<PathBuf, Option<Entry>> = self
            .changes(from, &now)?
            .into_iter()
            // An empty folder may be where a file was.
            .filter(|change| !change.is_of_folder())
            .map(|change| (change.path, change.after))
            .collect();
        self.set_reference(&now, backup)?;
        let unmatched = std::mem::take(&mut plan.changed);
        for change in changes.iter().filter(|change| unmatched.contains(&change.path)) {
            let path = &change.path;
            let fail = |error| SnapshotError::file(OPERATION, path, &error);
            let found = dir.stat(path).map_err(fail)?;
            let entry = captured.get(path).and_then(Option::as_ref);
            let safe = match (&found, entry) {
                (DiskEntry::Absent, _) => true,
                (DiskEntry::File { .. } | DiskEntry::Symlink(_), Some(entry)) => dir
                    .matches(path, &found, &Entry { size: None, ..entry.clone() })
                    .map_err(fail)?,
                (
                    DiskEntry::File { .. }
                    | DiskEntry::Symlink(_)
                    | DiskEntry::Blocked(_)
                    | DiskEntry::Nested(_)
                    | DiskEntry::Folder
                    | DiskEntry::Other,
                    _,
                ) => false,
            };
            match (safe, writable(&change.after)) {
                (false, _) => plan.changed.push(path.clone()),
                (true, Some(after)) => {
                    plan.write.push((path.clone(), after.clone(), permissions(&found)));
                }
                (true, None) => plan.remove.push(path.clone()),
            }
        }
        Ok(())
    }

    /// Updates the private index to the new snapshot, so that an ignored file that is part of the snapshot
    /// is part of the next one too. If that fails, the next capture makes a new index.
    fn update_private_index(
        &self,
        workspace: &Workspace,
        changes: &[PathChange],
    ) -> Result<(), SnapshotError> {
        let SavedIndex::Intact(mut state) = self.load_index_state(workspace) else { return Ok(()) };
        let prefix = workspace.prefix();
        let zeros = "0".repeat(self.format().bytes() * 2);
        let (mut removed, mut present) = (Vec::new(), Vec::new());
        for change in changes {
            let (lines, facts) = match (writable(&change.before), writable(&change.after)) {
                (None, None) => continue,
                (_, Some(entry)) => {
                    (&mut present, format!("{} {}\t", entry.mode.as_str(), entry.object))
                }
                (Some(_), None) => (&mut removed, format!("0 {zeros}\t")),
            };
            lines.extend_from_slice(facts.as_bytes());
            lines.extend_from_slice(&prefix);
            lines.extend_from_slice(change.path.as_os_str().as_encoded_bytes());
            lines.push(0);
        }
        removed.extend_from_slice(&present);
        if removed.is_empty() {
            return Ok(());
        }
        let git = self.workspace_git("update the private index", Access::Write, workspace);
        let git = git.args(["update-index", "--replace", "-z", "--index-info"]).stdin(removed);
        match git.output() {
            Ok(_) => {
                state.tree = None;
                self.save_index_state(workspace, *state)
            }
            Err(error) if matches!(error.cause, GitCause::Exit { .. } | GitCause::Locked(_)) => {
                self.remove_index(workspace)
            }
            Err(error) => Err(error.into()),
        }
    }
}
