//! Merges the branch of an ended run into the branch that it started from.

use std::path::PathBuf;

use serde::Serialize;
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::run::{Event, Integration, IntegrationStep, MergeStrategy, Run};
use windlass_kernel::{Code, TraceId};
use windlass_workspace::{CommitId, CommitMerge, Git, GitCause, GitError, RefUpdate};

use crate::engine::{Engine, run_name};
use crate::error::{EngineError, listed};
use crate::executors::commit_message;
use crate::git_repository::{
    expected, git_of, recorded_commit, require_clean, while_objects_vanish,
};
use crate::start::worktree_branch;

/// A request to merge the branch of a run.
#[derive(Clone, Debug)]
pub struct IntegrationRequest {
    /// The target branch; without one, that from which the run started.
    pub into: Option<String>,
    /// How it is merged.
    pub strategy: MergeStrategy,
    /// Whether changes in the run's work tree that are not committed may be lost.
    pub discard: bool,
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IntegrationResult {
    /// The run's branch.
    pub branch: String,
    /// The target branch.
    pub into: String,
    /// The commit of the target branch.
    pub commit: String,
    /// Whether the target branch had the work already.
    pub already: bool,
}

fn refused(code: Code, message: String) -> EngineError {
    EngineError::Requirement { code, message }
}

impl Engine {
    /// Merges the branch of a run that passed. The merge is recorded before the target branch is moved, and done
    /// once, however often it is asked for. A work tree that has the target branch checked out is brought up to date.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] with the code `MERGE_CONFLICT` names the files that both branches have changed;
    /// then, and after every other refusal, no branch has been moved.
    pub fn integrate(
        &self,
        trace_id: TraceId,
        request: &IntegrationRequest,
    ) -> Result<IntegrationResult, EngineError> {
        let _lock = self.wait_for_lock("integration")?;
        let mut recorder = self.open(trace_id)?;
        let run = recorder.snapshot();
        let git = Git::new(&self.settings.root);
        let branch = require_branch(&run)?;
        let base = run.started.as_ref().and_then(|started| started.base.as_ref());
        let into = request.into.clone().or_else(|| base.and_then(|base| base.branch.clone()));
        let Some(into) = into else {
            let name = run_name(&run);
            let message = format!("run `{name}` started from no branch; name one with `--into`");
            return Err(refused(Code::RequestInvalid, message));
        };
        let Some(before) = git.branch_tip(&into)? else {
            let message = format!("there is no branch `{into}`");
            return Err(refused(Code::RequestInvalid, message));
        };
        // A run that works there would find other files, and its branch at another commit.
        let is_own =
            |folder: &PathBuf| folder.canonicalize().ok() == self.settings.root.canonicalize().ok();
        let _workspace = match checked_out(&git, &into)?.filter(is_own) {
            Some(_) => Some(self.lock("workspace")?),
            None => None,
        };
        let tip = self.tip(&git, &branch, &run)?;
        if !request.discard {
            require_all_committed(&git, &branch, &run, &tip)?;
        }
        let done = |commit: &CommitId, already| IntegrationResult {
            branch: branch.clone(),
            into: into.clone(),
            commit: commit.as_str().to_owned(),
            already,
        };
        let known = run.integration.prepared.as_ref();
        let known = known.filter(|known| known.into == into && known.tip == tip.as_str());
        let kept = kept_merge(&run_name(&run));
        if let Some(known) = known
            && let (old, new) = (recorded_commit(&known.before)?, recorded_commit(&known.commit)?)
            // One that git has removed, before the branch had it, is made again.
            && git.commit_exists(&new)?
        {
            let is_merged = git.is_ancestor(&new, &before)?;
            if is_merged && run.integration.done {
                return Ok(done(&before, true));
            }
            // A process that was killed prepared it; the branch may have been moved or not.
            if is_merged || before == old {
                if before == old || before == new {
                    self.publish(&git, &into, &old, &new)?;
                }
                let commit = known.commit.clone();
                recorder.append(vec![event(IntegrationStep::Done { commit })])?;
                git.release_commit(&kept)?;
                return Ok(done(&new, is_merged));
            }
        }
        if git.is_ancestor(&tip, &before)? {
            return Ok(done(&before, true));
        }
        let worktree = self.worktree_top(&run);
        if !request.discard && worktree.is_dir() {
            // It is removed afterwards, with everything that is not committed.
            require_clean(&git_of(&worktree, &run))?;
        }
        let merged = while_objects_vanish(|| {
            let merged = self.merge_commit(&git, &run, request.strategy, (&into, &before), &tip)?;
            if let Ok(commit) = &merged
                && *commit != tip
            {
                // No branch has it yet, and whoever runs `git gc` must not remove it.
                git.keep_commit(&kept, commit)?;
            }
            Ok(merged)
        })?;
        let commit = match merged {
            Ok(commit) => commit,
            Err(paths) => {
                let message = format!(
                    "`{branch}` and `{into}` have changed the same lines of {}",
                    listed(&paths)
                );
                let conflicted = IntegrationStep::Conflicted {
                    before: before.as_str().to_owned(),
                    by: self.settings.by.clone(),
                    into,
                    paths,
                    tip: tip.as_str().to_owned(),
                };
                recorder.append(vec![event(conflicted)])?;
                return Err(refused(Code::MergeConflict, message));
            }
        };
        if let Some(folder) = checked_out(&git, &into)? {
            require_committed(&Git::new(&folder), &into)?;
            git.check_advance(&folder, &before, &commit).map_err(in_the_way)?;
        }
        let prepared = Integration {
            before: before.as_str().to_owned(),
            by: self.settings.by.clone(),
            commit: commit.as_str().to_owned(),
            into: into.clone(),
            strategy: request.strategy,
            tip: tip.as_str().to_owned(),
        };
        recorder.append(vec![event(IntegrationStep::Prepared(Box::new(prepared)))])?;
        self.publish(&git, &into, &before, &commit)?;
        let merged = IntegrationStep::Done { commit: commit.as_str().to_owned() };
        recorder.append(vec![event(merged)])?;
        git.release_commit(&kept)?;
        Ok(done(&commit, false))
    }

