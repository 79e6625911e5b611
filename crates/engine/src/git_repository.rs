//! The repository of a project through the git program.

use std::fs::File;
use std::path::{Path, PathBuf};

use windlass_kernel::run::{Base, Change, Commit, Run};
use windlass_kernel::{Code, Digest, Timestamp};
use windlass_text::patch;
use windlass_workspace::{
    CommitId, Git, GitCause, GitError, LineChange, PinnedPath, TreeId, Treeish, WorktreeStatus,
    names_lost_object,
};

use crate::error::{EngineError, listed, listed_of};
use crate::own_commit::{commit_on, move_branch, own_tree, reviewed_tree};
use crate::pinning::{commit_hook, pinned_paths};
use crate::repository::{CommitHook, FILES_MAX, Patch, PinRequest, PreparedCommit, Repository};
use crate::setup::copied_paths;
use crate::snapshot_store::recorded_tree;
use crate::start::worktree_branch;

/// The repository of a project; the project need not be in one.
#[derive(Clone, Debug)]
pub struct GitRepository {
    root: PathBuf,
}

impl GitRepository {
    /// Uses the repository of this folder.
    #[must_use]
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Commits everything on the current branch.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] if git fails, or the branch moves meanwhile.
    pub fn commit_all(&self, message: &str, at: Timestamp) -> Result<(), EngineError> {
        let git = Git::new(&self.root);
        let Some(head) = git.head()? else { return Ok(()) };
        let tree = git.tree_of_worktree()?;
        if let Some(commit) = commit_on(&git, head, &tree, message, at)? {
            move_branch(&git, &commit, None)?;
        }
        Ok(())
    }

    /// The changes of a run, unless git loses objects meanwhile.
    fn change_now(
        workspace: &Path,
        run: &Run,
        files: &[PathBuf],
    ) -> Result<Option<Change>, EngineError> {
        let Some(base) = base_of(run) else { return Ok(None) };
        let git = without(git_of(workspace, run), workspace, run, files)?;
        let tree = git.tree_of_worktree()?;
        let stat = git.diff_to(&start_of(base)?, &tree)?;
        let files = stat.files.iter().take(FILES_MAX);
        // A binary file counts as one changed line.
        let binary = stat.files.iter().filter(|file| file.lines == LineChange::Binary).count();
        let lines = stat.added.saturating_add(stat.removed);
        Ok(Some(Change {
            commit: None,
            // Equal trees change the base in the same way.
            diff_digest: Digest::of(format!("{} {}", base.commit, tree.as_str()).as_bytes()),
            files: files.map(|file| file.path.to_string_lossy().into_owned()).collect(),
            lines: lines.saturating_add(u64::try_from(binary).unwrap_or_default()),
            tree: tree.as_str().to_owned(),
        }))
    }

    /// The patch of a run, unless git loses objects meanwhile.
    fn diff_now(
        workspace: &Path,
        run: &Run,
        since: Option<&str>,
    ) -> Result<Option<Patch>, EngineError> {
        let Some(base) = base_of(run) else { return Ok(None) };
        let git = git_of(workspace, run);
        let tree = git.tree_of_worktree()?;
        let text = git.patch_to(&start_of(base)?, &tree)?;
        let text = notes(&text, &git.left_out()?) + &text;
        let since = since.map(|since| -> Result<String, EngineError> {
            let since = recorded_tree(since)?;
            Ok(if since == tree {
                String::new()
            } else {
                git.patch_to(&Treeish::Tree(since), &tree)?
            })
        });
        let since = since.transpose()?;
        let changed = run.change.as_ref().map(|change| changed_since(&git, change, &tree));
        let changed = changed.transpose()?.unwrap_or_default();
        Ok(Some(Patch { text, since, tree: tree.as_str().to_owned(), changed }))
    }
}

