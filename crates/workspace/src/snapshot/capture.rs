//! Captures a workspace as a tree.
//!
//! The private index of a workspace stays between captures, so that a file is read only when its
//! size, times or inode have changed since. Two git invocations list the changes, in parallel, and a third one the
//! files of new folders; two more add them to the index and write the tree; one looks for objects that only the user's
//! repository has, and one sets the ref.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use super::extras::{Extras, note_modes};
use super::index_state::{IndexState, RawPath, SavedIndex};
use super::user_index::{file_stamp, tracked_digest};
use super::workspace::{Workspace, exists};
use super::{SnapshotError, Snapshots};
use crate::git::{Access, GitCause, Invocation, id_of, os, path_of, split_once};
use crate::hidden_files::{hidden_now, is_secret_file};
use crate::{GitError, TreeId, names_lost_object, while_objects_vanish};

const OPERATION: &str = "capture the workspace";
/// How git writes the mode of a nested repository.
const NESTED_MODE: &[u8] = b"160000";

/// A captured workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The snapshot.
    pub tree: TreeId,
    /// Repositories inside the workspace, whose files are not part of the snapshot; it records the
    /// current commit of each that has one.
    pub nested: Vec<PathBuf>,
}

/// The paths that differ from the private index, relative to the top.
#[derive(Debug, Default)]
struct WorkspaceChanges {
    /// Files that were removed, or are no longer files.
    removed: BTreeSet<Vec<u8>>,
    /// Files that are new or may have changed.
    files: BTreeSet<Vec<u8>>,
    /// Nested repositories that are new or at another commit.
    nested: BTreeSet<Vec<u8>>,
    /// Empty folders, relative to the workspace.
    empty_folders: BTreeSet<RawPath>,
}

impl Snapshots {
    /// Captures a workspace and sets a reference to the snapshot.
    ///
    /// # Errors
    /// [`SnapshotError`]; then the reference is unchanged.
    pub fn capture(&self, workspace: &Path, reference: &str) -> Result<Capture, SnapshotError> {
        let name = super::reference::ref_name(reference)?;
        let workspace = self.workspace(workspace)?;
        let lock = workspace.lock(&self.private)?;
        let objects = self.lock_objects()?;
        let capture = self.while_objects_vanish(&workspace, || {
            let capture = self.capture_locked(&workspace)?;
            self.update_ref(&name, &capture.tree)?;
            Ok(capture)
        })?;
        drop((objects, lock));
        self.pack_if_many(reference);
        Ok(capture)
    }

    /// Captures again if somebody's `git gc --prune=now` removes objects of the user's repository that are not protected
    /// yet: a capture with a new index writes all of them.
    pub(super) fn while_objects_vanish(
        &self,
        workspace: &Workspace,
        mut act: impl FnMut() -> Result<Capture, SnapshotError>,
    ) -> Result<Capture, SnapshotError> {
        let is_lost = |error: &SnapshotError| matches!(error, SnapshotError::Git(error) if names_lost_object(&error.to_string()));
        let mut is_first = true;
        while_objects_vanish(is_lost, || {
            if !std::mem::take(&mut is_first) {
                self.remove_index(workspace)?;
            }
            act()
        })
    }

