//! Taking a run back to one of its checkpoints: its state and its files together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use windlass_kernel::run::{CheckpointRecord, Event, Next, PhaseStatus, Rollback, Run};
use windlass_kernel::{CheckpointId, Code, State, TraceId};

use crate::drive::lock;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::keeper::Keeper;
use crate::queue::{NAME_BYTES_MAX, REASON_BYTES_MAX};
use crate::resume::name;
use crate::run_recorder::RunRecorder;
use crate::vault::{Altered, How, Way};

/// What a person asks for.
#[derive(Clone, Debug)]
pub struct RollbackRequest {
    /// To which checkpoint.
    pub checkpoint: CheckpointId,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Whether files that people have changed since may be taken back too; they are kept.
    pub force: bool,
    /// Whether the run goes on at once.
    pub resume: bool,
}

/// What a rollback would do.
#[derive(Clone, Debug)]
pub struct RollbackPlan {
    /// The checkpoint.
    pub to: CheckpointRecord,
    /// The phases whose work is put aside.
    pub archived: Vec<String>,
    /// The files that would become others.
    pub changes: Vec<Altered>,
    /// The files that people have changed since the run left them.
    pub changed: Vec<PathBuf>,
    /// The files that people have added and that would stay.
    pub left: Vec<PathBuf>,
}

/// The trees between which a rollback moves the workspace.
struct Trees {
    tree: String,
    target: String,
}

impl Engine {
    /// Says what a rollback would do, and does nothing.
    ///
    /// # Errors
    /// [`EngineError`] when the run or the checkpoint is not there, or the files cannot be looked at.
    pub fn plan_rollback(
        &self,
        trace_id: TraceId,
        checkpoint: CheckpointId,
    ) -> Result<RollbackPlan, EngineError> {
        let run = self.read(trace_id)?;
        let checkpoint = target(&run, checkpoint)?;
        let Some(workspace) = &checkpoint.workspace else {
            return Ok(bare(&run, checkpoint));
        };
        let now = self.keeper()?.vault().present(&self.workspace(&run))?;
        self.compare(&run, checkpoint, &workspace.tree, &now).map(|(plan, _)| plan)
    }

