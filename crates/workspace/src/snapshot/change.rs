//! The one operation that changes a workspace.
//!
//! It is told the files that are expected and those that are wanted, and compares every path in which the two differ with
//! what lies there now: content, type and permissions, whether git tracks or ignores it or not. The whole is decided before
//! anything is touched: a path is done already, may be written, is merged, or is in conflict, and one conflict refuses the
//! whole. Files are written completely to a staging directory, then moved into place below an open folder.
//!
//! INVARIANT: nothing is overwritten or removed that is not in a snapshot with a reference of this operation, and after a
//! crash at any point the same operation comes to the same end.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use super::change_plan::{ChangePlan, writable};
use super::extras::restore_folders;
use super::index_state::SavedIndex;
use super::merge::Renames;
use super::object_reader::ObjectReader;
use super::rooted_dir::RootedDir;
use super::staging::StagingDir;
use super::workspace::Workspace;
use super::{Merged, PathChange, SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::{Access, GitCause};

const OPERATION: &str = "read";
/// The names of the references of an operation, in its folder; a number follows the last two.
const BEFORE: &str = "before";
const AFTER: &str = "after";
const FOUND: &str = "found-";
const MERGED: &str = "merged-";

/// A change of a workspace.
#[derive(Clone, Copy, Debug)]
pub struct WorkspaceChange<'a> {
    /// The snapshot of the files as they are expected to be.
    pub expected: &'a TreeId,
    /// The snapshot of the files as they are to be.
    pub wanted: &'a TreeId,
    /// The folder of the references that keep everything that the operation reads. Each operation has its own, and has it
    /// again when it is repeated.
    pub keep: &'a str,
    /// The treatment of files that are neither as expected nor as wanted and cannot be merged.
    pub on_conflict: OnConflict,
}

/// The treatment of files that are neither as expected nor as wanted and cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// They refuse the change.
    Refuse,
    /// They are overwritten, after they were captured under a reference of the operation. What no snapshot can have, such
    /// as an ignored file, still refuses the change.
    Overwrite,
}

/// The result of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Paths that were written.
    pub written: Vec<PathBuf>,
    /// Paths that were removed.
    pub removed: Vec<PathBuf>,
    /// Nested repositories that differ between the snapshots; they are never touched.
    pub nested: Vec<PathBuf>,
    /// The snapshot of the files that were found, if some were not as expected.
    pub found: Option<TreeId>,
}

/// What is written where, and why that loses nothing.
struct Decision {
    plan: ChangePlan,
    /// The snapshot that the written files are from.
    to: TreeId,
    /// The paths in which the snapshots differ.
    changes: Vec<PathChange>,
    /// The files that were found, if some were not as expected.
    found: Option<TreeId>,
    /// Whether the references of what was found have to be set.
    is_new: bool,
}

