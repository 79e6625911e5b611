//! Puts the project's files back to how they were before a run that did not pass.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use windlass_kernel::run::plan::{Concurrency, Phase, RunOutcome};
use windlass_kernel::run::{
    CheckpointKind, CheckpointRecord, CheckpointSide, Ended, Event, KeptEnd, PhaseState, Rollback,
    Run,
};
use windlass_kernel::{Code, TraceId};
use windlass_workspace::{ChangeKind, PathChange, TreeId};

use crate::engine::{Engine, run_name};
use crate::error::{EngineError, listed};
use crate::rollback::{RollbackPlan, RollbackRequest, on_conflict};
use crate::rollback_refusal::check_texts;
use crate::snapshot_store::recorded_tree;

/// The folder of a project's configuration, which no command of a run can write.
const CONFIGURATION: &str = ".windlass";

/// The files of a run that were put back.
#[derive(Clone, Debug)]
pub struct PutBack {
    /// The run.
    pub run: Run,
    /// The files that were put back.
    pub changes: Vec<PathChange>,
    /// The files that stay as they are: people have changed or added them.
    pub kept: Vec<PathBuf>,
}

impl Engine {
    /// The checkpoint to which the files of a run can be put back: it has ended without passing, has changed files
    /// of the project itself, and kept them as they were at its start.
    #[must_use]
    pub fn start_of_failed(run: &Run) -> Option<&CheckpointRecord> {
        let ended = run.ended.as_ref()?;
        let own = run.started.as_ref()?.worktree.is_some();
        let listed = run.change.as_ref().is_some_and(|change| !change.files.is_empty());
        let first = run.checkpoints.first()?;
        let tree = &first.workspace.as_ref()?.tree;
        // Git may not be able to list what has changed.
        let changed = listed || run.tree.as_ref().is_some_and(|last| last != tree);
        // Files that people have changed may still differ.
        let is_back = run.checkpoints.last().is_some_and(|last| {
            last.kind == CheckpointKind::Rollback && last.parent == Some(first.id)
        });
        (ended.outcome != RunOutcome::Pass && !own && changed && !is_back).then_some(first)
    }

    /// What [`Self::put_back`] would do.
    ///
    /// # Errors
    /// [`EngineError`] if there is nothing to put back, or the files cannot be read.
    pub fn plan_put_back(&self, trace_id: TraceId) -> Result<PutBack, EngineError> {
        let run = self.read(trace_id)?;
        let start = start_of(&run)?;
        let start = self.stored_target(&run, start.id)?.clone();
        let (tree, now) = self.start_and_now(&run, &start)?;
        let kept = self.changed_by_people(&run, &tree, &now)?;
        let (plan, _) = self.compare(&run, &start, &tree, &now, &kept)?;
        Ok(PutBack { run, changes: plan.changes, kept: plan.left })
    }

    /// Rolls the files of a run that did not pass back to its start. The run stays ended as it has; its work stays
    /// in its checkpoints. Files that the run cannot have changed stay as they are.
    ///
    /// # Errors
    /// [`EngineError`] if there is nothing to put back, or people have changed files since or while the run was at
    /// work, and `force` is not set.
    pub fn put_back(
        &self,
        trace_id: TraceId,
        by: &str,
        force: bool,
    ) -> Result<PutBack, EngineError> {
        let seen = self.read(trace_id)?;
        let _locks = match seen.plan() {
            Some(plan) => self.lock_for(plan, false)?,
            None => Vec::new(),
        };
        let mut recorder = self.open(trace_id)?;
        let run = recorder.snapshot();
        let start = start_of(&run)?;
        let Some(Ended { outcome, reason, detail, .. }) = run.ended.clone() else {
            return Err(nothing(&run));
        };
        let request = RollbackRequest {
            checkpoint: start.id,
            by: by.to_owned(),
            reason: format!("the run ended {}: {reason}", outcome.as_str()),
            resume: false,
            force,
        };
        check_texts(&request)?;
        // The checkpoint must not be purged before the files are put back.
        let storing = self.checkpointer()?.store().lock_for_storing()?;
        let checkpoint = self.stored_target(&run, start.id)?.clone();
        let (tree, now) = self.start_and_now(&run, &checkpoint)?;
        let kept = self.changed_by_people(&run, &tree, &now)?;
        let (rollback, plan) = self.prepare(&run, &checkpoint, &request, &kept)?;
        if !force {
            refuse_mixed(&run, &kept, &plan)?;
        }
        let rollback = Rollback { ends: Some(KeptEnd { outcome, reason, detail }), ..rollback };
        recorder.append(vec![Event::RollbackBegun(Box::new(rollback))])?;
        drop(storing);
        let run = self.finish_rollback(recorder, on_conflict(force))?;
        Ok(PutBack { run, changes: plan.changes, kept: plan.left })
    }

    /// The trees of the workspace at the start of a run and now.
    fn start_and_now(
        &self,
        run: &Run,
        start: &CheckpointRecord,
    ) -> Result<(TreeId, TreeId), EngineError> {
        let tree = start.workspace.as_ref().map(|workspace| recorded_tree(&workspace.tree));
        let tree = tree.transpose()?.ok_or_else(|| nothing(run))?;
        let now = self.checkpointer()?.store().capture_unreferenced(&self.workspace(run))?;
        Ok((tree, now))
    }

