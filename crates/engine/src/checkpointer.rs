//! Creates the checkpoints of runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_kernel::CheckpointId;
use windlass_kernel::run::plan::{Concurrency, Doer, Phase};
use windlass_kernel::run::{
    Checkpoint, CheckpointKind, CheckpointSide, CheckpointWorkspace, DueCheckpoint, Run,
};
use windlass_runtime::Clock;
use windlass_workspace::TreeId;

use crate::error::EngineError;
use crate::snapshot_store::SnapshotStore;

/// The folder of the work trees in a project's state folder.
pub(crate) const WORKTREES: &str = "worktrees";
/// How long the last capture of a workspace is reused if no phase has run since.
const REUSE_MAX: Duration = Duration::from_millis(500);

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
        Ok(Checkpoint {
            artifacts,
            at: due.at,
            attempt: due.attempt,
            duration_ms: done.map_or(0, |done| done.duration_ms),
            id,
            kind: due.kind,
            metadata: metadata(run, due),
            parent: due.parent,
            phase: phase.id.clone(),
            version: due.version,
            workspace: Some(CheckpointWorkspace {
                branch: branch.map(|tree| tree.to_string()),
                tree: tree.to_string(),
            }),
        })
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
        let own = run.started.as_ref().and_then(|started| started.worktree.as_ref());
        own.map_or_else(|| self.root.clone(), |own| self.state.join(own))
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
