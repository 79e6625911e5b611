//! Rolls a run back to one of its checkpoints: its state and its files together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use windlass_kernel::run::plan::{Doer, RunOutcome};
use windlass_kernel::run::{
    Base, CheckpointKind, CheckpointRecord, CheckpointSide, Event, KeptEnd, Next, PhaseStatus,
    Rollback, Run,
};
use windlass_kernel::{CheckpointId, Code, State, TraceId};
use windlass_workspace::{
    ChangeKind, OnConflict, PathChange, TreeId, WorkspaceChange, is_in_the_way,
};

use crate::drive::lock;
use crate::engine::{Engine, run_name};
use crate::error::EngineError;
use crate::rollback_refusal::{check_texts, refuse_other_commit, refuse_to_take, with_way_on};
use crate::run_recorder::RunRecorder;
use crate::snapshot_store::recorded_tree;
use crate::start::worktree_branch;

/// The beginning of the references of rollbacks; the sequence number of the run's head follows.
pub(crate) const ROLLBACK_PREFIX: &str = "rollback-";

/// A request for a rollback.
#[derive(Clone, Debug)]
pub struct RollbackRequest {
    /// The checkpoint to roll back to.
    pub checkpoint: CheckpointId,
    /// The person who requests it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// Whether to overwrite files that people may have changed since; a snapshot preserves them.
    pub force: bool,
    /// Whether the run continues immediately.
    pub resume: bool,
}

/// The effects of a rollback that is not performed yet.
#[derive(Clone, Debug)]
pub struct RollbackPlan {
    /// The checkpoint.
    pub to: CheckpointRecord,
    /// The phases whose results are archived.
    pub archived: Vec<String>,
    /// The files that the rollback would change.
    pub changes: Vec<PathChange>,
    /// The files that have changed since the run's last capture, by people as far as is known.
    pub changed: Vec<PathBuf>,
    /// The files that would remain though the checkpoint does not have them: people have added them, or
    /// the checkpoint's own lists ignore them.
    pub left: Vec<PathBuf>,
    /// The repositories inside the workspace, whose files the rollback does not change.
    pub nested: Vec<PathBuf>,
    /// A phase that is not done: what it has changed cannot be told from what people have changed.
    pub unfinished: Option<String>,
    /// How the run has ended, if it has: the rollback opens it again.
    pub ended: Option<RunOutcome>,
    /// The run's commit, which stays in its branch.
    pub commit: Option<String>,
}

impl Engine {
    /// Returns the effects of a rollback without performing it.
    ///
    /// # Errors
    /// [`EngineError`] if the run or the checkpoint does not exist, or the files cannot be read.
    pub fn plan_rollback(
        &self,
        trace_id: TraceId,
        checkpoint: CheckpointId,
    ) -> Result<RollbackPlan, EngineError> {
        let run = self.read(trace_id)?;
        let checkpoint = self.stored_target(&run, checkpoint)?;
        let Some(workspace) = &checkpoint.workspace else {
            return Ok(without_files(&run, checkpoint));
        };
        if lost_worktree(&run, &self.workspace(&run)).is_some() {
            return Err(EngineError::Invalid {
                code: Code::CheckpointUnavailable,
                message: format!("the work tree of run `{}` was removed", run_name(&run)),
                hint: Some(
                    "a rollback without `--dry-run` makes it again from its branch".to_owned(),
                ),
            });
        }
        let now = self.checkpointer()?.store().capture_unreferenced(&self.workspace(&run))?;
        let tree = recorded_tree(&workspace.tree)?;
        let store = self.checkpointer()?.store();
        let mut nested: BTreeSet<PathBuf> = store.nested(&now)?.into_iter().collect();
        nested.extend(store.nested(&tree)?);
        let (plan, _) = self.compare(&run, checkpoint, &tree, &now, &BTreeSet::new())?;
        Ok(RollbackPlan { nested: nested.into_iter().collect(), ..plan })
    }