    /// Takes a run back and, if told so, on from there.
    ///
    /// The present is kept first, then the wish is on record, then the files are restored, then that
    /// is on record with a checkpoint: after a crash it is brought to its end, and it can itself be
    /// taken back.
    ///
    /// # Errors
    /// [`EngineError::Changed`] when people have changed files since, unless `force` is set; nothing
    /// was changed then.
    pub fn roll_back(
        &self,
        trace_id: TraceId,
        request: &RollbackRequest,
    ) -> Result<Run, EngineError> {
        check_words(request)?;
        let seen = self.read(trace_id)?;
        let run_id = name(&seen);
        self.stop.check(Some(&run_id))?;
        let own = seen.started.as_ref().is_some_and(|started| started.worktree.is_some());
        let _locks = match seen.plan() {
            Some(plan) => self.lock_for(plan, own)?,
            None => Vec::new(),
        };
        let mut recorder = self.open(trace_id)?;
        if recorder.run().rolling_back().is_some() {
            // One that was cut off comes to its end first.
            let run = self.finish_rollback(recorder)?;
            drop(run);
            recorder = self.open(trace_id)?;
        }
        let run = recorder.snapshot();
        let policy = run.started.as_ref().map(|started| started.policy_hash);
        if request.resume && policy != Some(self.settings.policy_hash) {
            let message = "the policy has changed since the run began: it can be taken back, and not \
                           gone on with";
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

    /// Keeps the present and says from where to where the run is taken.
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
        let keeper = self.keeper()?;
        let place = self.workspace(run);
        // Every rollback keeps what it found under a name of its own.
        let number = run.head.sequence_number;
        let kept = format!("{}/rollback-{number}/before", name(run));
        let now = keeper.vault().capture(&place, &kept)?;
        let (plan, trees) = self.compare(run, checkpoint, &workspace.tree, &now)?;
        if !plan.changed.is_empty() && !request.force {
            let paths = plan.changed.iter().map(|path| path.to_string_lossy().into_owned());
            return Err(EngineError::Changed { run: name(run), paths: paths.collect() });
        }
        // Nothing is on record yet: what cannot be gone back to is refused, not begun.
        keeper.vault().readable(&now, &trees.target)?;
        let after = format!("{}/rollback-{number}/after", name(run));
        keeper.vault().hold_on_to(&trees.target, &after)?;
        rollback.snapshot = Some(now);
        rollback.target = Some(trees.target);
        rollback.tree = Some(trees.tree);
        Ok(rollback)
    }

    /// Compares the workspace as it is with how the run left it and how the checkpoint has it.
    fn compare(
        &self,
        run: &Run,
        checkpoint: &CheckpointRecord,
        tree: &str,
        now: &str,
    ) -> Result<(RollbackPlan, Trees), EngineError> {
        let vault = self.keeper()?.vault();
        // What a phase was cut off at is the run's own doing, as far as anybody can tell.
        let at_work = run.phases.iter().any(|state| state.status == PhaseStatus::Running)
            && run.head.state == Some(State::Running);
        let since = match &run.tree {
            Some(left) if !at_work => vault.changes(left, now)?,
            _ => Vec::new(),
        };
        let added: BTreeSet<PathBuf> =
            since.iter().filter(|one| one.how == How::Added).map(|one| one.path.clone()).collect();
        let mut changes = vault.changes(now, tree)?;
        // What people have added, and the checkpoint knows nothing of, is theirs.
        let left: Vec<PathBuf> = changes
            .iter()
            .filter(|one| one.how == How::Removed && added.contains(&one.path))
            .map(|one| one.path.clone())
            .filter(|path| !stands_in_the_way(path, &changes))
            .collect();
        changes.retain(|one| !left.contains(&one.path));
        let target = match left.as_slice() {
            [] => tree.to_owned(),
            left => vault.with_files(tree, now, left)?,
        };
        let plan = RollbackPlan {
            changed: since.into_iter().map(|one| one.path).collect(),
            changes,
            left,
            ..bare(run, checkpoint)
        };
        Ok((plan, Trees { tree: tree.to_owned(), target }))
    }

    /// Restores the files of a rollback that is on record.
    pub(crate) fn restore(&self, recorder: &Mutex<RunRecorder>) -> Result<(), EngineError> {
        let (run, resuming) = {
            let recorder = lock(recorder);
            (recorder.snapshot(), !recorder.has_just_begun_rollback())
        };
        let Some(rollback) = run.rolling_back() else { return Ok(()) };
        let workspace = self.workspace(&run);
        if let (Some(from), Some(to)) = (&rollback.snapshot, &rollback.target) {
            let aside = format!("{}/rollback-{}/aside", name(&run), run.head.sequence_number);
            let way = Way { from, to, resuming, aside: &aside };
            self.keeper()?.vault().restore(&workspace, &way)?;
            self.keeper().map(Keeper::worked)?;
        }
        let change = self.place.change(&workspace, &run)?;
        self.record(recorder, Event::RolledBack { change })
    }

    /// Brings a rollback to its end that its process was cut off from.
    pub(crate) fn finish_rollback(&self, recorder: RunRecorder) -> Result<Run, EngineError> {
        let recorder = Mutex::new(recorder);
        // With nothing to restore it does nothing.
        self.restore(&recorder)?;
        let next = lock(&recorder).run().next();
        let held = if let Next::Record(event) = next { Some(*event) } else { None };
        let held = held.filter(|event| matches!(event, Event::Held(_)));
        if let Some(held) = held {
            let held = self.measured(held, lock(&recorder).run())?;
            self.record(&recorder, held)?;
        }
        let run = lock(&recorder).run().clone();
        Ok(run)
    }
}

fn target(run: &Run, checkpoint: CheckpointId) -> Result<&CheckpointRecord, EngineError> {
    run.may_roll_back(checkpoint).map_err(|why| EngineError::NoCheckpoint {
        what: format!("run `{}` cannot be taken back to {checkpoint}: {why}", name(run)),
    })
}

/// A rollback of which only the run's state is known.
fn bare(run: &Run, checkpoint: &CheckpointRecord) -> RollbackPlan {
    RollbackPlan {
        to: checkpoint.clone(),
        archived: run.archived_by(checkpoint),
        changes: Vec::new(),
        changed: Vec::new(),
        left: Vec::new(),
    }
}

fn check_words(request: &RollbackRequest) -> Result<(), EngineError> {
    let (by, reason) = (request.by.trim(), request.reason.trim());
    let fits = !by.is_empty()
        && !reason.is_empty()
        && by.len() <= NAME_BYTES_MAX
        && reason.len() <= REASON_BYTES_MAX;
    if fits {
        return Ok(());
    }
    Err(EngineError::NoCheckpoint {
        what: "a rollback has a name and a reason, neither of them empty nor too long".to_owned(),
    })
}

/// Whether something of the checkpoint is to stand where a folder of the path is.
fn stands_in_the_way(path: &Path, changes: &[Altered]) -> bool {
    let coming = changes.iter().filter(|one| one.how != How::Removed);
    path.ancestors().skip(1).any(|above| coming.clone().any(|one| one.path == above))
}