    /// Captures a workspace without a reference: the snapshot may be pruned two weeks later.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn capture_unreferenced(&self, workspace: &Path) -> Result<Capture, SnapshotError> {
        let workspace = self.workspace(workspace)?;
        let _lock = workspace.lock(&self.private)?;
        self.while_objects_vanish(&workspace, || self.capture_locked(&workspace))
    }

    /// Captures a workspace whose lock is held.
    pub(super) fn capture_locked(&self, workspace: &Workspace) -> Result<Capture, SnapshotError> {
        let _objects = self.lock_objects()?;
        let last = match self.load_index_state(workspace) {
            SavedIndex::Unusable { last } => {
                if last.is_none() {
                    // A new work tree: others may be gone. What cannot be removed is tried again with the next one.
                    drop(self.sweep_workspaces());
                }
                last
            }
            SavedIndex::Intact(state) => {
                let last = state.tree.clone();
                match self.capture_with(workspace, *state) {
                    // The index may be the cause: try once more with a new one.
                    Err(SnapshotError::Git(GitError {
                        cause: GitCause::Exit { .. } | GitCause::Locked(_),
                        ..
                    })) => last,
                    result => return result,
                }
            }
        };
        self.remove_index(workspace)?;
        let mut state = IndexState::default();
        if let Some(last) = last {
            // So that a file that was captured before it became ignored is captured again.
            state.nested = self.seed(workspace, &last)?;
        }
        self.capture_with(workspace, state)
    }

    fn capture_with(
        &self,
        workspace: &Workspace,
        mut state: IndexState,
    ) -> Result<Capture, SnapshotError> {
        let stamp = self.stamp()?;
        let complete = state.complete.take();
        self.drop_lost_nested(workspace, &mut state)?;
        let changes = self.find_changes(workspace, &mut state)?;
        let unborn = self.update_index(workspace, &changes, &mut state)?;
        let same = changes.removed.is_empty()
            && changes.files.is_empty()
            && changes.nested.len() == unborn.len();
        let tree = match state.tree.take() {
            Some(tree)
                if same && complete.as_ref().is_some_and(|known| known.is_of(&tree, &stamp)) =>
            {
                tree
            }
            // A snapshot without a reference may have been pruned.
            Some(tree) if same && self.has_tree(&tree)? => tree,
            Some(_) | None => self.write_tree(workspace)?,
        };
        let below = |name: &RawPath| {
            let prefix = workspace.prefix();
            path_of(name.0.strip_prefix(prefix.as_slice()).unwrap_or(&name.0))
        };
        let mut nested: Vec<PathBuf> = state.nested.iter().chain(&unborn).map(below).collect();
        nested.sort();
        nested.dedup();
        let prefix = workspace.prefix();
        let modes = state.modes.iter().filter_map(|(name, mode)| {
            Some((RawPath(name.0.strip_prefix(prefix.as_slice())?.to_vec()), *mode))
        });
        let inside =
            |name: &RawPath| Some(RawPath(name.0.strip_prefix(prefix.as_slice())?.to_vec()));
        let unborn = unborn.iter().filter_map(inside).collect();
        let extras = Extras { folders: changes.empty_folders, modes: modes.collect(), unborn };
        let snapshot = self.write_snapshot(tree.clone(), extras)?;
        let ids = [&tree, &snapshot];
        state.complete = Some(self.keep_captured(workspace, complete, stamp, ids)?);
        self.remember_nested(&snapshot, &nested);
        state.tree = Some(tree);
        self.save_index_state(workspace, state)?;
        Ok(Capture { tree: snapshot, nested })
    }

    /// Fills a new index with the last snapshot, if it still exists; returns its nested repositories.
    fn seed(&self, workspace: &Workspace, last: &TreeId) -> Result<Vec<RawPath>, SnapshotError> {
        let git = self.workspace_git(OPERATION, Access::Write, workspace);
        let prefix = workspace.prefix();
        let git = if prefix.is_empty() {
            git.args(["read-tree", last.as_str()])
        } else {
            let mut option = b"--prefix=".to_vec();
            option.extend_from_slice(&prefix);
            git.arg("read-tree").arg(os(&option)).arg(last.as_str())
        };
        if git.run()?.code != Some(0) {
            self.remove_index(workspace)?;
            return Ok(Vec::new());
        }
        let git = self.workspace_git(OPERATION, Access::Read, workspace);
        let listed = git.args(["ls-files", "-s", "-z"]).output()?;
        let nested = records(&listed).filter(|record| record.starts_with(NESTED_MODE));
        Ok(nested
            .filter_map(|record| Some(RawPath(split_once(record, b'\t')?.1.to_vec())))
            .collect())
    }

    /// Removes from the index nested repositories that no longer exist. Git would keep their entries and
    /// never look at the files in their place.
    fn drop_lost_nested(
        &self,
        workspace: &Workspace,
        state: &mut IndexState,
    ) -> Result<(), SnapshotError> {
        let is_lost = |name: &&RawPath| !exists(&workspace.top.join(name.path()).join(".git"));
        let lost: BTreeSet<Vec<u8>> =
            state.nested.iter().filter(is_lost).map(|name| name.0.clone()).collect();
        if !lost.is_empty() {
            self.run_update_index(workspace, &["--force-remove"], &lost)?;
            state.nested.retain(|name| !lost.contains(&name.0));
            state.tree = None;
        }
        Ok(())
    }

    /// Lists changed and new files and folders, with two git invocations in parallel, and a third one for the files in new
    /// folders.
    fn find_changes(
        &self,
        workspace: &Workspace,
        state: &mut IndexState,
    ) -> Result<WorkspaceChanges, SnapshotError> {
        let tracked = self.workspace_git(OPERATION, Access::Read, workspace);
        let tracked = tracked.args(["diff-files", "--raw", "-z", "--no-renames"]);
        let tracked = tracked.arg("--ignore-submodules=dirty").reading_files();
        let folders = self.list_new_folders(OPERATION, workspace);
        let (tracked, folders) = thread::scope(|scope| {
            let folders = scope.spawn(move || folders.output());
            let tracked = tracked.output();
            let panicked = || Err(GitError::unexpected(OPERATION, b"a thread panicked"));
            (tracked, folders.join().unwrap_or_else(|_| panicked()))
        });
        let (tracked, folders) = (tracked?, folders?);
        let mut changes = WorkspaceChanges::default();
        parse_changes(&tracked, &mut changes)
            .ok_or_else(|| GitError::unexpected(OPERATION, &tracked))?;
        let new = self.new_files(workspace, &folders, &changes.removed)?;
        changes.empty_folders =
            self.empty_folders(OPERATION, workspace, &folders, &changes.removed)?;
        for path in records(&new) {
            match path.strip_suffix(b"/") {
                Some(nested) => changes.nested.insert(nested.to_vec()),
                None => changes.files.insert(path.to_vec()),
            };
        }
        self.read_tracked_ignored(workspace, state)?;
        let is_file = |name: &&RawPath| {
            let found = fs::symlink_metadata(workspace.top.join(name.path()));
            found.is_ok_and(|found| !found.is_dir())
        };
        let ignored = state.tracked_ignored.iter().filter(is_file).map(|name| name.0.clone());
        changes.files.extend(ignored);
        leave_out_secrets(workspace, &mut changes.files)?;
        Ok(changes)
    }

    /// The files that are neither in the index nor ignored, and nested repositories, from a list that has new folders
    /// instead of what is in them.
    fn new_files(
        &self,
        workspace: &Workspace,
        listed: &[u8],
        removed: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<u8>, GitError> {
        let has_content = |folder: &[u8]| {
            let entries = fs::read_dir(workspace.top.join(path_of(folder)));
            !entries.is_ok_and(|mut entries| entries.next().is_none())
        };
        let folders = records(listed).filter(|record| record.ends_with(b"/"));
        // Git does not list a folder in the place of a file.
        let replaced = |path: &&Vec<u8>| workspace.top.join(path_of(path)).is_dir();
        if folders.chain(removed.iter().filter(replaced).map(Vec::as_slice)).any(has_content) {
            return self.list_new(workspace).output();
        }
        let files = listed.split_inclusive(|byte| *byte == 0);
        Ok(files.filter(|record| !record.ends_with(b"/\0")).flatten().copied().collect())
    }

    /// A git invocation that lists files that are neither in the index nor ignored.
    fn list_new<'a>(&self, workspace: &'a Workspace) -> Invocation<'a> {
        let git = self.workspace_git(OPERATION, Access::Read, workspace);
        let mut git = self.exclude_options(git.args(["ls-files", "--others", "-z"]), workspace);
        if let Ok(inside) = self.private.strip_prefix(&workspace.top) {
            let mut pattern = b"/".to_vec();
            for byte in inside.as_os_str().as_encoded_bytes() {
                if b"\\*?[]!# ".contains(byte) {
                    pattern.push(b'\\');
                }
                pattern.push(*byte);
            }
            git = git.arg("--exclude").arg(os(&pattern));
        }
        let prefix = workspace.prefix();
        if prefix.is_empty() { git } else { git.arg("--").arg(os(&prefix)) }
    }

    /// Adds the lists of ignored files to an invocation of `ls-files`.
    pub(super) fn exclude_options<'a>(
        &self,
        git: Invocation<'a>,
        workspace: &Workspace,
    ) -> Invocation<'a> {
        let mut git = git.arg("--exclude-per-directory=.gitignore");
        // The later one has precedence, as in git itself.
        for list in [&self.global_excludes, &workspace.local_excludes].into_iter().flatten() {
            if list.is_file() {
                git = git.arg("--exclude-from").arg(list);
            }
        }
        git
    }

    /// Reads which ignored files the user tracks, when the user's index has changed.
    fn read_tracked_ignored(
        &self,
        workspace: &Workspace,
        state: &mut IndexState,
    ) -> Result<(), SnapshotError> {
        let Some(index) = &workspace.user_index else { return Ok(()) };
        let stamp = file_stamp(index);
        if stamp == state.user_index.0 {
            return Ok(());
        }
        let tracked = tracked_digest(index, self.format());
        if tracked == state.user_index.1 {
            state.user_index.0 = stamp;
            return Ok(());
        }
        let git = Invocation::new(OPERATION, &workspace.folder, Access::Read);
        let git = git.args(["ls-files", "--cached", "--ignored", "--exclude-standard"]);
        let listed = git.args(["-z", "--full-name"]).output()?;
        state.tracked_ignored = records(&listed).map(|path| RawPath(path.to_vec())).collect();
        state.user_index = (stamp, tracked);
        Ok(())
    }

    /// Adds the changes to the index; returns the nested repositories that have no commit to record.
    fn update_index(
        &self,
        workspace: &Workspace,
        changes: &WorkspaceChanges,
        state: &mut IndexState,
    ) -> Result<Vec<RawPath>, SnapshotError> {
        if !changes.removed.is_empty() {
            self.run_update_index(workspace, &["--force-remove"], &changes.removed)?;
            state.nested.retain(|name| !changes.removed.contains(&name.0));
        }
        if !changes.files.is_empty() {
            for path in &changes.files {
                check_name(workspace, path)?;
            }
            self.run_update_index(workspace, &["--add", "--remove", "--replace"], &changes.files)?;
        }
        note_modes(state, workspace, &changes.removed, &changes.files);
        let mut unborn = Vec::new();
        for path in &changes.nested {
            let git = self.workspace_git(OPERATION, Access::Write, workspace);
            let git = git.args(["update-index", "--add", "--replace", "--"]).arg(os(path));
            let name = RawPath(path.clone());
            match git.run()?.code {
                Some(0) if !state.nested.contains(&name) => state.nested.push(name),
                Some(0) => {}
                Some(_) | None => unborn.push(name),
            }
        }
        Ok(unborn)
    }

    fn run_update_index(
        &self,
        workspace: &Workspace,
        options: &[&str],
        paths: &BTreeSet<Vec<u8>>,
    ) -> Result<(), SnapshotError> {
        let git = self.workspace_git(OPERATION, Access::Write, workspace).arg("update-index");
        let git = git.reading_files();
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path);
            input.push(0);
        }
        git.args(options).args(["-z", "--stdin"]).stdin(input).output()?;
        Ok(())
    }

    fn write_tree(&self, workspace: &Workspace) -> Result<TreeId, SnapshotError> {
        let git = || self.workspace_git(OPERATION, Access::Write, workspace);
        let prefix = workspace.prefix();
        if prefix.is_empty() {
            return Ok(id_of(OPERATION, &git().arg("write-tree").output()?)?);
        }
        let mut option = b"--prefix=".to_vec();
        option.extend_from_slice(&prefix);
        let output = git().arg("write-tree").arg(os(&option)).run()?;
        if output.code == Some(0) {
            return Ok(id_of(OPERATION, &output.stdout)?);
        }
        // Git has no empty folders.
        if git().args(["ls-files", "--cached"]).output()?.is_empty() {
            return Ok(id_of(OPERATION, &git().arg("write-tree").output()?)?);
        }
        Err(output.failure(OPERATION, &workspace.top).into())
    }
}