    /// Rolls a run back and, if requested, continues it.
    ///
    /// The workspace is captured first, then the rollback is recorded, then the files are restored, then
    /// that is recorded with a checkpoint: after a crash it is completed, and it can itself be rolled
    /// back.
    ///
    /// # Errors
    /// [`EngineError::Changed`] if people may have changed files since and `force` is not set; then nothing
    /// was changed.
    pub fn roll_back(
        &self,
        trace_id: TraceId,
        request: &RollbackRequest,
    ) -> Result<Run, EngineError> {
        check_texts(request)?;
        let seen = self.read(trace_id)?;
        let run_id = run_name(&seen);
        self.stop.check(Some(&run_id))?;
        let own = seen.started.as_ref().is_some_and(|started| started.worktree.is_some());
        let _locks = match seen.plan() {
            Some(plan) => self.lock_for(plan, own)?,
            None => Vec::new(),
        };
        self.bring_back_worktree(&seen)?;
        let mut recorder = self.open(trace_id)?;
        if recorder.run().pending_rollback().is_some() {
            // An interrupted rollback is completed first.
            let run = self.finish_rollback(recorder, on_conflict(request.force))?;
            drop(run);
            recorder = self.open(trace_id)?;
        }
        let run = recorder.snapshot();
        if request.resume && !self.has_its_policy(&run)? {
            let message = "the policy has changed since the run began: the run can be rolled back, but \
                           not continued";
            let message = message.to_owned();
            return Err(EngineError::Requirement { code: Code::PolicyChangedMidRun, message });
        }
        // The checkpoint must not be purged before the run is open again.
        let storing = self.checkpointer()?.store().lock_for_storing()?;
        let checkpoint = self.stored_target(&run, request.checkpoint)?.clone();
        let (rollback, _) = self.prepare(&run, &checkpoint, request, &BTreeSet::new())?;
        let mut events = Vec::new();
        if run.head.state == Some(State::Init) {
            events.push(Event::Begun {});
        }
        events.push(Event::RollbackBegun(Box::new(rollback)));
        recorder.append(events)?;
        drop(storing);
        self.drive(recorder)
    }

    /// Makes the work tree of a run again that was removed when the run was closed.
    fn bring_back_worktree(&self, run: &Run) -> Result<(), EngineError> {
        let Some((path, base)) = lost_worktree(run, &self.workspace(run)) else { return Ok(()) };
        let folder = self.settings.state.join(path);
        let _lock = self.wait_for_lock("worktrees")?;
        self.repository.make_worktree(&folder, &worktree_branch(&run_name(run)), base)?;
        Ok(())
    }