    /// The files that people have changed since the start of a run, as far as that is known: the project's
    /// configuration, which no command of a run can write, and what changed while no phase was at work.
    fn changed_by_people(
        &self,
        run: &Run,
        start: &TreeId,
        now: &TreeId,
    ) -> Result<BTreeSet<PathBuf>, EngineError> {
        let store = self.checkpointer()?.store();
        let mut theirs: BTreeSet<PathBuf> = store
            .changes(start, now)?
            .into_iter()
            .filter(|change| !change.is_of_folder())
            .map(|change| change.path)
            .filter(|path| path.starts_with(Path::new(CONFIGURATION)))
            .collect();
        for pair in run.checkpoints.windows(2) {
            let [before, after] = pair else { continue };
            if is_idle(run, before, after) {
                theirs.extend(self.between(before, after)?.into_iter().map(|change| change.path));
            }
        }
        Ok(theirs)
    }

    /// The files that are there now because people have added them while no phase was at work, or since an earlier
    /// rollback has left or uncovered them. Work that makes a file anew makes it the run's.
    pub(crate) fn added_by_people(&self, run: &Run) -> Result<BTreeSet<PathBuf>, EngineError> {
        let mut added = BTreeSet::new();
        for pair in run.checkpoints.windows(2) {
            let [before, after] = pair else { continue };
            let uncovers = after.kind == CheckpointKind::Rollback;
            let is_idle = uncovers || is_idle(run, before, after);
            // What a rollback leaves is what the checkpoint to which it led does not have.
            let target = after.parent.and_then(|parent| run.checkpoint(parent));
            let before = if uncovers { target.unwrap_or(before) } else { before };
            if !is_idle && added.is_empty() {
                continue;
            }
            for change in self.between(before, after)? {
                match change.kind {
                    ChangeKind::Added if is_idle => drop(added.insert(change.path)),
                    ChangeKind::Added | ChangeKind::Removed => drop(added.remove(&change.path)),
                    ChangeKind::Modified | ChangeKind::TypeChanged | ChangeKind::ModeChanged => {}
                }
            }
        }
        Ok(added)
    }

    /// The files in which two checkpoints differ; none if one was purged.
    fn between(
        &self,
        before: &CheckpointRecord,
        after: &CheckpointRecord,
    ) -> Result<Vec<PathChange>, EngineError> {
        let trees = before.workspace.as_ref().zip(after.workspace.as_ref());
        let Some((before, after)) = trees.filter(|(before, after)| before.tree != after.tree)
        else {
            return Ok(Vec::new());
        };
        let (before, after) = (recorded_tree(&before.tree)?, recorded_tree(&after.tree)?);
        let store = self.checkpointer()?.store();
        if !store.has_tree(&before)? || !store.has_tree(&after)? {
            return Ok(Vec::new());
        }
        let mut changes = store.changes(&before, &after)?;
        changes.retain(|change| !change.is_of_folder());
        Ok(changes)
    }
}

/// Whether nothing of a run was at work between two checkpoints.
fn is_idle(run: &Run, before: &CheckpointRecord, after: &CheckpointRecord) -> bool {
    let serial = run.plan().is_some_and(|plan| plan.concurrency == Concurrency::Serial);
    // Checks are programs that may write, and the work of a branch is merged.
    let plain = |(phase, _): (&Phase, &PhaseState)| phase.checks.is_empty() && !phase.branch;
    let begins = serial && after.kind == CheckpointKind::Started;
    let ended = before.at == CheckpointSide::Post && run.phase(before.phase).is_some_and(plain);
    begins && (ended || before.kind == CheckpointKind::Rollback)
}

/// The start of a run whose files can be put back.
fn start_of(run: &Run) -> Result<&CheckpointRecord, EngineError> {
    Engine::start_of_failed(run).ok_or_else(|| nothing(run))
}

fn nothing(run: &Run) -> EngineError {
    let hint = "only a run that has ended without passing, and has changed files of the project";
    EngineError::Invalid {
        code: Code::CheckpointUnavailable,
        message: format!("run `{}` has nothing to put back", run_name(run)),
        hint: Some(hint.to_owned()),
    }
}

/// Fails if people have worked in the project while the run did: then some of the files may be theirs.
fn refuse_mixed(
    run: &Run,
    kept: &BTreeSet<PathBuf>,
    plan: &RollbackPlan,
) -> Result<(), EngineError> {
    if kept.is_empty() || plan.changes.is_empty() {
        return Ok(());
    }
    let id = run_name(run);
    let names = |paths: &mut dyn Iterator<Item = &PathBuf>| {
        let names: Vec<String> = paths.map(|path| path.to_string_lossy().into_owned()).collect();
        listed(&names)
    };
    let theirs = names(&mut kept.iter());
    let files = names(&mut plan.changes.iter().map(|change| &change.path));
    Err(EngineError::Invalid {
        code: Code::WorkspaceChanged,
        message: format!(
            "people have changed {theirs} since run `{id}` began, so these files may be theirs, too: {files}"
        ),
        hint: Some(format!(
            "save what is yours; `windlass close {id} --restore --dry-run` lists what would be put back, and \
             `windlass close {id} --restore --force` does it and keeps the present files in a snapshot"
        )),
    })
}