/// Leaves out files that usually hold secrets, unless the current commit has them and commands see them.
fn leave_out_secrets(
    workspace: &Workspace,
    files: &mut BTreeSet<Vec<u8>>,
) -> Result<(), SnapshotError> {
    let secrets: BTreeSet<Vec<u8>> =
        files.iter().filter(|path| is_secret_file(path)).cloned().collect();
    if secrets.is_empty() {
        return Ok(());
    }
    let mut committed = BTreeSet::new();
    if workspace.user_index.is_some() {
        let git = Invocation::new(OPERATION, &workspace.top, Access::Read);
        let git = git.args(["ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD", "--"]);
        let git = secrets.iter().fold(git, |git, path| git.arg(os(path)));
        // Before the first commit there is none.
        committed.extend(records(&git.run()?.stdout).map(<[u8]>::to_vec));
    }
    if !committed.is_empty() {
        let hidden = hidden_now(&workspace.top).map_err(|cause| SnapshotError::File {
            operation: "capture",
            path: workspace.top.clone(),
            cause,
        })?;
        committed.retain(|path| !hidden.contains(path));
    }
    files.retain(|path| !secrets.contains(path) || committed.contains(path));
    Ok(())
}

/// Refuses names that git reserves and would leave out without an error.
fn check_name(workspace: &Workspace, path: &[u8]) -> Result<(), SnapshotError> {
    let mut names = path.split(|byte| *byte == b'/').peekable();
    while let Some(name) = names.next() {
        let modules = names.peek().is_none() && name.eq_ignore_ascii_case(b".gitmodules");
        let full = || workspace.top.join(path_of(path));
        if name.eq_ignore_ascii_case(b".git") || (modules && full().is_symlink()) {
            return Err(SnapshotError::File {
                operation: "capture",
                path: path_of(path),
                cause: "git keeps this name for itself".to_owned(),
            });
        }
    }
    Ok(())
}