    /// Returns the checkpoint, if the run can be rolled back to it.
    pub(crate) fn stored_target<'a>(
        &self,
        run: &'a Run,
        checkpoint: CheckpointId,
    ) -> Result<&'a CheckpointRecord, EngineError> {
        let target = target(run, checkpoint)?;
        if target.workspace.is_some() {
            for needed in needed_checkpoints(run, target) {
                self.require_stored(run, needed)?;
            }
        }
        Ok(target)
    }

    /// Captures the workspace and returns the event of the rollback, and what it does. The files in `kept` stay as
    /// they are.
    pub(crate) fn prepare(
        &self,
        run: &Run,
        checkpoint: &CheckpointRecord,
        request: &RollbackRequest,
        kept: &BTreeSet<PathBuf>,
    ) -> Result<(Rollback, RollbackPlan), EngineError> {
        let mut rollback = Rollback {
            archived: run.archived_by(checkpoint),
            by: request.by.clone(),
            checkpoint: checkpoint.id,
            commit: self.left_by_interrupted_work(run)?,
            ends: None,
            from: run.checkpoints.last().map(|checkpoint| checkpoint.id),
            reason: request.reason.clone(),
            resume: request.resume,
            snapshot: None,
            target: None,
            tree: None,
        };
        let Some(workspace) = &checkpoint.workspace else {
            return Ok((rollback, without_files(run, checkpoint)));
        };
        let store = self.checkpointer()?.store();
        let now = store.capture_unreferenced(&self.workspace(run))?;
        let tree = recorded_tree(&workspace.tree)?;
        let (plan, target) = self.compare(run, checkpoint, &tree, &now, kept)?;
        if !plan.changed.is_empty() && !request.force {
            let paths = plan.changed.iter().map(|path| path.to_string_lossy().into_owned());
            return Err(EngineError::Changed {
                run: run_name(run),
                paths: paths.collect(),
                unfinished: plan.unfinished,
            });
        }
        if request.resume {
            refuse_to_take(run, &plan)?;
        }
        refuse_other_commit(run, checkpoint)?;
        // Nothing is recorded yet: a rollback that cannot be completed is refused.
        store.check_restorable(&now, &target)?;
        // The beginning of a run that has not begun is recorded with the rollback.
        let number = run.head.sequence_number + u64::from(run.head.state == Some(State::Init));
        let change = WorkspaceChange {
            expected: &now,
            wanted: &target,
            keep: &rollback_folder(run, number),
            on_conflict: on_conflict(request.force),
        };
        let prepared = store.prepare_change(&self.workspace(run), &change);
        prepared.map_err(|error| with_way_on(error, run))?;
        rollback.snapshot = Some(now.to_string());
        rollback.target = Some(target.to_string());
        rollback.tree = Some(tree.to_string());
        Ok((rollback, plan))
    }

    /// The commit at which interrupted work left the branch of a run, if that is not recorded: the work has
    /// committed, or a commit of the run was prepared that its branch does not have.
    fn left_by_interrupted_work(&self, run: &Run) -> Result<Option<String>, EngineError> {
        if unfinished_phase(run).is_none() {
            return Ok(None);
        }
        let workspace = self.workspace(run);
        if let Some(commit) = self.repository.moved(&workspace, run)? {
            return Ok(Some(commit));
        }
        let Some(prepared) = run.commit.as_ref().filter(|_| run.left_at.is_none()) else {
            return Ok(None);
        };
        let now = self.repository.base(&workspace)?.map(|now| now.commit);
        Ok(now.filter(|now| *now == prepared.parent))
    }

    /// Compares the workspace `now` with the run's last capture and with the checkpoint's `tree`. Returns
    /// the plan, and the tree to restore: the checkpoint's, with the files that remain, those in `kept` among them.
    pub(crate) fn compare(
        &self,
        run: &Run,
        checkpoint: &CheckpointRecord,
        tree: &TreeId,
        now: &TreeId,
        kept: &BTreeSet<PathBuf>,
    ) -> Result<(RollbackPlan, TreeId), EngineError> {
        let store = self.checkpointer()?.store();
        let unfinished = unfinished_phase(run);
        let last = run.tree.as_deref().map(recorded_tree).transpose()?;
        let last = match last {
            // It may have been purged.
            Some(last) if store.has_tree(&last)? => Some(last),
            Some(_) | None => None,
        };
        let since = store.changes(last.as_ref().unwrap_or(tree), now)?;
        let are_of_people = last.is_some() && unfinished.is_none();
        let mut added = self.added_by_people(run)?;
        let added_since = since
            .iter()
            .filter(|change| change.kind == ChangeKind::Added && are_of_people)
            .map(|change| change.path.clone());
        added.extend(added_since);
        let mut changes = store.changes(now, tree)?;
        let written: BTreeSet<PathBuf> = changes
            .iter()
            .filter(|change| change.kind != ChangeKind::Removed && !change.is_of_folder())
            .map(|change| change.path.clone())
            .collect();
        let folders: BTreeSet<PathBuf> = changes
            .iter()
            .filter(|change| change.is_of_folder())
            .map(|change| change.path.clone())
            .collect();
        let removed: Vec<PathBuf> = changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Removed)
            .map(|change| change.path.clone())
            .filter(|path| !is_in_the_way(path, &written))
            .collect();
        // A file that is ignored at the checkpoint was never part of it: it may be older than the checkpoint.
        let files: Vec<PathBuf> =
            removed.iter().filter(|path| !folders.contains(*path)).cloned().collect();
        let ignored = store.ignored(&self.workspace(run), tree, &files)?;
        let remains =
            |path: &PathBuf| ignored.contains(path) || added.contains(path) || kept.contains(path);
        let mut left: BTreeSet<PathBuf> = removed.into_iter().filter(remains).collect();
        let rewritten = changes.iter().filter(|change| match change.kind {
            ChangeKind::Modified | ChangeKind::ModeChanged => kept.contains(&change.path),
            ChangeKind::Added | ChangeKind::Removed | ChangeKind::TypeChanged => false,
        });
        left.extend(rewritten.map(|change| change.path.clone()));
        changes.retain(|change| !left.contains(&change.path));
        let left: Vec<PathBuf> = left.into_iter().collect();
        let target = match left.as_slice() {
            [] => tree.clone(),
            left => store.with_files(tree, now, left)?,
        };
        // Nobody loses anything with an empty folder.
        let changed = since.into_iter().filter(|change| !change.is_of_folder());
        let changed = changed.map(|change| change.path);
        let plan = RollbackPlan {
            changed: changed
                .filter(|path| !ignored.contains(path) && !kept.contains(path))
                .collect(),
            changes,
            left,
            unfinished,
            ..without_files(run, checkpoint)
        };
        Ok((plan, target))
    }

    /// Restores the files of a recorded rollback.
    pub(crate) fn restore(
        &self,
        recorder: &Mutex<RunRecorder>,
        on_conflict: OnConflict,
    ) -> Result<(), EngineError> {
        let run = lock(recorder).snapshot();
        let Some(rollback) = run.pending_rollback() else { return Ok(()) };
        let workspace = self.workspace(&run);
        if let (Some(from), Some(to)) = (&rollback.snapshot, &rollback.target) {
            let (expected, wanted) = (&recorded_tree(from)?, &recorded_tree(to)?);
            let keep = &rollback_folder(&run, run.rollback_number());
            let checkpointer = self.checkpointer()?;
            let change = WorkspaceChange { expected, wanted, keep, on_conflict };
            let changed = checkpointer.store().change(&workspace, &change);
            if let Err(error) = changed {
                if let (EngineError::InTheWay { .. }, Some(end)) = (&error, run.kept_end()) {
                    // The run has ended, and stays so.
                    let KeptEnd { outcome, reason, detail } = end.clone();
                    self.record(recorder, Event::Ended { outcome, reason, detail })?;
                }
                return Err(with_way_on(error, &run));
            }
            checkpointer.mark_stale();
        }
        let left = self.left_by_rollback(&run)?;
        let change = self.repository.change_without(&workspace, &run, &left)?;
        self.record(recorder, Event::RolledBack { change })
    }

    /// The files of people that the rollback in progress, or the one after which a run waits, leaves where they
    /// are. They do not become the run's.
    ///
    /// # Errors
    /// [`EngineError`] if the snapshots of the rollback cannot be read.
    pub fn left_by_rollback(&self, run: &Run) -> Result<Vec<PathBuf>, EngineError> {
        let waits = run.last_rollback.as_deref().filter(|_| run.is_rolling_back());
        let Some(rollback) = run.pending_rollback().or(waits) else { return Ok(Vec::new()) };
        let (Some(tree), Some(target)) = (&rollback.tree, &rollback.target) else {
            return Ok(Vec::new());
        };
        if tree == target {
            return Ok(Vec::new());
        }
        let store = self.checkpointer()?.store();
        let left = store.changes(&recorded_tree(tree)?, &recorded_tree(target)?)?;
        let files = left.into_iter().filter(|change| !change.is_of_folder());
        Ok(files.map(|change| change.path).collect())
    }

    /// Completes an interrupted rollback.
    pub(crate) fn finish_rollback(
        &self,
        recorder: RunRecorder,
        on_conflict: OnConflict,
    ) -> Result<Run, EngineError> {
        let recorder = Mutex::new(recorder);
        // Does nothing if the files are restored already.
        self.restore(&recorder, on_conflict)?;
        let next = lock(&recorder).run().next();
        let held = if let Next::Record(event) = next { Some(*event) } else { None };
        let held = held.filter(|event| matches!(event, Event::Held(_) | Event::Ended { .. }));
        if let Some(held) = held {
            let held = self.with_current_change(held, lock(&recorder).run())?;
            self.record(&recorder, held)?;
        }
        let run = lock(&recorder).run().clone();
        Ok(run)
    }
}