/// Lines before a patch: what decides which files are part of it, and what is not although git would take it.
fn notes(patch: &str, left_out: &[String]) -> String {
    let names: Vec<String> = patch::files(patch).into_iter().map(patch::name_of).collect();
    let ignores: Vec<&str> = names
        .iter()
        .filter(|name| name.rsplit('/').next() == Some(".gitignore"))
        .map(String::as_str)
        .collect();
    let left_out: Vec<&str> = left_out.iter().map(String::as_str).collect();
    let line = |what: &str, names: &[&str]| match names {
        [] => String::new(),
        _ => format!("# {what}: {}\n", listed_of(names.iter().copied(), names.len())),
    };
    line("which files git ignores is changed by", &ignores)
        + &line(
            "no part of the work, since they usually hold secrets and git does not have them",
            &left_out,
        )
}

/// The name under which a run's prepared commit is kept until its branch has it.
fn kept_commit(run_id: &str) -> String {
    format!("{run_id}/commit")
}

/// Does something with objects that no ref names yet, again if they vanish meanwhile.
pub(crate) fn while_objects_vanish<T>(
    act: impl FnMut() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let is_lost = |error: &EngineError| matches!(error, EngineError::Requirement { message, .. } if names_lost_object(message));
    windlass_workspace::while_objects_vanish(is_lost, act)
}

/// Parses a commit id from the journal.
pub(crate) fn recorded_commit(text: &str) -> Result<CommitId, EngineError> {
    text.parse().map_err(|_| EngineError::Requirement {
        code: Code::StateRecoveryFailed,
        message: format!("`{text}` is recorded as a git commit but is not one"),
    })
}

/// The files from which a run started.
fn start_of(base: &Base) -> Result<Treeish, EngineError> {
    Ok(match &base.tree {
        Some(tree) => Treeish::Tree(recorded_tree(tree)?),
        None => Treeish::Commit(recorded_commit(&base.commit)?),
    })
}

fn dirty(message: String) -> EngineError {
    EngineError::Requirement { code: Code::RepoDirty, message }
}

/// The work tree of a run, without the files that were copied into it: they belong to no commit.
pub(crate) fn git_of(workspace: &Path, run: &Run) -> Git {
    Git::new(workspace).omitting(copied_paths(run))
}

/// The work tree of a run, without these files of its workspace either.
fn without(git: Git, workspace: &Path, run: &Run, files: &[PathBuf]) -> Result<Git, EngineError> {
    if files.is_empty() {
        return Ok(git);
    }
    // The workspace may be a folder of the repository.
    let top = git.top_level()?;
    let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    let below = real.strip_prefix(&top).unwrap_or(Path::new("")).to_owned();
    let named = files.iter().map(|file| below.join(file).to_string_lossy().into_owned());
    Ok(git.omitting(copied_paths(run).into_iter().chain(named)))
}

pub(crate) fn require_clean(git: &Git) -> Result<(), EngineError> {
    match git.status()? {
        WorktreeStatus::Clean => Ok(()),
        WorktreeStatus::Dirty { paths, count } => {
            let names: Vec<String> =
                paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            Err(dirty(format!(
                "the repository has {count} changed or untracked {}: {}",
                if count == 1 { "file" } else { "files" },
                listed_of(names.iter().map(String::as_str), count)
            )))
        }
    }
}

/// The commit from which a run started.
pub(crate) fn base_of(run: &Run) -> Option<&Base> {
    run.started.as_ref()?.base.as_ref()
}

/// The commit at which a run left its branch.
pub(crate) fn expected(run: &Run) -> Option<&str> {
    run.newest_commit().or(base_of(run).map(|base| base.commit.as_str()))
}

/// The branch that a run works on; `None` if it began without one.
fn branch_of(run: &Run) -> Option<String> {
    let started = run.started.as_ref()?;
    match &started.worktree {
        Some(_) => Some(worktree_branch(&started.run_id)),
        None => started.base.as_ref()?.branch.clone(),
    }
}

