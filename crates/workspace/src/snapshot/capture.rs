//! Capturing: the workspace as a tree.
//!
//! The private index of a workspace stays between captures, so that a file is read only when its
//! size, times or inode have changed since. Two starts of git list what is different, side by side;
//! two more take it up and write the tree; one keeps it by a ref.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use super::state::{Kept, Name, State};
use super::tracked::{fingerprint, stamp};
use super::workspace::{Workspace, is_there};
use super::{SnapshotError, Snapshots};
use crate::git::{GitCause, Invocation, Kind, id_of, os, path_of, split_once};
use crate::{GitError, TreeId};

const OPERATION: &str = "capture the workspace";
/// How git writes the mode of a nested repository.
const NESTED_MODE: &[u8] = b"160000";

/// What was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The snapshot.
    pub tree: TreeId,
    /// Repositories inside the workspace, whose files are not part of the snapshot; it has the name
    /// of the commit that is checked out in each, where there is one.
    pub nested: Vec<PathBuf>,
}

/// What is different in the workspace, relative to the top.
#[derive(Debug, Default)]
struct Different {
    /// Files that are gone, or are no longer files.
    gone: BTreeSet<Vec<u8>>,
    /// Files that are new or may have changed.
    files: BTreeSet<Vec<u8>>,
    /// Nested repositories that are new or at another commit.
    nested: BTreeSet<Vec<u8>>,
}

impl Snapshots {
    /// Captures a workspace and keeps the snapshot under a name, in place of what it named before.
    ///
    /// # Errors
    /// [`SnapshotError`]; whatever the name kept before is still kept.
    pub fn capture(&self, workspace: &Path, reference: &str) -> Result<Capture, SnapshotError> {
        let name = super::reference::full(reference)?;
        let workspace = self.workspace(workspace)?;
        let _lock = workspace.lock(&self.private)?;
        let capture = self.capture_locked(&workspace)?;
        self.point(&name, &capture.tree)?;
        Ok(capture)
    }