fn target(run: &Run, checkpoint: CheckpointId) -> Result<&CheckpointRecord, EngineError> {
    run.rollback_target(checkpoint).map_err(|reason| EngineError::NoCheckpoint {
        what: format!("run `{}` cannot be rolled back to {checkpoint}: {reason}", run_name(run)),
    })
}

/// The checkpoints whose snapshots a rollback needs: the target and, if it is the end of a phase with a
/// separate work tree, which is merged again, also that end and the checkpoint that the work tree was created from.
fn needed_checkpoints(run: &Run, target: &CheckpointRecord) -> Vec<CheckpointId> {
    let mut origin = target;
    while origin.kind == CheckpointKind::Rollback
        && let Some(source) = origin.parent.and_then(|parent| run.checkpoint(parent))
    {
        origin = source;
    }
    let mut needed = vec![target.id];
    let merges = origin.at == CheckpointSide::Post
        && origin.kind != CheckpointKind::Failed
        && run.phase(origin.phase).is_some_and(|(phase, _)| phase.branch);
    if merges {
        let fork = run.checkpoints.iter().rev().find(|other| {
            (other.phase, other.attempt) == (origin.phase, origin.attempt)
                && other.kind == CheckpointKind::Started
        });
        needed.push(origin.id);
        needed.extend(fork.map(|fork| fork.id));
    }
    needed
}

