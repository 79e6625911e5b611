//! Creates the checkpoints of runs.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_kernel::CheckpointId;
use windlass_kernel::run::plan::{Concurrency, Doer, Phase};
use windlass_kernel::run::{
    Checkpoint, CheckpointArtifact, CheckpointKind, CheckpointSide, CheckpointWorkspace,
    DueCheckpoint, PhaseResult, PhaseState, Run,
};
use windlass_runtime::Clock;
use windlass_workspace::TreeId;

use crate::error::EngineError;
use crate::snapshot_store::{SnapshotStore, recorded_tree};

/// The folder of the work trees in a project's state folder.
pub(crate) const WORKTREES: &str = "worktrees";
/// How long the last capture of a workspace is reused if no phase has run since.
const REUSE_MAX: Duration = Duration::from_millis(500);
/// The maximum number and total size of the files that a checkpoint stores besides declared outputs.
const CHANGED_FILES_MAX: usize = 256;
const CHANGED_BYTES_MAX: u64 = 64 << 20;

/// Creates checkpoints: captures the workspace of a run and stores the outputs of a phase.
pub struct Checkpointer {
    store: Arc<dyn SnapshotStore>,
    clock: Arc<dyn Clock>,
    root: PathBuf,
    state: PathBuf,
    /// The last capture of each workspace by this process.
    last: Mutex<BTreeMap<PathBuf, LastCapture>>,
}

struct LastCapture {
    tree: TreeId,
    /// Whether the project's files may have changed since.
    stale: bool,
    at: Instant,
}

impl Checkpointer {
    /// Creates the checkpointer of the project in a folder, with its state folder.
    #[must_use]
    pub fn new(
        store: Arc<dyn SnapshotStore>,
        clock: Arc<dyn Clock>,
        root: PathBuf,
        state: PathBuf,
    ) -> Self {
        Self { store, clock, root, state, last: Mutex::new(BTreeMap::new()) }
    }

    /// The storage of the checkpoints.
    #[must_use]
    pub fn store(&self) -> &dyn SnapshotStore {
        self.store.as_ref()
    }

    /// Creates a checkpoint that is due.
    pub(crate) fn checkpoint(
        &self,
        run: &Run,
        due: DueCheckpoint,
    ) -> Result<Checkpoint, EngineError> {
        let id = CheckpointId(self.clock.new_id());
        let Some((phase, state)) = run.phase(due.phase) else {
            return Err(EngineError::NoCheckpoint { what: "its phase is not in the plan".into() });
        };
        let done = state.done.as_ref().filter(|_| due.at == CheckpointSide::Post);
        let own = branch_path(run, phase, due.attempt).filter(|_| due.at == CheckpointSide::Post);
        let workspace = self.workspace(run);
        let tree = self.tree(run, due, phase, &reference(run, id, "tree"))?;
        let branch = match &own {
            Some(own) => {
                let own = self.state.join(own);
                Some(self.store.capture(&own, &reference(run, id, "branch"))?)
            }
            None => None,
        };
        let folder = own.map_or(workspace, |own| self.state.join(own));
        let mut artifacts = BTreeMap::new();
        for path in done.iter().flat_map(|done| done.outputs.keys()) {
            artifacts.insert(path.clone(), self.store.store_file(&folder, path)?);
        }
        let mut metadata = metadata(run, due);
        if due.at == CheckpointSide::Post {
            let now = branch.as_ref().unwrap_or(&tree);
            let left_out = self.add_changed_files(run, due, &folder, now, &mut artifacts)?;
            if left_out > 0
                && let Some(metadata) = metadata.as_object_mut()
            {
                metadata.insert("artifacts_left_out".to_owned(), json!(left_out));
            }
        }
        Ok(Checkpoint {
            artifacts,
            at: due.at,
            attempt: due.attempt,
            duration_ms: done.map_or(0, |done| duration_ms(run, phase, state, done)),
            id,
            kind: due.kind,
            metadata,
            parent: due.parent,
            phase: phase.id.clone(),
            version: due.version,
            workspace: Some(CheckpointWorkspace {
                branch: branch.map(|tree| tree.to_string()),
                tree: tree.to_string(),
            }),
        })
    }

    /// Stores the files that have changed while a phase was at work, and returns how many were left out.
    fn add_changed_files(
        &self,
        run: &Run,
        due: DueCheckpoint,
        folder: &Path,
        now: &TreeId,
        artifacts: &mut BTreeMap<String, CheckpointArtifact>,
    ) -> Result<usize, EngineError> {
        let began = run.checkpoints.iter().rev().find(|one| {
            (one.phase, one.attempt, one.kind) == (due.phase, due.attempt, CheckpointKind::Started)
        });
        let Some(began) = began.and_then(|began| began.workspace.as_ref()) else { return Ok(0) };
        let before = recorded_tree(&began.tree)?;
        // `windlass checkpoint check` tells of a corrupt snapshot; the run goes on without its list.
        let Ok(changes) = self.store.changes(&before, now) else { return Ok(0) };
        let (mut bytes, mut left_out) = (0_u64, 0);
        for change in changes {
            let Some(after) = change.after else { continue };
            let Some(path) = change.path.to_str().filter(|_| after.mode.is_file()) else {
                continue;
            };
            // A process that outlives its phase may have removed it meanwhile.
            let size = folder.join(path).symlink_metadata().ok().filter(Metadata::is_file);
            let Some(size) = size.map(|found| found.len()) else { continue };
            if artifacts.contains_key(path) {
                continue;
            }
            bytes = bytes.saturating_add(size);
            if artifacts.len() >= CHANGED_FILES_MAX || bytes > CHANGED_BYTES_MAX {
                left_out += 1;
                continue;
            }
            artifacts.insert(path.to_owned(), self.store.store_file(folder, path)?);
        }
        Ok(left_out)
    }