    /// Captures a workspace without keeping it: git may prune it some weeks later.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn present(&self, workspace: &Path) -> Result<Capture, SnapshotError> {
        let workspace = self.workspace(workspace)?;
        let _lock = workspace.lock(&self.private)?;
        self.capture_locked(&workspace)
    }

    /// Captures a workspace whose lock is held.
    pub(super) fn capture_locked(&self, workspace: &Workspace) -> Result<Capture, SnapshotError> {
        let last = match self.kept(workspace) {
            Kept::Nothing { last } => last,
            Kept::Index(state) => {
                let last = state.tree.clone();
                match self.capture_with(workspace, state) {
                    // Whatever is wrong may be wrong with the index: once more without it.
                    Err(SnapshotError::Git(GitError {
                        cause: GitCause::Exit { .. } | GitCause::Locked(_),
                        ..
                    })) => last,
                    ended => return ended,
                }
            }
        };
        self.drop_index(workspace)?;
        let mut state = State::default();
        if let Some(last) = last {
            // So that what was captured before it became ignored is captured again.
            state.nested = self.seed(workspace, &last)?;
        }
        self.capture_with(workspace, state)
    }

    fn capture_with(
        &self,
        workspace: &Workspace,
        mut state: State,
    ) -> Result<Capture, SnapshotError> {
        self.drop_lost(workspace, &mut state)?;
        let different = self.different(workspace, &mut state)?;
        let unborn = self.take_up(workspace, &different, &mut state)?;
        let same = different.gone.is_empty()
            && different.files.is_empty()
            && different.nested.len() == unborn.len();
        let tree = match state.tree.take() {
            // What was captured without a name may have been pruned.
            Some(tree) if same && self.has(&tree)? => tree,
            Some(_) | None => self.write_tree(workspace)?,
        };
        let below = |name: &Name| {
            let prefix = workspace.prefix();
            path_of(name.0.strip_prefix(prefix.as_slice()).unwrap_or(&name.0))
        };
        let mut nested: Vec<PathBuf> = state.nested.iter().chain(&unborn).map(below).collect();
        nested.sort();
        nested.dedup();
        state.tree = Some(tree.clone());
        self.keep_state(workspace, state)?;
        Ok(Capture { tree, nested })
    }

    /// Fills a new index with the last snapshot, as far as it is still there.
    fn seed(&self, workspace: &Workspace, last: &TreeId) -> Result<Vec<Name>, SnapshotError> {
        let git = self.workspace_git(OPERATION, Kind::Write, workspace);
        let prefix = workspace.prefix();
        let git = if prefix.is_empty() {
            git.args(["read-tree", last.as_str()])
        } else {
            let mut option = b"--prefix=".to_vec();
            option.extend_from_slice(&prefix);
            git.arg("read-tree").arg(os(&option)).arg(last.as_str())
        };
        if git.run()?.code != Some(0) {
            self.drop_index(workspace)?;
            return Ok(Vec::new());
        }
        let git = self.workspace_git(OPERATION, Kind::Read, workspace);
        let listed = git.args(["ls-files", "-s", "-z"]).output()?;
        let nested = records(&listed).filter(|record| record.starts_with(NESTED_MODE));
        Ok(nested.filter_map(|record| Some(Name(split_once(record, b'\t')?.1.to_vec()))).collect())
    }

    /// Takes nested repositories that are none any more out of the index. Git would go on believing
    /// in them and never look at their files.
    fn drop_lost(&self, workspace: &Workspace, state: &mut State) -> Result<(), SnapshotError> {
        let is_lost = |name: &&Name| !is_there(&workspace.top.join(name.path()).join(".git"));
        let lost: BTreeSet<Vec<u8>> =
            state.nested.iter().filter(is_lost).map(|name| name.0.clone()).collect();
        if !lost.is_empty() {
            self.update(workspace, &["--force-remove"], &lost)?;
            state.nested.retain(|name| !lost.contains(&name.0));
            state.tree = None;
        }
        Ok(())
    }

    /// Lists what is different: tracked files and new ones, side by side.
    fn different(
        &self,
        workspace: &Workspace,
        state: &mut State,
    ) -> Result<Different, SnapshotError> {
        let tracked = self.workspace_git(OPERATION, Kind::Read, workspace);
        let tracked = tracked.args(["diff-files", "--raw", "-z", "--no-renames"]);
        let tracked = tracked.arg("--ignore-submodules=dirty");
        let new = self.list_new(workspace);
        let (tracked, new) = thread::scope(|scope| {
            let new = scope.spawn(move || new.output());
            let tracked = tracked.output();
            let lost = || Err(GitError::unexpected(OPERATION, b"a thread panicked"));
            (tracked, new.join().unwrap_or_else(|_| lost()))
        });
        let (tracked, new) = (tracked?, new?);
        let mut different = Different::default();
        read_tracked(&tracked, &mut different)
            .ok_or_else(|| GitError::unexpected(OPERATION, &tracked))?;
        for path in records(&new) {
            match path.strip_suffix(b"/") {
                Some(nested) => different.nested.insert(nested.to_vec()),
                None => different.files.insert(path.to_vec()),
            };
        }
        self.tracked_though_ignored(workspace, state)?;
        let is_file = |name: &&Name| {
            let found = fs::symlink_metadata(workspace.top.join(name.path()));
            found.is_ok_and(|found| !found.is_dir())
        };
        let ignored = state.tracked.iter().filter(is_file).map(|name| name.0.clone());
        different.files.extend(ignored);
        Ok(different)
    }

    /// A start of git that lists what is neither in the index nor ignored.
    fn list_new<'a>(&self, workspace: &'a Workspace) -> Invocation<'a> {
        let git = self.workspace_git(OPERATION, Kind::Read, workspace);
        let mut git =
            git.args(["ls-files", "--others", "-z", "--exclude-per-directory=.gitignore"]);
        // The later one counts more, as with git itself.
        for list in [&self.wishes.ignored_everywhere, &workspace.ignored_here].into_iter().flatten()
        {
            if list.is_file() {
                git = git.arg("--exclude-from").arg(list);
            }
        }
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

    /// Reads what the user tracks though it is ignored, when their index has changed.
    fn tracked_though_ignored(
        &self,
        workspace: &Workspace,
        state: &mut State,
    ) -> Result<(), SnapshotError> {
        let Some(index) = &workspace.user_index else { return Ok(()) };
        let written = stamp(index);
        if written == state.tracked_from.0 {
            return Ok(());
        }
        let tracks = fingerprint(index, self.format());
        if tracks == state.tracked_from.1 {
            state.tracked_from.0 = written;
            return Ok(());
        }
        let git = Invocation::new(OPERATION, &workspace.folder, Kind::Read);
        let git = git.args(["ls-files", "--cached", "--ignored", "--exclude-standard"]);
        let listed = git.args(["-z", "--full-name"]).output()?;
        state.tracked = records(&listed).map(|path| Name(path.to_vec())).collect();
        state.tracked_from = (written, tracks);
        Ok(())
    }

    /// Brings the index up to date; tells which nested repositories have no commit to take up.
    fn take_up(
        &self,
        workspace: &Workspace,
        different: &Different,
        state: &mut State,
    ) -> Result<Vec<Name>, SnapshotError> {
        if !different.gone.is_empty() {
            self.update(workspace, &["--force-remove"], &different.gone)?;
            state.nested.retain(|name| !different.gone.contains(&name.0));
        }
        if !different.files.is_empty() {
            for path in &different.files {
                check_name(workspace, path)?;
            }
            self.update(workspace, &["--add", "--remove", "--replace"], &different.files)?;
        }
        let mut unborn = Vec::new();
        for path in &different.nested {
            let git = self.workspace_git(OPERATION, Kind::Write, workspace);
            let git = git.args(["update-index", "--add", "--replace", "--"]).arg(os(path));
            let name = Name(path.clone());
            match git.run()?.code {
                Some(0) if !state.nested.contains(&name) => state.nested.push(name),
                Some(0) => {}
                Some(_) | None => unborn.push(name),
            }
        }
        Ok(unborn)
    }

    fn update(
        &self,
        workspace: &Workspace,
        options: &[&str],
        paths: &BTreeSet<Vec<u8>>,
    ) -> Result<(), SnapshotError> {
        let git = self.workspace_git(OPERATION, Kind::Write, workspace).arg("update-index");
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path);
            input.push(0);
        }
        git.args(options).args(["-z", "--stdin"]).stdin(input).output()?;
        Ok(())
    }

    fn write_tree(&self, workspace: &Workspace) -> Result<TreeId, SnapshotError> {
        let git = || self.workspace_git(OPERATION, Kind::Write, workspace);
        let prefix = workspace.prefix();
        if prefix.is_empty() {
            return Ok(id_of(OPERATION, &git().arg("write-tree").output()?)?);
        }
        let mut option = b"--prefix=".to_vec();
        option.extend_from_slice(&prefix);
        let said = git().arg("write-tree").arg(os(&option)).run()?;
        if said.code == Some(0) {
            return Ok(id_of(OPERATION, &said.stdout)?);
        }
        // Git knows no empty folder.
        if git().args(["ls-files", "--cached"]).output()?.is_empty() {
            return Ok(id_of(OPERATION, &git().arg("write-tree").output()?)?);
        }
        Err(said.failure(OPERATION, &workspace.top).into())
    }
}