    /// The commit of the run's branch. Commits that the run did not record count only after a conflict, which a
    /// person resolves by them.
    fn tip(&self, git: &Git, branch: &str, run: &Run) -> Result<CommitId, EngineError> {
        let tip = git.branch_tip(branch)?;
        let left = expected(run).map(recorded_commit).transpose()?;
        if let (Some(tip), Some(left)) = (&tip, &left)
            && (tip == left || run.integration.conflicted && git.is_ancestor(left, tip)?)
        {
            return Ok(tip.clone());
        }
        let told = |commit: &Option<CommitId>| {
            commit.as_ref().map_or("nothing", CommitId::as_str).to_owned()
        };
        let (now, left) = (told(&tip), told(&left));
        let message = format!("`{branch}` is at {now}, but the run left it at {left}");
        Err(refused(Code::RepoMoved, message))
    }

    /// Makes the commit of the target branch after the merge, or returns the files with conflicts.
    fn merge_commit(
        &self,
        git: &Git,
        run: &Run,
        strategy: MergeStrategy,
        (into, before): (&str, &CommitId),
        tip: &CommitId,
    ) -> Result<Result<CommitId, Vec<String>>, EngineError> {
        let forward = git.is_ancestor(before, tip)?;
        match strategy {
            MergeStrategy::Merge | MergeStrategy::FastForward if forward => {
                return Ok(Ok(tip.clone()));
            }
            MergeStrategy::FastForward => {
                let message = format!(
                    "`{into}` has commits that the run's branch does not have, so it cannot be fast-forwarded"
                );
                return Err(refused(Code::RepoMoved, message));
            }
            MergeStrategy::Merge | MergeStrategy::Squash => {}
        }
        let tree = match git.merge_commits(before, tip)? {
            CommitMerge::Clean(tree) => tree,
            CommitMerge::Conflict(paths) => {
                let text = |path: PathBuf| path.to_string_lossy().into_owned();
                return Ok(Err(paths.into_iter().map(text).collect()));
            }
        };
        let (message, parents) = match strategy {
            // The message of the run's own commit, which names the run, also after a person has added others.
            MergeStrategy::Squash => {
                let message = match &run.commit {
                    Some(own) => git.message_of(&recorded_commit(&own.commit)?)?,
                    // The work has made all commits: the message that the run's own would have.
                    None => commit_message(run),
                };
                (message, vec![before.clone()])
            }
            MergeStrategy::Merge | MergeStrategy::FastForward => {
                let branch = worktree_branch(&run_name(run));
                let message = format!("Merge branch \'{branch}\' into {into}");
                (message, vec![before.clone(), tip.clone()])
            }
        };
        let who = git.identity()?;
        let seconds = self.recording.clock.now().unix_ms() / 1000;
        let seconds = u64::try_from(seconds).unwrap_or_default();
        Ok(Ok(git.commit_tree(&tree, &parents, &message, &who, &who, seconds)?))
    }

