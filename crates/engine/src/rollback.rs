//! Rolls a run back to one of its checkpoints: its state and its files together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use windlass_kernel::run::{CheckpointRecord, Event, Next, PhaseStatus, Rollback, Run};
use windlass_kernel::{CheckpointId, Code, State, TraceId, check_name};
use windlass_workspace::{ChangeKind, PathChange, RestoreMode, TreeId};

use crate::drive::lock;
use crate::engine::{Engine, run_name};
use crate::error::EngineError;
use crate::queue::REASON_BYTES_MAX;
use crate::run_recorder::RunRecorder;
use crate::snapshot_store::recorded_tree;

/// A request for a rollback.
#[derive(Clone, Debug)]
pub struct RollbackRequest {
    /// The checkpoint to roll back to.
    pub checkpoint: CheckpointId,
    /// The person who requests it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// Whether to overwrite files that people have changed since; a snapshot preserves them.
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
    /// The files that people have changed since the run's last capture.
    pub changed: Vec<PathBuf>,
    /// The files that people have added and that would remain.
    pub left: Vec<PathBuf>,
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
        let checkpoint = target(&run, checkpoint)?;
        let Some(workspace) = &checkpoint.workspace else {
            return Ok(without_files(&run, checkpoint));
        };
        let now = self.checkpointer()?.store().capture_unreferenced(&self.workspace(&run))?;
        let tree = recorded_tree(&workspace.tree)?;
        self.compare(&run, checkpoint, &tree, &now).map(|(plan, _)| plan)
    }

    /// Rolls a run back and, if requested, continues it.
    ///
    /// The workspace is captured first, then the rollback is recorded, then the files are restored, then
    /// that is recorded with a checkpoint: after a crash it is completed, and it can itself be rolled
    /// back.
    ///
    /// # Errors
    /// [`EngineError::Changed`] if people have changed files since and `force` is not set; then nothing
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
        let mut recorder = self.open(trace_id)?;
        if recorder.run().pending_rollback().is_some() {
            // An interrupted rollback is completed first.
            let run = self.finish_rollback(recorder)?;
            drop(run);
            recorder = self.open(trace_id)?;
        }
        let run = recorder.snapshot();
        let policy = run.started.as_ref().map(|started| started.policy_hash);
        if request.resume && policy != Some(self.settings.policy_hash) {
            let message = "the policy has changed since the run began: the run can be rolled back, but \
                           not continued";
            let message = message.to_owned();
            return Err(EngineError::Requirement { code: Code::PolicyChangedMidRun, message });
        }
        let checkpoint = target(&run, request.checkpoint)?.clone();
        let rollback = self.prepare(&run, &checkpoint, request)?;
        let mut events = Vec::new();
        if run.head.state == Some(State::Init) {
            events.push(Event::Begun {});
        }
        events.push(Event::RollbackBegun(Box::new(rollback)));
        recorder.append(events)?;
        self.drive(recorder)
    }

    /// Captures the workspace and returns the event of the rollback.
    fn prepare(
        &self,
        run: &Run,
        checkpoint: &CheckpointRecord,
        request: &RollbackRequest,
    ) -> Result<Rollback, EngineError> {
        let mut rollback = Rollback {
            archived: run.archived_by(checkpoint),
            by: request.by.clone(),
            checkpoint: checkpoint.id,
            from: run.checkpoints.last().map(|checkpoint| checkpoint.id),
            reason: request.reason.clone(),
            resume: request.resume,
            snapshot: None,
            target: None,
            tree: None,
        };
        let Some(workspace) = &checkpoint.workspace else { return Ok(rollback) };
        let store = self.checkpointer()?.store();
        // Every rollback has its own references.
        let number = run.head.sequence_number;
        let before = format!("{}/rollback-{number}/before", run_name(run));
        let now = store.capture(&self.workspace(run), &before)?;
        let tree = recorded_tree(&workspace.tree)?;
        let (plan, target) = self.compare(run, checkpoint, &tree, &now)?;
        if !plan.changed.is_empty() && !request.force {
            let paths = plan.changed.iter().map(|path| path.to_string_lossy().into_owned());
            return Err(EngineError::Changed { run: run_name(run), paths: paths.collect() });
        }
        // Nothing is recorded yet: a rollback that cannot be completed is refused.
        store.check_restorable(&now, &target)?;
        let after = format!("{}/rollback-{number}/after", run_name(run));
        store.set_reference(&target, &after)?;
        rollback.snapshot = Some(now.to_string());
        rollback.target = Some(target.to_string());
        rollback.tree = Some(tree.to_string());
        Ok(rollback)
    }

    /// Compares the workspace `now` with the run's last capture and with the checkpoint's `tree`. Returns
    /// the plan, and the tree to restore: the checkpoint's, with the files that people have added.
    fn compare(
        &self,
        run: &Run,
        checkpoint: &CheckpointRecord,
        tree: &TreeId,
        now: &TreeId,
    ) -> Result<(RollbackPlan, TreeId), EngineError> {
        let store = self.checkpointer()?.store();
        // The changes of an interrupted phase cannot be distinguished from those of people.
        let interrupted = run.phases.iter().any(|state| state.status == PhaseStatus::Running)
            && run.head.state == Some(State::Running);
        let since = match &run.tree {
            Some(last) if !interrupted => store.changes(&recorded_tree(last)?, now)?,
            _ => Vec::new(),
        };
        let added: BTreeSet<PathBuf> = since
            .iter()
            .filter(|change| change.kind == ChangeKind::Added)
            .map(|change| change.path.clone())
            .collect();
        let mut changes = store.changes(now, tree)?;
        // Files that people have added, and that the checkpoint does not have, remain.
        let left: Vec<PathBuf> = changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Removed && added.contains(&change.path))
            .map(|change| change.path.clone())
            .filter(|path| !is_in_the_way(path, &changes))
            .collect();
        changes.retain(|change| !left.contains(&change.path));
        let target = match left.as_slice() {
            [] => tree.clone(),
            left => store.with_files(tree, now, left)?,
        };
        let plan = RollbackPlan {
            changed: since.into_iter().map(|change| change.path).collect(),
            changes,
            left,
            ..without_files(run, checkpoint)
        };
        Ok((plan, target))
    }

    /// Restores the files of a recorded rollback.
    pub(crate) fn restore(&self, recorder: &Mutex<RunRecorder>) -> Result<(), EngineError> {
        let (run, resuming) = {
            let recorder = lock(recorder);
            (recorder.snapshot(), !recorder.has_just_begun_rollback())
        };
        let Some(rollback) = run.pending_rollback() else { return Ok(()) };
        let workspace = self.workspace(&run);
        if let (Some(from), Some(to)) = (&rollback.snapshot, &rollback.target) {
            let (from, to) = (recorded_tree(from)?, recorded_tree(to)?);
            let backup = format!("{}/rollback-{}/aside", run_name(&run), run.head.sequence_number);
            let mode =
                if resuming { RestoreMode::Resume { backup: &backup } } else { RestoreMode::First };
            let checkpointer = self.checkpointer()?;
            checkpointer.store().restore(&workspace, &from, &to, mode)?;
            checkpointer.mark_stale();
        }
        let change = self.repository.change(&workspace, &run)?;
        self.record(recorder, Event::RolledBack { change })
    }

    /// Completes an interrupted rollback.
    pub(crate) fn finish_rollback(&self, recorder: RunRecorder) -> Result<Run, EngineError> {
        let recorder = Mutex::new(recorder);
        // Does nothing if the files are restored already.
        self.restore(&recorder)?;
        let next = lock(&recorder).run().next();
        let held = if let Next::Record(event) = next { Some(*event) } else { None };
        let held = held.filter(|event| matches!(event, Event::Held(_)));
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

/// The plan of a rollback without files.
fn without_files(run: &Run, checkpoint: &CheckpointRecord) -> RollbackPlan {
    RollbackPlan {
        to: checkpoint.clone(),
        archived: run.archived_by(checkpoint),
        changes: Vec::new(),
        changed: Vec::new(),
        left: Vec::new(),
    }
}

fn check_texts(request: &RollbackRequest) -> Result<(), EngineError> {
    let (by, reason) = (request.by.trim(), request.reason.trim());
    let fits = !by.is_empty()
        && !reason.is_empty()
        && check_name(by).is_ok()
        && reason.len() <= REASON_BYTES_MAX;
    if fits {
        return Ok(());
    }
    Err(EngineError::NoCheckpoint {
        what: "a rollback needs a name and a reason; neither may be empty or too long".to_owned(),
    })
}

/// Whether the checkpoint has a file where the path has a folder.
fn is_in_the_way(path: &Path, changes: &[PathChange]) -> bool {
    let written = changes.iter().filter(|change| change.kind != ChangeKind::Removed);
    path.ancestors().skip(1).any(|folder| written.clone().any(|change| change.path == folder))
}