/// Fails if the work tree is on another branch than the run, which would commit to it.
fn require_branch(git: &Git, run: &Run) -> Result<(), EngineError> {
    let (actual, expected) = (git.branch()?, branch_of(run));
    if actual == expected {
        return Ok(());
    }
    let told = |branch: &Option<String>| match branch {
        Some(branch) => format!("branch `{branch}`"),
        None => "no branch".to_owned(),
    };
    Err(EngineError::Requirement {
        code: Code::RepoMoved,
        message: format!(
            "the work tree is on {}, but run `{}` works on {}",
            told(&actual),
            crate::engine::run_name(run),
            told(&expected)
        ),
    })
}

/// Fails if the work tree is on another branch than the run, or not at the commit at which the run left it.
pub(crate) fn require_head(git: &Git, run: &Run) -> Result<CommitId, EngineError> {
    require_branch(git, run)?;
    let head = git.head()?;
    match (head, expected(run)) {
        (Some(head), Some(expected)) if head.as_str() == expected => Ok(head),
        (head, expected) => Err(EngineError::Requirement {
            code: Code::RepoMoved,
            message: format!(
                "the branch is at {}, but the run left it at {}",
                head.as_ref().map_or("nothing", CommitId::as_str),
                expected.unwrap_or("nothing")
            ),
        }),
    }
}

/// The files in which a tree differs from what the run left.
fn changed_since(git: &Git, change: &Change, tree: &TreeId) -> Result<Vec<String>, EngineError> {
    if tree.as_str() == change.tree {
        return Ok(Vec::new());
    }
    let stat = git.diff_to(&Treeish::Tree(recorded_tree(&change.tree)?), tree)?;
    Ok(stat.files.iter().map(|file| file.path.to_string_lossy().into_owned()).collect())
}

