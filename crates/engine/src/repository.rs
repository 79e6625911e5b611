//! The repository operations that runs need.

use std::fs::File;
use std::path::{Path, PathBuf};

use windlass_kernel::Timestamp;
use windlass_kernel::run::{Base, Change, Commit, Run};

use windlass_workspace::{PinnedPath, TreeId};

use crate::error::EngineError;

/// The maximum number of changed files that are recorded.
pub(crate) const FILES_MAX: usize = 10_000;

/// The changes of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The patch since the base of the run.
    pub text: String,
    /// The patch since the tree that the caller has named.
    pub since: Option<String>,
    /// The tree of the files as they are.
    pub tree: String,
    /// The files that are not as the run left them.
    pub changed: Vec<String>,
}

/// The repository of a project.
pub trait Repository: Send + Sync {
    /// Returns the current commit and branch; `None` outside of a repository, and before the first
    /// commit.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn base(&self, workspace: &Path) -> Result<Option<Base>, EngineError>;

    /// Returns the tree of the files of a workspace, if they or what is staged differ from its current commit. Flags in
    /// the index hide nothing.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn uncommitted_tree(&self, workspace: &Path) -> Result<Option<String>, EngineError>;

    /// Fails if the workspace has changes or untracked files.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] with the code `REPO_DIRTY`, or if git fails.
    fn require_clean(&self, workspace: &Path) -> Result<(), EngineError>;

    /// Fails if the workspace has changed since the run last recorded it.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] with the code `REPO_DIRTY` or `REPO_MOVED`, or if git fails.
    fn require_unchanged(&self, workspace: &Path, run: &Run) -> Result<(), EngineError>;

    /// Returns the tracked files of a workspace that differ from its current commit.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn tracked_changes(&self, workspace: &Path) -> Result<Vec<String>, EngineError>;

    /// Returns the changes of a run so far; `None` outside of a repository.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn change(&self, workspace: &Path, run: &Run) -> Result<Option<Change>, EngineError>;

    /// Returns the commit of a run's branch, if it descends from the one at which the run left the branch and is
    /// another one; `None` if the workspace is on another branch.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn moved(&self, workspace: &Path, run: &Run) -> Result<Option<String>, EngineError>;

    /// Returns the changes of a run so far without these new files, which are not the run's; their paths are
    /// relative to the workspace.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn change_without(
        &self,
        workspace: &Path,
        run: &Run,
        files: &[PathBuf],
    ) -> Result<Option<Change>, EngineError>;

    /// Returns the changes of a run so far as a patch, and also those since an earlier tree of its files if one is
    /// named; `None` outside of a repository.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails, or has no such tree.
    fn diff(
        &self,
        workspace: &Path,
        run: &Run,
        since: Option<&str>,
    ) -> Result<Option<Patch>, EngineError>;

    /// Fails if a file of the workspace needs a git filter that the user's settings do not allow.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] with the code `GIT_FILTER_REFUSED`, or if git fails.
    fn require_filters(&self, workspace: &Path) -> Result<(), EngineError>;

    /// Finds the files and folders that a program gets as they are in the base of a run.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] with the code `PINNED_UNAVAILABLE` names a path that is not there; also if
    /// git fails.
    fn pinned(&self, request: &PinRequest<'_>) -> Result<Vec<PinnedPath>, EngineError>;

    /// Fails if the workspace is not what was last reviewed.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] with the code `CHANGE_UNREVIEWED` names the files; also if git fails.
    fn require_reviewed(&self, workspace: &Path, run: &Run) -> Result<(), EngineError>;

    /// Finds the repository's own hook that a commit has to pass.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails, or the workspace is not what was last reviewed.
    fn pre_commit_hook(&self, workspace: &Path, run: &Run) -> Result<CommitHook, EngineError>;

    /// Creates a commit of the run's own change, from the files with which it began to those that were last reviewed;
    /// does not move a branch.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if the branch has moved, the workspace is not what was reviewed
    /// (`CHANGE_UNREVIEWED`), the change contradicts one that was there before (`MERGE_CONFLICT`), or git fails.
    fn prepare_commit(
        &self,
        workspace: &Path,
        run: &Run,
        message: &str,
        at: Timestamp,
    ) -> Result<PreparedCommit, EngineError>;

    /// Moves the branch to a prepared commit; does nothing if it is already there.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if the branch has moved meanwhile.
    fn publish_commit(
        &self,
        workspace: &Path,
        run: &Run,
        commit: &Commit,
    ) -> Result<(), EngineError>;

    /// Whether a prepared commit still exists.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn has_commit(&self, workspace: &Path, commit: &Commit) -> Result<bool, EngineError>;

    /// Adds a work tree for a run, on a new branch.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn make_worktree(&self, folder: &Path, branch: &str, base: &Base) -> Result<(), EngineError>;

    /// Adds a work tree for one phase, on no branch; a complete one is not changed. The programs that it starts hold the
    /// lock, too, until they have ended.
    ///
    /// # Errors
    /// [`EngineError`] if it cannot be added.
    fn add_phase_worktree(
        &self,
        folder: &Path,
        base: &Base,
        lock: &File,
    ) -> Result<(), EngineError>;

    /// Removes the work tree of a phase, with the lock as above; one that does not exist is no error.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn remove_phase_worktree(&self, folder: &Path, lock: &File) -> Result<(), EngineError>;
}

/// Asks for the pinned files of a program.
#[derive(Clone, Copy, Debug)]
pub struct PinRequest<'a> {
    /// The workspace; paths are relative to it.
    pub workspace: &'a Path,
    /// The base of the run.
    pub base: Option<&'a Base>,
    /// The program and its arguments.
    pub argv: &'a [String],
    /// The list as it is written; without one, the files that the command names are pinned.
    pub written: Option<&'a [String]>,
}

/// The hook that a commit has to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitHook {
    /// There is none, or nothing to commit.
    None,
    /// There is one that cannot be run safely.
    Refused {
        /// The reason.
        why: String,
    },
    /// It is run in a cell.
    Run {
        /// The program.
        program: PathBuf,
        /// The top of the work tree, in which it is run.
        cwd: PathBuf,
        /// The hook as the base of the run has it, if it lies in the work tree.
        pinned: Vec<PinnedPath>,
        /// The tree that is about to be committed.
        tree: TreeId,
    },
}

/// A prepared commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreparedCommit {
    /// The workspace does not differ from the last commit.
    Nothing,
    /// A commit that no branch has yet.
    Commit(Commit),
}
