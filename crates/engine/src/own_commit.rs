//! The commit of a run: its own change on top of the commit at which it left its branch.

use windlass_kernel::run::{Base, Commit, Run};
use windlass_kernel::{Code, Timestamp};
use windlass_workspace::{CommitId, CommitMerge, Git, RefUpdate, TreeId, Treeish};

use crate::error::{EngineError, listed};
use crate::git_repository::{base_of, recorded_commit, require_head};
use crate::snapshot_store::recorded_tree;

/// The branch of a commit that is on none.
const NO_BRANCH: &str = "HEAD";

/// Moves the branch to a commit, and the index with it. What was staged or flagged before a run that began with
/// uncommitted changes, and is not part of the commit, stays so.
pub(crate) fn move_branch(
    git: &Git,
    commit: &Commit,
    began: Option<&Base>,
) -> Result<(), EngineError> {
    let new = recorded_commit(&commit.commit)?;
    let parent = recorded_commit(&commit.parent)?;
    let moved = match commit.branch.as_str() {
        NO_BRANCH => {
            // On a branch by now, the user would find the commit there.
            if let Some(branch) = git.branch()? {
                let message = format!(
                    "the run was committing without a branch, but the work tree is on branch `{branch}` now; its \
                     commit is {new}"
                );
                return Err(EngineError::Requirement { code: Code::RepoMoved, message });
            }
            git.move_detached_head(&new, &parent)?
        }
        branch => git.update_ref(&format!("refs/heads/{branch}"), &new, Some(&parent))?,
    };
    match moved {
        RefUpdate::Updated | RefUpdate::AlreadyThere => {
            // If the user has switched to another branch meanwhile, the index is not ours.
            if git.head()?.as_ref() != Some(&new) {
                return Ok(());
            }
            match began.and_then(|base| Some((base, base.tree.as_ref()?))) {
                None => git.reset_index(&new)?,
                Some((base, tree)) => {
                    let (base, tree) = (recorded_commit(&base.commit)?, recorded_tree(tree)?);
                    git.reset_index_of_run(&new, &parent, &base, &tree)?;
                }
            }
            Ok(())
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

/// The tree that was last reviewed, if the work tree is that; otherwise an error names the differing files.
/// Where nothing was recorded yet, the work tree must be that with which the run began.
pub(crate) fn reviewed_tree(git: &Git, head: &CommitId, run: &Run) -> Result<TreeId, EngineError> {
    let began = base_of(run).and_then(|base| base.tree.as_ref());
    let reviewed = match run.reviewed.as_ref().or(began) {
        Some(tree) => recorded_tree(tree)?,
        None => git.tree_of(head)?,
    };
    let tree = git.tree_of_worktree()?;
    if tree == reviewed {
        return Ok(reviewed);
    }
    let stat = git.diff_to(&Treeish::Tree(reviewed), &tree)?;
    let names: Vec<String> =
        stat.files.iter().map(|file| file.path.display().to_string()).collect();
    Err(EngineError::Requirement {
        code: Code::ChangeUnreviewed,
        message: format!(
            "nothing was committed: files have changed since run `{}` was last reviewed: {}",
            crate::engine::run_name(run),
            listed(&names)
        ),
    })
}

/// The tree of the run's next commit on top of `head`: with the run's own change, and nothing of what differed when
/// it began.
pub(crate) fn own_tree(git: &Git, head: &CommitId, run: &Run) -> Result<TreeId, EngineError> {
    let reviewed = reviewed_tree(git, head, run)?;
    let Some((base, began)) = base_of(run).and_then(|base| Some((base, base.tree.as_ref()?)))
    else {
        return Ok(reviewed);
    };
    let (base, began) = (recorded_commit(&base.commit)?, recorded_tree(began)?);
    match git.own_tree(head, (&base, &began), &reviewed)? {
        CommitMerge::Clean(tree) => Ok(tree),
        CommitMerge::Conflict(paths) => {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            Err(EngineError::Requirement {
                code: Code::MergeConflict,
                message: format!(
                    "nothing was committed: the run has changed what was not committed when it began, and its change \
                     cannot be told from that: {}",
                    listed(&paths)
                ),
            })
        }
    }
}

/// The tree that is about to be committed; `None` if the current commit has it.
pub(crate) fn tree_to_commit(git: &Git, run: &Run) -> Result<Option<TreeId>, EngineError> {
    let head = require_head(git, run)?;
    let tree = own_tree(git, &head, run)?;
    Ok(Some(tree).filter(|tree| git.tree_of(&head).as_ref() != Ok(tree)))
}

/// Creates a commit of a tree on top of `head`; `None` if nothing has changed.
pub(crate) fn commit_on(
    git: &Git,
    head: CommitId,
    tree: &TreeId,
    message: &str,
    at: Timestamp,
) -> Result<Option<Commit>, EngineError> {
    let stat = git.diff_to(&Treeish::Commit(head.clone()), tree)?;
    if stat.files.is_empty() {
        return Ok(None);
    }
    let who = git.identity()?;
    let seconds = u64::try_from(at.unix_ms() / 1000).unwrap_or_default();
    let parents = std::slice::from_ref(&head);
    let commit = git.commit_tree(tree, parents, message, &who, &who, seconds)?;
    let branch = git.branch()?;
    Ok(Some(Commit {
        branch: branch.unwrap_or_else(|| NO_BRANCH.to_owned()),
        commit: commit.as_str().to_owned(),
        parent: head.as_str().to_owned(),
        tree: tree.as_str().to_owned(),
    }))
}
