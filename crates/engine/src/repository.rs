//! The repository operations that runs need.

use std::path::Path;

use windlass_kernel::Timestamp;
use windlass_kernel::run::{Base, Change, Commit, Run};

use crate::error::EngineError;

/// The maximum number of changed files that are recorded.
pub(crate) const FILES_MAX: usize = 10_000;

/// The repository of a project.
pub trait Repository: Send + Sync {
    /// Returns the current commit and branch; `None` outside of a repository, and before the first
    /// commit.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn base(&self, workspace: &Path) -> Result<Option<Base>, EngineError>;

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

    /// Returns the changes of a run so far; `None` outside of a repository.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn change(&self, workspace: &Path, run: &Run) -> Result<Option<Change>, EngineError>;

    /// Creates a commit of the whole workspace; does not move a branch.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if the branch has moved, or git fails.
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
    fn publish_commit(&self, workspace: &Path, commit: &Commit) -> Result<(), EngineError>;

    /// Adds a work tree for a run, on a new branch.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn make_worktree(&self, folder: &Path, branch: &str, base: &Base) -> Result<(), EngineError>;

    /// Adds a work tree for one phase, on no branch; a complete one is not changed.
    ///
    /// # Errors
    /// [`EngineError`] if it cannot be added.
    fn add_phase_worktree(&self, folder: &Path, base: &Base) -> Result<(), EngineError>;

    /// Removes the work tree of a phase; one that does not exist is no error.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails.
    fn remove_phase_worktree(&self, folder: &Path) -> Result<(), EngineError>;
}

/// A prepared commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreparedCommit {
    /// The workspace does not differ from the last commit.
    Nothing,
    /// A commit that no branch has yet.
    Commit(Commit),
}