impl Repository for GitRepository {
    fn base(&self, workspace: &Path) -> Result<Option<Base>, EngineError> {
        let git = Git::new(workspace);
        let head = match git.head() {
            Ok(head) => head,
            Err(GitError { cause: GitCause::NotARepository(_), .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(head) = head else { return Ok(None) };
        let branch = git.branch()?;
        Ok(Some(Base { branch, commit: head.as_str().to_owned(), tree: None }))
    }

    fn uncommitted_tree(&self, workspace: &Path) -> Result<Option<String>, EngineError> {
        let git = Git::new(workspace);
        let Some(head) = git.head()? else { return Ok(None) };
        let tree = git.tree_of_worktree()?;
        let is_clean = tree == git.tree_of(&head)? && git.status()? == WorktreeStatus::Clean;
        Ok((!is_clean).then(|| tree.as_str().to_owned()))
    }

    fn require_clean(&self, workspace: &Path) -> Result<(), EngineError> {
        require_clean(&Git::new(workspace))
    }

    fn require_unchanged(&self, workspace: &Path, run: &Run) -> Result<(), EngineError> {
        let git = git_of(workspace, run);
        require_branch(&git, run)?;
        // A commit may be recorded to which the branch has not been moved yet.
        let prepared = run.commit.as_ref().filter(|_| run.left_at.is_none());
        let parent = prepared.map(|commit| commit.parent.as_str());
        let head = git.head()?;
        if parent.is_none() || head.as_ref().map(CommitId::as_str) != parent {
            require_head(&git, run)?;
        }
        let Some(change) = &run.change else { return require_clean(&git) };
        let tree = git.tree_of_worktree()?;
        if tree.as_str() == change.tree {
            return Ok(());
        }
        let names = changed_since(&git, change, &tree)?;
        Err(dirty(format!("files have changed since the run stopped: {}", listed(&names))))
    }

    fn tracked_changes(&self, workspace: &Path) -> Result<Vec<String>, EngineError> {
        let changed = Git::new(workspace).uncommitted()?;
        Ok(changed.into_iter().filter(|(_, tracked)| *tracked).map(|(path, _)| path).collect())
    }

    fn change(&self, workspace: &Path, run: &Run) -> Result<Option<Change>, EngineError> {
        self.change_without(workspace, run, &[])
    }

    fn moved(&self, workspace: &Path, run: &Run) -> Result<Option<String>, EngineError> {
        let Some(left) = expected(run) else { return Ok(None) };
        let git = Git::new(workspace);
        let Some(head) = git.head()?.filter(|head| head.as_str() != left) else { return Ok(None) };
        let branch = branch_of(run);
        // The work tree of a phase is on no branch, too.
        if git.branch()? != branch || branch.is_none() && workspace != self.root {
            return Ok(None);
        }
        // A commit that is gone is no ancestor of any other.
        let descends = git.is_ancestor(&recorded_commit(left)?, &head).unwrap_or(false);
        Ok(descends.then(|| head.as_str().to_owned()))
    }

    fn change_without(
        &self,
        workspace: &Path,
        run: &Run,
        files: &[PathBuf],
    ) -> Result<Option<Change>, EngineError> {
        while_objects_vanish(|| Self::change_now(workspace, run, files))
    }

    fn diff(
        &self,
        workspace: &Path,
        run: &Run,
        since: Option<&str>,
    ) -> Result<Option<Patch>, EngineError> {
        while_objects_vanish(|| Self::diff_now(workspace, run, since))
    }

    fn require_filters(&self, workspace: &Path) -> Result<(), EngineError> {
        Ok(Git::new(workspace).check_filters()?)
    }

    fn pinned(&self, request: &PinRequest<'_>) -> Result<Vec<PinnedPath>, EngineError> {
        pinned_paths(request)
    }

    fn require_reviewed(&self, workspace: &Path, run: &Run) -> Result<(), EngineError> {
        let git = git_of(workspace, run);
        let head = require_head(&git, run)?;
        reviewed_tree(&git, &head, run).map(drop)
    }

    fn pre_commit_hook(&self, workspace: &Path, run: &Run) -> Result<CommitHook, EngineError> {
        commit_hook(workspace, run)
    }

    fn prepare_commit(
        &self,
        workspace: &Path,
        run: &Run,
        message: &str,
        at: Timestamp,
    ) -> Result<PreparedCommit, EngineError> {
        let git = git_of(workspace, run);
        while_objects_vanish(|| {
            let head = require_head(&git, run)?;
            let tree = own_tree(&git, &head, run)?;
            let Some(commit) = commit_on(&git, head, &tree, message, at)? else {
                return Ok(PreparedCommit::Nothing);
            };
            // No branch has it yet, and whoever runs `git gc` must not remove it.
            let run_id = crate::engine::run_name(run);
            git.keep_commit(&kept_commit(&run_id), &recorded_commit(&commit.commit)?)?;
            Ok(PreparedCommit::Commit(commit))
        })
    }

    fn publish_commit(
        &self,
        workspace: &Path,
        run: &Run,
        commit: &Commit,
    ) -> Result<(), EngineError> {
        let git = Git::new(workspace);
        move_branch(&git, commit, base_of(run))?;
        Ok(git.release_commit(&kept_commit(&crate::engine::run_name(run)))?)
    }

    fn has_commit(&self, workspace: &Path, commit: &Commit) -> Result<bool, EngineError> {
        Ok(Git::new(workspace).commit_exists(&recorded_commit(&commit.commit)?)?)
    }

    fn make_worktree(&self, folder: &Path, branch: &str, base: &Base) -> Result<(), EngineError> {
        let git = Git::new(&self.root);
        git.worktree_add(folder, branch, &recorded_commit(&base.commit)?)?;
        Ok(())
    }

    fn add_phase_worktree(
        &self,
        folder: &Path,
        base: &Base,
        lock: &File,
    ) -> Result<(), EngineError> {
        let git = Git::new(&self.root);
        Ok(git.worktree_add_detached(folder, &recorded_commit(&base.commit)?, lock)?)
    }

    fn remove_phase_worktree(&self, folder: &Path, lock: &File) -> Result<(), EngineError> {
        let git = Git::new(&self.root);
        Ok(git.worktree_remove_detached(folder, lock)?)
    }
}
