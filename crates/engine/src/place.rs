//! The project's repository, through git.

use std::path::{Path, PathBuf};

use windlass_kernel::run::{Base, Change, Commit, Run};
use windlass_kernel::{Code, Digest, Timestamp};
use windlass_workspace::{
    Base as Against, Cleanness, CommitId, Git, GitCause, GitError, LineChange, OnChanges,
    RefUpdate, TreeId,
};

use crate::engine::{Place, Prepared};
use crate::error::EngineError;
use crate::keeper::WORKTREES;

/// The most changed files that are named.
pub(crate) const FILES_MAX: usize = 10_000;

/// A project that is, or is not, in a git repository.
#[derive(Clone, Debug)]
pub struct GitPlace {
    root: PathBuf,
}

impl GitPlace {
    /// Names the project's folder.
    #[must_use]
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Commits everything on the current branch.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] when git refuses, or the branch moves meanwhile.
    pub fn commit_all(&self, message: &str, at: Timestamp) -> Result<(), EngineError> {
        let git = Git::new(&self.root);
        let Some(head) = git.head().map_err(trouble)? else { return Ok(()) };
        if let Some(commit) = commit_on(&git, head, message, at)? {
            self.publish_commit(&self.root, &commit)?;
        }
        Ok(())
    }
}

fn trouble(error: GitError) -> EngineError {
    EngineError::Requirement { code: error.code(), message: error.to_string() }
}

fn id<T: std::str::FromStr>(text: &str) -> Result<T, EngineError> {
    text.parse().map_err(|_| EngineError::Requirement {
        code: Code::StateRecoveryFailed,
        message: format!("`{text}` is recorded as a git object and is none"),
    })
}

fn dirty(message: String) -> EngineError {
    EngineError::Requirement { code: Code::RepoDirty, message }
}

/// Where the branch of a run must be.
fn expected(run: &Run) -> Option<&str> {
    let base = run.started.as_ref().and_then(|started| started.base.as_ref());
    run.commit
        .as_ref()
        .map(|commit| commit.commit.as_str())
        .or(base.map(|base| base.commit.as_str()))
}

/// Refuses a repository whose newest commit is not the run's.
fn require_head(git: &Git, run: &Run) -> Result<CommitId, EngineError> {
    let head = git.head().map_err(trouble)?;
    match (head, expected(run)) {
        (Some(head), Some(expected)) if head.as_str() == expected => Ok(head),
        (head, expected) => Err(EngineError::Requirement {
            code: Code::RepoMoved,
            message: format!(
                "the branch is at {}, and the run left it at {}",
                head.as_ref().map_or("nothing", CommitId::as_str),
                expected.unwrap_or("nothing")
            ),
        }),
    }
}

/// Makes a commit of the work tree on top of `head`; `None` when nothing is changed.
fn commit_on(
    git: &Git,
    head: CommitId,
    message: &str,
    at: Timestamp,
) -> Result<Option<Commit>, EngineError> {
    let tree = git.tree_of_worktree().map_err(trouble)?;
    let stat = git.diff_to(&Against::Commit(head.clone()), &tree).map_err(trouble)?;
    if stat.files.is_empty() {
        return Ok(None);
    }
    let who = git.identity().map_err(trouble)?;
    let seconds = u64::try_from(at.unix_ms() / 1000).unwrap_or_default();
    let parents = std::slice::from_ref(&head);
    let commit = git.commit_tree(&tree, parents, message, &who, &who, seconds).map_err(trouble)?;
    let branch = git.branch().map_err(trouble)?;
    Ok(Some(Commit {
        branch: branch.unwrap_or_else(|| "HEAD".to_owned()),
        commit: commit.as_str().to_owned(),
        parent: head.as_str().to_owned(),
        tree: tree.as_str().to_owned(),
    }))
}

impl Place for GitPlace {
    fn base(&self, workspace: &Path) -> Result<Option<Base>, EngineError> {
        let git = Git::new(workspace);
        let head = match git.head() {
            Ok(head) => head,
            Err(GitError { cause: GitCause::NotARepository(_), .. }) => None,
            Err(error) => return Err(trouble(error)),
        };
        let Some(head) = head else { return Ok(None) };
        let branch = git.branch().map_err(trouble)?;
        Ok(Some(Base { branch, commit: head.as_str().to_owned() }))
    }

    fn require_clean(&self, workspace: &Path) -> Result<(), EngineError> {
        match Git::new(workspace).is_clean() {
            Ok(Cleanness::Clean) => Ok(()),
            Ok(Cleanness::Dirty { paths, count }) => {
                let names: Vec<String> =
                    paths.iter().take(5).map(|path| format!("`{}`", path.display())).collect();
                let more = if count > names.len() { ", …" } else { "" };
                Err(dirty(format!(
                    "the repository has {count} changed or untracked {}: {}{more}",
                    if count == 1 { "file" } else { "files" },
                    names.join(", ")
                )))
            }
            Err(error) => Err(trouble(error)),
        }
    }