    /// Marks the last captures as stale: files of the project are about to change.
    pub(crate) fn mark_stale(&self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.values_mut().for_each(|capture| capture.stale = true);
    }

    /// The tree of the run's workspace, captured unless nothing can have changed it since the last capture.
    fn tree(
        &self,
        run: &Run,
        due: DueCheckpoint,
        phase: &Phase,
        reference: &str,
    ) -> Result<TreeId, EngineError> {
        let workspace = self.workspace(run);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let current = last.get(&workspace).filter(|capture| {
            let unchanged = !capture.stale
                || (due.at == CheckpointSide::Post && wrote_nothing(run, phase, due));
            unchanged && capture.at.elapsed() < REUSE_MAX
        });
        let tree = match current {
            Some(capture) => {
                let tree = capture.tree.clone();
                self.store.set_reference(&tree, reference)?;
                tree
            }
            None => self.store.capture(&workspace, reference)?,
        };
        let capture = LastCapture { tree: tree.clone(), stale: false, at: Instant::now() };
        last.insert(workspace, capture);
        Ok(tree)
    }

    /// The workspace of a run.
    pub(crate) fn workspace(&self, run: &Run) -> PathBuf {
        let own = run.started.as_ref().and_then(|started| started.own_workspace());
        own.map_or_else(|| self.root.clone(), |own| self.state.join(own))
    }
}

/// How long the attempt of a phase took. That of people and reviewers has no work that was timed: it lasts
/// from its start to their last answer.
fn duration_ms(run: &Run, phase: &Phase, state: &PhaseState, done: &PhaseResult) -> u64 {
    match phase.doer {
        Doer::Agent { .. } | Doer::Builtin { .. } | Doer::Command { .. } => done.duration_ms,
        Doer::Consensus { .. } | Doer::Person { .. } => {
            let ends = run.last_at.zip(state.started_at);
            let passed = ends.map(|(end, start)| end.unix_ms() - start.unix_ms());
            passed.and_then(|passed| u64::try_from(passed).ok()).unwrap_or_default()
        }
    }
}

/// Whether a phase that has ended cannot have changed the workspace.
fn wrote_nothing(run: &Run, phase: &Phase, due: DueCheckpoint) -> bool {
    let serial = run.plan().is_some_and(|plan| plan.concurrency == Concurrency::Serial);
    let done = run.phase(due.phase).and_then(|(_, state)| state.done.as_ref());
    let calls = done.is_none_or(|done| !done.calls.is_empty() || done.failure.is_some());
    serial && !calls && phase.checks.is_empty() && matches!(phase.doer, Doer::Builtin { .. })
}

/// The reference of a checkpoint's snapshot.
fn reference(run: &Run, id: CheckpointId, what: &str) -> String {
    let run_id = run.started.as_ref().map(|started| started.run_id.as_str()).unwrap_or_default();
    format!("{run_id}/{id}/{what}")
}

/// The path of the work tree of one attempt of a phase, relative to the state folder; `None` if the
/// phase has no work tree of its own.
pub(crate) fn branch_path(run: &Run, phase: &Phase, attempt: u32) -> Option<String> {
    let run_id = &run.started.as_ref()?.run_id;
    phase.branch.then(|| format!("{WORKTREES}/{run_id}.{}.{attempt}", phase.id))
}

/// The metadata of a checkpoint.
fn metadata(run: &Run, due: DueCheckpoint) -> Value {
    let done = run.phase(due.phase).and_then(|(_, state)| state.done.as_ref());
    match due.kind {
        CheckpointKind::Started => {
            let findings = run.phase(due.phase).map(|(_, state)| state.findings.clone());
            json!({"findings": findings})
        }
        CheckpointKind::Succeeded => json!({}),
        CheckpointKind::Failed => match done.and_then(|done| done.failure.as_ref()) {
            Some(failure) => json!({"error": {"class": failure.class, "reason": failure.reason}}),
            None => json!({"rejection": done.map(|done| done.answer.clone())}),
        },
        CheckpointKind::Approved => json!({"approval": done.map(|done| done.answer.clone())}),
        CheckpointKind::Rollback => match run.last_rollback.as_deref() {
            Some(rollback) => json!({
                "archived": rollback.archived,
                "by": rollback.by,
                "reason": rollback.reason,
                "rollback_from": rollback.from,
                "snapshot": rollback.snapshot,
            }),
            None => json!({}),
        },
    }
}