    /// Moves the target branch, then brings the work tree that has it checked out up to date.
    fn publish(
        &self,
        git: &Git,
        into: &str,
        before: &CommitId,
        commit: &CommitId,
    ) -> Result<(), EngineError> {
        match git.update_ref(&format!("refs/heads/{into}"), commit, Some(before))? {
            RefUpdate::Updated | RefUpdate::AlreadyThere => {}
            RefUpdate::Moved { actual } => {
                let actual = actual.as_ref().map_or("nothing", CommitId::as_str);
                let message = format!("`{into}` has moved to {actual} meanwhile");
                return Err(refused(Code::RepoMoved, message));
            }
        }
        match checked_out(git, into)? {
            Some(folder) => git.advance(&folder, before, commit).map_err(in_the_way),
            None => Ok(()),
        }
    }
}

/// Fails if the work of a run committed by itself, but not all of what the run passed with.
fn require_all_committed(
    git: &Git,
    branch: &str,
    run: &Run,
    tip: &CommitId,
) -> Result<(), EngineError> {
    let is_own = run.left_at.as_deref() == Some(tip.as_str());
    let Some(reviewed) = run.reviewed.as_deref().filter(|_| is_own) else { return Ok(()) };
    if git.tree_of(tip)?.as_str() == reviewed {
        return Ok(());
    }
    let message = format!(
        "`{branch}` has other files than those with which run `{}` passed: its work has committed only a part of \
         them, or others later; `--discard` merges what is committed",
        run_name(run)
    );
    Err(refused(Code::ChangeUnreviewed, message))
}

/// The name under which the commit of a merge is kept until the target branch has it.
fn kept_merge(run_id: &str) -> String {
    format!("{run_id}/merge")
}

fn event(step: IntegrationStep) -> Event {
    Event::Integration(Box::new(step))
}

/// The branch of a run that can be merged.
fn require_branch(run: &Run) -> Result<String, EngineError> {
    let name = run_name(run);
    match &run.ended {
        Some(ended) if ended.outcome == RunOutcome::Pass => {}
        Some(ended) => {
            let message = format!("run `{name}` has ended {}", ended.outcome.as_str());
            return Err(refused(Code::RunNotPassed, message));
        }
        None => return Err(refused(Code::RunNotPassed, format!("run `{name}` has not ended"))),
    }
    if run.started.as_ref().is_none_or(|started| started.worktree.is_none()) {
        let message = format!("run `{name}` has no branch of its own: it worked in the project");
        return Err(refused(Code::RequestInvalid, message));
    }
    Ok(worktree_branch(&name))
}

/// The work tree in which a branch is checked out.
fn checked_out(git: &Git, branch: &str) -> Result<Option<PathBuf>, EngineError> {
    let all = git.worktree_list()?;
    let has = all.into_iter().find(|one| one.branch.as_deref() == Some(branch) && !one.prunable);
    Ok(has.filter(|one| !one.bare).map(|one| one.path))
}

/// Fails if tracked files of the work tree that has a branch checked out have changes.
fn require_committed(git: &Git, branch: &str) -> Result<(), EngineError> {
    let changed = git.uncommitted()?.into_iter();
    let names: Vec<String> =
        changed.filter(|(_, tracked)| *tracked).map(|(path, _)| path).collect();
    if names.is_empty() {
        return Ok(());
    }
    let message = format!(
        "`{branch}` is checked out with changes that are not committed: {}",
        listed(&names)
    );
    Err(refused(Code::RepoDirty, message))
}

/// The error of a work tree that cannot be brought up to date.
fn in_the_way(error: GitError) -> EngineError {
    if matches!(error.cause, GitCause::Exit { .. } | GitCause::Taken(_)) {
        return refused(Code::RepoDirty, error.to_string());
    }
    error.into()
}