impl Snapshots {
    /// Decides a change without touching the workspace, and sets its references: whoever records that the change is about
    /// to be made knows that it can be made.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub fn prepare_change(
        &self,
        workspace: &Path,
        change: &WorkspaceChange<'_>,
    ) -> Result<(), SnapshotError> {
        let workspace = self.workspace(workspace)?;
        let _lock = workspace.lock(&self.private)?;
        self.decide(&workspace, change)?;
        self.keep_inputs(change)
    }

    /// Changes the files of a workspace from those that are expected to those that are wanted.
    ///
    /// Paths that are the same in both are neither read nor changed, nor are paths that neither has. A path that is
    /// already as wanted is not changed. Where a file is neither, the changes of both sides are merged. A folder that
    /// becomes empty is removed. The user's index and branch stay as they are.
    ///
    /// # Errors
    /// [`SnapshotError::Changed`] before anything is changed, when a path has changed in another way or something is in
    /// the way; [`SnapshotError::Interrupted`] when the file system failed half-way, after which the same change can be
    /// made again.
    pub fn change(
        &self,
        workspace: &Path,
        change: &WorkspaceChange<'_>,
    ) -> Result<Changed, SnapshotError> {
        let workspace = self.workspace(workspace)?;
        let _lock = workspace.lock(&self.private)?;
        let (dir, decision) = self.decide(&workspace, change)?;
        self.keep_inputs(change)?;
        let Decision { plan, to, changes, found, is_new } = decision;
        if let Some(found) = found.as_ref().filter(|_| is_new) {
            self.record_decision(change.keep, found, &to)?;
        }
        let (before, after) = (self.contents(change.expected)?, self.contents(change.wanted)?);
        let staging = StagingDir::create(workspace.staging(&self.private))?;
        let mut objects = ObjectReader::new(self);
        for (number, (_, entry, permissions)) in plan.write.iter().enumerate() {
            staging.write(number, entry, *permissions, &to, &mut objects)?;
        }
        StagingDir::sync(plan.write.len());
        plan.apply(&dir, &staging)?;
        restore_folders(&dir, &before.extras, &after.extras);
        self.update_private_index(&workspace, &changes)?;
        let chmod = plan.chmod.into_iter().map(|(path, ..)| path);
        let mut written: Vec<PathBuf> =
            plan.write.into_iter().map(|(path, ..)| path).chain(chmod).collect();
        written.sort();
        Ok(Changed { written, removed: plan.remove, nested: plan.nested, found })
    }

    /// Decides every path of a change.
    fn decide(
        &self,
        workspace: &Workspace,
        change: &WorkspaceChange<'_>,
    ) -> Result<(RootedDir, Decision), SnapshotError> {
        let mut dir = RootedDir::open(&workspace.folder, self.format())
            .map_err(|error| SnapshotError::file(OPERATION, &workspace.folder, &error))?;
        let (expected, wanted) = (change.expected, change.wanted);
        let changes = self.changes(expected, wanted)?;
        let plan = self.plan(&mut dir, expected, &changes)?;
        if plan.is_possible() {
            plan.check_writable(&dir)?;
            let to = wanted.clone();
            return Ok((dir, Decision { plan, to, changes, found: None, is_new: false }));
        }
        let paths: BTreeSet<PathBuf> = changes.into_iter().map(|one| one.path).collect();
        let of_change = |from: &TreeId, to: &TreeId| -> Result<Vec<PathChange>, SnapshotError> {
            let mut changes = self.changes(from, to)?;
            changes.retain(|one| paths.contains(&one.path) || is_in_the_way(&one.path, &paths));
            Ok(changes)
        };
        // An interrupted attempt of the same operation may have met other files already.
        let recorded = self.recorded_decision(change.keep)?;
        if let Some((found, merged)) = &recorded {
            let changes = of_change(found, merged)?;
            let again = self.plan(&mut dir, found, &changes)?;
            if again.is_possible() {
                again.check_writable(&dir)?;
                let (to, found) = (merged.clone(), Some(found.clone()));
                return Ok((dir, Decision { plan: again, to, changes, found, is_new: false }));
            }
        }
        let (base, goal) = recorded.unwrap_or_else(|| (expected.clone(), wanted.clone()));
        let found = self.while_objects_vanish(workspace, || self.capture_locked(workspace))?.tree;
        let to = match change.on_conflict {
            OnConflict::Overwrite => wanted.clone(),
            OnConflict::Refuse => match self.merge_with(&base, &found, &goal, Renames::Ignore) {
                Ok(Merged::Clean(tree)) => tree,
                // An old git cannot merge.
                Ok(Merged::Conflict { .. }) | Err(SnapshotError::Git(_)) => {
                    return Err(plan.refusal());
                }
                Err(error) => return Err(error),
            },
        };
        let changes = of_change(&found, &to)?;
        let plan = self.plan(&mut dir, &found, &changes)?;
        if !plan.is_possible() {
            return Err(plan.refusal());
        }
        plan.check_writable(&dir)?;
        Ok((dir, Decision { plan, to, changes, found: Some(found), is_new: true }))
    }

    /// Compares the paths of a change with what lies there now.
    fn plan(
        &self,
        dir: &mut RootedDir,
        from: &TreeId,
        changes: &[PathChange],
    ) -> Result<ChangePlan, SnapshotError> {
        let removed: BTreeSet<&Path> = changes
            .iter()
            .filter(|change| {
                writable(&change.before).is_some() && writable(&change.after).is_none()
            })
            .map(|change| change.path.as_path())
            .collect();
        let mut plan = ChangePlan::default();
        for change in changes {
            let add = |plan: &mut ChangePlan, dir: &RootedDir| {
                let added = plan.add(dir, change, &removed);
                added.map_err(|error| SnapshotError::file(OPERATION, &change.path, &error))
            };
            while let Some(folder) = add(&mut plan, dir)? {
                if !self.has_folder(from, &folder)? {
                    plan.refuse(change, folder);
                    break;
                }
                dir.allow(folder);
            }
        }
        Ok(plan)
    }

    /// Sets the references of the two snapshots of a change.
    fn keep_inputs(&self, change: &WorkspaceChange<'_>) -> Result<(), SnapshotError> {
        let named = |side: &str| format!("{}/{side}", change.keep);
        self.set_references(&[(&named(BEFORE), change.expected), (&named(AFTER), change.wanted)])
    }

    /// Records the files that were found and what they become, under the next number.
    fn record_decision(
        &self,
        keep: &str,
        found: &TreeId,
        merged: &TreeId,
    ) -> Result<(), SnapshotError> {
        let next = self.decisions(keep)?.last().map_or(1, |(number, ..)| number + 1);
        self.set_references(&[
            (&format!("{keep}/{FOUND}{next}"), found),
            (&format!("{keep}/{MERGED}{next}"), merged),
        ])
    }

    /// What an interrupted attempt of an operation has found last, and what it was to become.
    fn recorded_decision(&self, keep: &str) -> Result<Option<(TreeId, TreeId)>, SnapshotError> {
        Ok(self.decisions(keep)?.pop().map(|(_, found, merged)| (found, merged)))
    }

    /// The recorded decisions of an operation, by their numbers.
    fn decisions(&self, keep: &str) -> Result<Vec<(u64, TreeId, TreeId)>, SnapshotError> {
        let folder = format!("{}/", super::reference::ref_name(keep)?);
        let all = self.own_references(&folder)?;
        let side = |prefix: &str, number: u64| {
            let name = format!("{keep}/{prefix}{number}");
            all.iter().find(|(other, _)| *other == name).map(|(_, tree)| tree.clone())
        };
        let number = |name: &str| {
            name.strip_prefix(keep)?.strip_prefix('/')?.strip_prefix(MERGED)?.parse().ok()
        };
        let mut numbers: Vec<u64> = all.iter().filter_map(|(name, _)| number(name)).collect();
        numbers.sort_unstable();
        let both = |number| Some((number, side(FOUND, number)?, side(MERGED, number)?));
        Ok(numbers.into_iter().filter_map(both).collect())
    }

    /// Whether a snapshot has files in a folder. Then they belong to the workspace, even if the folder
    /// became a repository since.
    fn has_folder(&self, tree: &TreeId, folder: &Path) -> Result<bool, SnapshotError> {
        let git = self.objects_git("read the snapshot", Access::Read);
        let git = git.args(["ls-tree", "-z", "-d", "--full-tree", tree.as_str(), "--"]);
        Ok(git.arg(folder).output()?.starts_with(b"040000 "))
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

/// Whether one of the written paths is where this path has a folder, or has a folder where this path is.
#[must_use]
pub fn is_in_the_way(path: &Path, written: &BTreeSet<PathBuf>) -> bool {
    let below = (Bound::Excluded(path), Bound::Unbounded);
    let first_below = written.range::<Path, _>(below).next();
    path.ancestors().skip(1).any(|folder| written.contains(folder))
        || first_below.is_some_and(|below| below.starts_with(path))
}