/// The work tree of a run, which is not there, and the base of its branch.
fn lost_worktree<'a>(run: &'a Run, folder: &Path) -> Option<(&'a str, &'a Base)> {
    let started = run.started.as_ref()?;
    let (path, base) = (started.worktree.as_deref()?, started.base.as_ref()?);
    (!folder.exists()).then_some((path, base))
}

/// The plan of a rollback without files.
fn without_files(run: &Run, checkpoint: &CheckpointRecord) -> RollbackPlan {
    RollbackPlan {
        to: checkpoint.clone(),
        archived: run.archived_by(checkpoint),
        changes: Vec::new(),
        changed: Vec::new(),
        left: Vec::new(),
        nested: Vec::new(),
        unfinished: None,
        ended: run.ended.as_ref().map(|ended| ended.outcome),
        commit: run.newest_commit().map(str::to_owned),
    }
}

/// The phase that changes the run's workspace and is not done, if any.
pub(crate) fn unfinished_phase(run: &Run) -> Option<String> {
    let unfinished = run.all_phases().find(|(phase, state)| {
        let works = match phase.doer {
            Doer::Agent { .. } | Doer::Builtin { .. } | Doer::Command { .. } => true,
            Doer::Person { .. } | Doer::Consensus { .. } => false,
        };
        works && !phase.branch && state.status == PhaseStatus::Running && state.done.is_none()
    });
    unfinished.map(|(phase, _)| phase.id.clone())
}

/// The folder of the references of a rollback; each has its own.
fn rollback_folder(run: &Run, number: u64) -> String {
    format!("{}/{ROLLBACK_PREFIX}{number}", run_name(run))
}

pub(crate) const fn on_conflict(force: bool) -> OnConflict {
    if force { OnConflict::Overwrite } else { OnConflict::Refuse }
}