/// Refuses what git leaves out without an error: it keeps these names for itself.
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

/// The records of a list in which each ends with a NUL.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

/// Reads `:mode mode id id status NUL path NUL` records; `None` for anything that is not that.
fn read_tracked(bytes: &[u8], different: &mut Different) -> Option<()> {
    let mut fields = records(bytes);
    while let Some(facts) = fields.next() {
        let path = fields.next()?.to_vec();
        let mut facts = facts.strip_prefix(b":")?.split(|byte| *byte == b' ');
        let (_, now, status) = (facts.next()?, facts.next()?, facts.nth(2)?);
        match (status.first()?, now) {
            (b'D', _) => different.gone.insert(path),
            (_, NESTED_MODE) => different.nested.insert(path),
            (b'A' | b'M' | b'T', _) => different.files.insert(path),
            _ => return None,
        };
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_read_or_refused() {
        let id = "0".repeat(40);
        let record = |modes: &str, status: &str, path: &str| {
            format!(":{modes} {id} {id} {status}\0{path}\0")
        };
        let text = record("100644 000000", "D", "gone")
            + &record("100644 100755", "M", "new\nline")
            + &record("100644 160000", "T", "inner");
        let mut different = Different::default();
        read_tracked(text.as_bytes(), &mut different).unwrap();
        assert_eq!(different.gone, BTreeSet::from([b"gone".to_vec()]));
        assert_eq!(different.files, BTreeSet::from([b"new\nline".to_vec()]));
        assert_eq!(different.nested, BTreeSet::from([b"inner".to_vec()]));
        for bad in ["x\0y\0", ":100644 000000\0a\0", &record("100644 100644", "X", "a")] {
            assert!(read_tracked(bad.as_bytes(), &mut different).is_none(), "{bad:?}");
        }
    }
}
