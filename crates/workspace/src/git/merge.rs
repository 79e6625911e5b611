//! Merges branches without a work tree, and brings one that is checked out up to date.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::GitCause;
use super::private::PrivateDir;
use super::{Access, CommitId, Git, GitError, TreeId, id_of, path_of};

/// The result of merging two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitMerge {
    /// The changes of both were merged.
    Clean(TreeId),
    /// Both have changed the same lines of these files.
    Conflict(Vec<PathBuf>),
}

/// Whether a file that one side has renamed takes the changes of the other side along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renames {
    /// It does, as git finds renames.
    Follow,
    /// Paths are all that counts.
    Ignore,
}

impl Git {
    /// Reads the commit of a branch; `None` if there is no such branch.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn branch_tip(&self, branch: &str) -> Result<Option<CommitId>, GitError> {
        self.commit_named("read the branch", &format!("refs/heads/{branch}"))
    }

    /// Reads the message of a commit.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn message_of(&self, commit: &CommitId) -> Result<String, GitError> {
        let read = self.read("read the message of the commit").args(["log", "-1", "--format=%B"]);
        let bytes = read.arg(commit.as_str()).output()?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// Merges two commits into a tree; no ref and no work tree changes. The repository's settings and attributes
    /// are not read, so that no merge driver runs. Needs git 2.38.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn merge_commits(
        &self,
        ours: &CommitId,
        theirs: &CommitId,
    ) -> Result<CommitMerge, GitError> {
        self.merge_by(ours, theirs, Renames::Follow)
    }

    /// Merges two trees that were made from a third one, as [`Git::merge_commits`] does.
    ///
    /// # Errors
    /// [`GitError`].
    pub(super) fn merge_trees(
        &self,
        base: &TreeId,
        ours: &TreeId,
        theirs: &TreeId,
        renames: Renames,
    ) -> Result<CommitMerge, GitError> {
        let us = self.identity()?;
        let commit = |tree: &TreeId, parents: &[CommitId]| {
            self.commit_tree_signed_by(None, tree, parents, "", [&us, &us], 0)
        };
        let base = commit(base, &[])?;
        let base = std::slice::from_ref(&base);
        self.merge_by(&commit(ours, base)?, &commit(theirs, base)?, renames)
    }

    fn merge_by(
        &self,
        ours: &CommitId,
        theirs: &CommitId,
        renames: Renames,
    ) -> Result<CommitMerge, GitError> {
        let operation = "merge the branches";
        let common = self.common_dir()?;
        let folder = PrivateDir::new(operation, common.join("objects"), ours.as_str().len())?
            .with_ends_of(operation, &common)?;
        let renames = match renames {
            Renames::Follow => "merge.renames=true",
            Renames::Ignore => "merge.renames=false",
        };
        let output = folder
            .git(operation, Access::Write)
            .args(["-c", renames])
            .args(["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"])
            .args([ours.as_str(), theirs.as_str()])
            .run()?;
        let unexpected = || GitError::unexpected(operation, &output.stdout);
        let mut fields = output.stdout.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        match output.code {
            Some(0) => {
                let tree = fields.next().ok_or_else(unexpected)?;
                Ok(CommitMerge::Clean(id_of(operation, &[tree, b"\n"].concat())?))
            }
            Some(1) => {
                let paths: Vec<PathBuf> = fields.skip(1).map(path_of).collect();
                if paths.is_empty() { Err(unexpected()) } else { Ok(CommitMerge::Conflict(paths)) }
            }
            Some(_) | None => Err(output.failure(operation, self.root())),
        }
    }

    /// Checks that a work tree at the commit `from` can be brought to the commit `to` without losing anything.
    ///
    /// # Errors
    /// [`GitError`] names what is in the way.
    pub fn check_advance(
        &self,
        worktree: &Path,
        from: &CommitId,
        to: &CommitId,
    ) -> Result<(), GitError> {
        self.read_trees(worktree, from, to, &["-n"])
    }

    /// Brings the files and the index of a work tree from one commit to another; its branch is not moved. Files
    /// that do not differ between both stay as they are. It may be called again.
    ///
    /// # Errors
    /// [`GitError`] if a file that differs has other changes.
    pub fn advance(&self, worktree: &Path, from: &CommitId, to: &CommitId) -> Result<(), GitError> {
        match self.read_trees(worktree, from, to, &[]) {
            Err(GitError { cause: GitCause::Exit { .. } | GitCause::Taken(_), .. })
                if self.at(worktree).tree_of_worktree()? == self.tree_of(to)? =>
            {
                // A process that was killed had written the files, but not the index.
                self.at(worktree).reset_index(to)
            }
            read => read,
        }
    }

    fn read_trees(
        &self,
        worktree: &Path,
        from: &CommitId,
        to: &CommitId,
        options: &[&str],
    ) -> Result<(), GitError> {
        let operation = "bring the work tree up to date";
        let target = self.at(worktree);
        // Git itself overwrites ignored files without a word.
        let new = target
            .read(operation)
            .args(["diff-tree", "-r", "-z", "--no-renames", "--name-only", "--diff-filter=A"])
            .args([from.as_str(), to.as_str()])
            .output()?;
        for path in new.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of) {
            if target.is_taken(operation, &path, from)? {
                return Err(GitError::new(operation, GitCause::Taken(path)));
            }
        }
        let settings = target.checkout_settings(operation, to)?;
        // Otherwise a file whose times changed counts as changed. It lists files that differ, with status 1.
        let refresh = target.write(operation).settings(&settings).reading_files();
        refresh.args(["update-index", "-q", "--refresh"]).run()?;
        let read = target.write(operation).settings(&settings);
        let read = read.args(["read-tree", "-m", "-u"]).args(options);
        read.args([from.as_str(), to.as_str()]).output().map(drop)
    }

    /// Whether something that a commit does not have is in the place of a file, in one of its folders, or below it.
    /// What the commit has gives way.
    fn is_taken(
        &self,
        operation: &'static str,
        path: &Path,
        from: &CommitId,
    ) -> Result<bool, GitError> {
        let root = self.root();
        let found = |path: &Path| root.join(path).symlink_metadata().ok();
        let folders: Vec<&Path> = path.ancestors().skip(1).collect();
        let mut folders = folders.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(blocked) = folders.find(|folder| found(folder).is_some_and(|it| !it.is_dir())) {
            return Ok(self.files_in(operation, from, blocked)?.is_empty());
        }
        let Some(there) = found(path) else { return Ok(false) };
        if !there.is_dir() {
            return Ok(true);
        }
        let known = self.files_in(operation, from, path)?;
        Ok(!has_only(root, path, &known))
    }

    /// The files of a commit at a path and below it.
    fn files_in(
        &self,
        operation: &'static str,
        commit: &CommitId,
        path: &Path,
    ) -> Result<BTreeSet<PathBuf>, GitError> {
        let git = self.read(operation).args(["ls-tree", "-r", "-z", "--name-only", "--full-tree"]);
        let listed = git.args([commit.as_str(), "--"]).arg(path).output()?;
        let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(path_of).collect())
    }
}

/// Whether a folder has none but these files, and folders with them.
fn has_only(root: &Path, folder: &Path, known: &BTreeSet<PathBuf>) -> bool {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return false };
    entries.into_iter().all(|entry| {
        let Ok(entry) = entry else { return false };
        let path = folder.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !known.contains(&path) => has_only(root, &path, known),
            Ok(_) => known.contains(&path),
            Err(_) => false,
        }
    })
}
