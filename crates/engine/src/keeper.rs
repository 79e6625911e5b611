//! Makes the checkpoints that a run owes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_kernel::CheckpointId;
use windlass_kernel::run::plan::{Concurrency, Doer, Phase};
use windlass_kernel::run::{
    Checkpoint, CheckpointKind, CheckpointSide, DueCheckpoint, Run, Workspace,
};
use windlass_runtime::Source;

use crate::error::EngineError;
use crate::vault::Vault;

/// Where work trees lie in a project.
pub(crate) const WORKTREES: &str = ".windlass/worktrees";
/// How long a workspace that nothing has worked in since is taken to be as it was.
const FRESH: Duration = Duration::from_millis(500);

/// Keeps workspaces and files for the checkpoints of runs.
pub struct Keeper {
    vault: Arc<dyn Vault>,
    source: Arc<dyn Source>,
    root: PathBuf,
    /// What was kept last of each workspace by this process, and when.
    lately: Mutex<BTreeMap<PathBuf, Lately>>,
}

struct Lately {
    tree: String,
    /// Whether something has worked in the project since.
    worked: bool,
    at: Instant,
}

impl Keeper {
    /// Puts a keeper together for the project in a folder.
    #[must_use]
    pub fn new(vault: Arc<dyn Vault>, source: Arc<dyn Source>, root: PathBuf) -> Self {
        Self { vault, source, root, lately: Mutex::new(BTreeMap::new()) }
    }

    /// Where things are kept.
    #[must_use]
    pub fn vault(&self) -> &dyn Vault {
        self.vault.as_ref()
    }

    /// Makes the checkpoint that is owed.
    pub(crate) fn checkpoint(
        &self,
        run: &Run,
        owed: DueCheckpoint,
    ) -> Result<Checkpoint, EngineError> {
        let id = CheckpointId(self.source.fresh_id());
        let Some((phase, state)) = run.phase(owed.phase) else {
            return Err(EngineError::NoCheckpoint { what: "its phase is not in the plan".into() });
        };
        let done = state.done.as_ref().filter(|_| owed.at == CheckpointSide::Post);
        let own = branch_path(run, phase, owed.attempt).filter(|_| owed.at == CheckpointSide::Post);
        let workspace = self.workspace(run);
        let tree = self.tree(run, owed, phase, &reference(run, id, "tree"))?;
        let branch = match &own {
            Some(own) => {
                let own = self.root.join(own);
                Some(self.vault.capture(&own, &reference(run, id, "branch"))?)
            }
            None => None,
        };
        let folder = own.map_or(workspace, |own| self.root.join(own));
        let mut artifacts = BTreeMap::new();
        for path in done.iter().flat_map(|done| done.outputs.keys()) {
            artifacts.insert(path.clone(), self.vault.keep(&folder, path)?);
        }
        Ok(Checkpoint {
            artifacts,
            at: owed.at,
            attempt: owed.attempt,
            duration_ms: done.map_or(0, |done| done.duration_ms),
            id,
            kind: owed.kind,
            metadata: metadata(run, owed),
            parent: owed.parent,
            phase: phase.id.clone(),
            version: owed.version,
            workspace: Some(Workspace { branch, tree }),
        })
    }

    /// Something is about to work in the project.
    pub(crate) fn worked(&self) {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        lately.values_mut().for_each(|known| known.worked = true);
    }

    /// The run's workspace, captured unless nothing can have changed it.
    fn tree(
        &self,
        run: &Run,
        owed: DueCheckpoint,
        phase: &Phase,
        reference: &str,
    ) -> Result<String, EngineError> {
        let workspace = self.workspace(run);
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lately.get(&workspace).filter(|known| {
            let idle = !known.worked
                || (owed.at == CheckpointSide::Post && wrote_nothing(run, phase, owed));
            idle && known.at.elapsed() < FRESH
        });
        let tree = match known {
            Some(known) => {
                let tree = known.tree.clone();
                self.vault.hold_on_to(&tree, reference)?;
                tree
            }
            None => self.vault.capture(&workspace, reference)?,
        };
        let kept = Lately { tree: tree.clone(), worked: false, at: Instant::now() };
        lately.insert(workspace, kept);
        Ok(tree)
    }

    /// The folder that a run works in.
    pub(crate) fn workspace(&self, run: &Run) -> PathBuf {
        let own = run.started.as_ref().and_then(|started| started.worktree.as_ref());
        own.map_or_else(|| self.root.clone(), |own| self.root.join(own))
    }
}

/// Whether a phase that has ended cannot have changed the workspace, nor anything beside it.
fn wrote_nothing(run: &Run, phase: &Phase, owed: DueCheckpoint) -> bool {
    let alone = run.plan().is_some_and(|plan| plan.concurrency == Concurrency::Serial);
    let done = run.phase(owed.phase).and_then(|(_, state)| state.done.as_ref());
    let calls = done.is_none_or(|done| !done.calls.is_empty() || done.failure.is_some());
    alone && !calls && phase.checks.is_empty() && matches!(phase.doer, Doer::Builtin { .. })
}

/// The name under which a checkpoint's files are kept.
fn reference(run: &Run, id: CheckpointId, what: &str) -> String {
    let run_id = run.started.as_ref().map(|started| started.run_id.as_str()).unwrap_or_default();
    format!("{run_id}/{id}/{what}")
}

/// Where a try of a phase with a work tree of its own works, relative to the project.
pub(crate) fn branch_path(run: &Run, phase: &Phase, attempt: u32) -> Option<String> {
    let run_id = &run.started.as_ref()?.run_id;
    phase.branch.then(|| format!("{WORKTREES}/{run_id}.{}.{attempt}", phase.id))
}

/// What is to be known of a checkpoint beyond its fields.
fn metadata(run: &Run, owed: DueCheckpoint) -> Value {
    let done = run.phase(owed.phase).and_then(|(_, state)| state.done.as_ref());
    match owed.kind {
        CheckpointKind::Started => {
            let findings = run.phase(owed.phase).map(|(_, state)| state.findings.clone());
            json!({"findings": findings})
        }
        CheckpointKind::Succeeded => json!({}),
        CheckpointKind::Failed => match done.and_then(|done| done.failure.as_ref()) {
            Some(failure) => json!({"error": {"class": failure.class, "reason": failure.reason}}),
            None => json!({"rejection": done.map(|done| done.answer.clone())}),
        },
        CheckpointKind::Approved => json!({"approval": done.map(|done| done.answer.clone())}),
        CheckpointKind::Rollback => match run.taken_back.as_deref() {
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