/// The records of a NUL-terminated list.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

/// Reads `:mode mode id id status NUL path NUL` records; `None` for anything that is not that.
fn parse_changes(bytes: &[u8], changes: &mut WorkspaceChanges) -> Option<()> {
    let mut fields = records(bytes);
    while let Some(facts) = fields.next() {
        let path = fields.next()?.to_vec();
        let mut facts = facts.strip_prefix(b":")?.split(|byte| *byte == b' ');
        let (_, now, status) = (facts.next()?, facts.next()?, facts.nth(2)?);
        match (status.first()?, now) {
            (b'D', _) => changes.removed.insert(path),
            (_, NESTED_MODE) => changes.nested.insert(path),
            (b'A' | b'M' | b'T', _) => changes.files.insert(path),
            _ => return None,
        };
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_parsed_or_refused() {
        let id = "0".repeat(40);
        let record = |modes: &str, status: &str, path: &str| {
            format!(":{modes} {id} {id} {status}\0{path}\0")
        };
        let text = record("100644 000000", "D", "gone")
            + &record("100644 100755", "M", "new\nline")
            + &record("100644 160000", "T", "inner");
        let mut changes = WorkspaceChanges::default();
        parse_changes(text.as_bytes(), &mut changes).unwrap();
        assert_eq!(changes.removed, BTreeSet::from([b"gone".to_vec()]));
        assert_eq!(changes.files, BTreeSet::from([b"new\nline".to_vec()]));
        assert_eq!(changes.nested, BTreeSet::from([b"inner".to_vec()]));
        for bad in ["x\0y\0", ":100644 000000\0a\0", &record("100644 100644", "X", "a")] {
            assert!(parse_changes(bad.as_bytes(), &mut changes).is_none(), "{bad:?}");
        }
    }
}