    fn require_as_left(&self, workspace: &Path, run: &Run) -> Result<(), EngineError> {
        let git = Git::new(workspace);
        // A commit may be on record that the branch has not been moved to.
        let parent = run.commit.as_ref().map(|commit| commit.parent.as_str());
        let head = git.head().map_err(trouble)?;
        if parent.is_none() || head.as_ref().map(CommitId::as_str) != parent {
            require_head(&git, run)?;
        }
        let Some(change) = &run.change else { return self.require_clean(workspace) };
        let tree = git.tree_of_worktree().map_err(trouble)?;
        if tree.as_str() == change.tree {
            return Ok(());
        }
        let left: TreeId = id(&change.tree)?;
        let stat = git.diff_to(&Against::Tree(left), &tree).map_err(trouble)?;
        let names: Vec<String> =
            stat.files.iter().take(5).map(|file| format!("`{}`", file.path.display())).collect();
        Err(dirty(format!("files have changed since the run stopped: {}", names.join(", "))))
    }

    fn change(&self, workspace: &Path, run: &Run) -> Result<Option<Change>, EngineError> {
        let started = run.started.as_ref();
        let Some(base) = started.and_then(|started| started.base.as_ref()) else {
            return Ok(None);
        };
        let git = Git::new(workspace);
        let tree = git.tree_of_worktree().map_err(trouble)?;
        let stat = git.diff_to(&Against::Commit(id(&base.commit)?), &tree).map_err(trouble)?;
        let files = stat.files.iter().take(FILES_MAX);
        // A file without lines counts as one.
        let binary = stat.files.iter().filter(|file| file.lines == LineChange::Binary).count();
        let lines = stat.added.saturating_add(stat.removed);
        Ok(Some(Change {
            // Two work trees that change the base in the same way are the same tree.
            diff_digest: Digest::of(format!("{} {}", base.commit, tree.as_str()).as_bytes()),
            files: files.map(|file| file.path.to_string_lossy().into_owned()).collect(),
            lines: lines.saturating_add(u64::try_from(binary).unwrap_or_default()),
            tree: tree.as_str().to_owned(),
        }))
    }

    fn prepare_commit(
        &self,
        workspace: &Path,
        run: &Run,
        message: &str,
        at: Timestamp,
    ) -> Result<Prepared, EngineError> {
        let git = Git::new(workspace);
        let head = require_head(&git, run)?;
        let commit = commit_on(&git, head, message, at)?;
        Ok(commit.map_or(Prepared::Nothing, Prepared::Commit))
    }

    fn publish_commit(&self, workspace: &Path, commit: &Commit) -> Result<(), EngineError> {
        let git = Git::new(workspace);
        let name = match commit.branch.as_str() {
            "HEAD" => "HEAD".to_owned(),
            branch => format!("refs/heads/{branch}"),
        };
        let new: CommitId = id(&commit.commit)?;
        let parent: CommitId = id(&commit.parent)?;
        match git.update_ref(&name, &new, Some(&parent)).map_err(trouble)? {
            RefUpdate::Updated | RefUpdate::AlreadyThere => {
                // Whoever has gone to another branch meanwhile has another index.
                let here = git.head().map_err(trouble)?.as_ref() == Some(&new);
                if here { git.reset_index(&new).map_err(trouble) } else { Ok(()) }
            }
            RefUpdate::Moved { actual } => Err(EngineError::Requirement {
                code: Code::RepoMoved,
                message: format!(
                    "`{}` has moved to {} while the run was committing; its commit is {}",
                    commit.branch,
                    actual.as_ref().map_or("nothing", CommitId::as_str),
                    commit.commit
                ),
            }),
        }
    }

    fn make_worktree(&self, run_id: &str, base: &Base) -> Result<String, EngineError> {
        let path = format!("{WORKTREES}/{run_id}");
        let branch = format!("windlass/{run_id}");
        let git = Git::new(&self.root);
        git.worktree_add(&self.root.join(&path), &branch, &id(&base.commit)?).map_err(trouble)?;
        Ok(path)
    }

    fn make_branch(&self, path: &str, base: &Base) -> Result<(), EngineError> {
        let git = Git::new(&self.root);
        git.worktree_add_detached(&self.root.join(path), &id(&base.commit)?).map_err(trouble)
    }

    fn drop_branch(&self, path: &str) -> Result<(), EngineError> {
        let git = Git::new(&self.root);
        git.worktree_remove(&self.root.join(path), OnChanges::Discard).map_err(trouble)
    }
}
