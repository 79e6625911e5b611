//! Lists, loads and compares checkpoints.

mod compare;
mod document;
mod tool_invocation;

pub use compare::{CheckpointDiff, GateChange, ValueChange};
pub use document::{
    AgentState, AgentStatus, ArtifactInfo, CheckpointDocument, GovernanceResults, GovernanceStatus,
    OrchestratorState, TokenUsage, build_document,
};
pub(crate) use tool_invocation::stored_call;
pub use tool_invocation::{CallLookup, ToolInvocation};

use std::ops::ControlFlow;
use std::sync::Arc;

use windlass_engine::EngineError;
use windlass_journal::{Check, Reader, RunFilter, Runs};
use windlass_kernel::run::{
    CheckpointKind, CheckpointRecord, CheckpointSide, Event, Run, checkpoint_name,
};
use windlass_kernel::{CheckpointId, Timestamp, TraceId};
use windlass_store::Store;

/// A checkpoint in a list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CheckpointSummary {
    /// The number of outputs of the phase.
    pub artifact_count: usize,
    /// Whether it is not an ancestor of the run's present state.
    pub archived: bool,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// Its id.
    pub id: CheckpointId,
    /// The reason for its creation.
    pub kind: CheckpointKind,
    /// Its name in its run.
    pub name: String,
    /// The checkpoint before it.
    pub parent_checkpoint_id: Option<CheckpointId>,
    /// Whether the phase has not failed and governance has passed; `null` if nothing was measured.
    pub passed: Option<bool>,
    /// The phase.
    pub phase: String,
    /// Before or after it.
    #[serde(rename = "type")]
    pub side: CheckpointSide,
    /// Its number among those of its phase and side.
    pub version: u32,
}

/// The checkpoints of a store's runs.
pub struct Checkpoints {
    store: Arc<dyn Store>,
}

impl Checkpoints {
    /// Reads from a store.
    #[must_use]
    pub const fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Lists the checkpoints of a run, oldest first.
    ///
    /// # Errors
    /// [`EngineError`] if there is no such run, or its trace is corrupt.
    pub fn list(&self, trace_id: TraceId) -> Result<Vec<CheckpointSummary>, EngineError> {
        let mut summaries = Vec::new();
        let mut reader = Reader::<Run>::new(trace_id, Check::Verified);
        reader.for_each(self.store.as_ref(), &mut |step| {
            let (run, ts) = (step.state, step.entry.ts);
            let Event::Checkpointed(checkpoint) = &step.artifact.event else {
                return ControlFlow::Continue(());
            };
            summaries.push(CheckpointSummary {
                artifact_count: checkpoint.artifacts.len(),
                archived: true,
                created_at: ts,
                id: checkpoint.id,
                kind: checkpoint.kind,
                name: checkpoint_name(checkpoint.at, &checkpoint.phase, checkpoint.version),
                parent_checkpoint_id: checkpoint.parent,
                passed: match checkpoint.kind {
                    CheckpointKind::Failed => Some(false),
                    CheckpointKind::Started
                    | CheckpointKind::Succeeded
                    | CheckpointKind::Approved
                    | CheckpointKind::Rollback => governed(run, &checkpoint.phase, checkpoint.at),
                },
                phase: checkpoint.phase.clone(),
                side: checkpoint.at,
                version: checkpoint.version,
            });
            ControlFlow::Continue(())
        })?;
        let live: std::collections::BTreeSet<CheckpointId> =
            reader.state().lineage().map(|checkpoint| checkpoint.id).collect();
        for summary in &mut summaries {
            summary.archived = !live.contains(&summary.id);
        }
        Ok(summaries)
    }

    /// Loads a checkpoint by folding the run up to it.
    ///
    /// # Errors
    /// [`EngineError`] if there is no such checkpoint, or its trace is corrupt up to it.
    pub fn load(
        &self,
        trace_id: TraceId,
        id: CheckpointId,
    ) -> Result<CheckpointDocument, EngineError> {
        let mut found = None;
        let store = self.store.as_ref();
        Reader::<Run>::new(trace_id, Check::Verified).for_each(store, &mut |step| {
            let Event::Checkpointed(checkpoint) = &step.artifact.event else {
                return ControlFlow::Continue(());
            };
            if checkpoint.id != id {
                return ControlFlow::Continue(());
            }
            let calls = |call| stored_call(store, call);
            found = Some(build_document(step.state, checkpoint, step.entry.ts, &calls));
            ControlFlow::Break(())
        })?;
        found.ok_or_else(|| no_such(&id.to_string()))
    }

    /// Finds a checkpoint by `RUN/NAME` (the newest if the name has no version) or by id.
    ///
    /// # Errors
    /// [`EngineError::NoCheckpoint`] if there is none.
    pub fn find(&self, named: &str) -> Result<(TraceId, CheckpointId), EngineError> {
        let runs = Runs::new(Arc::clone(&self.store));
        if let Ok(id) = named.parse::<CheckpointId>() {
            let filter = RunFilter { open_only: false, state: None, limit: usize::MAX };
            let found = runs.list(&filter)?;
            let found = found.iter().map(|run| run.trace.head.trace_id);
            // A run is older than its checkpoints, and mostly by little; a clock may have been set back.
            let (older, younger): (Vec<_>, Vec<_>) = found.partition(|run| run.0 <= id.0);
            for trace_id in older.into_iter().chain(younger) {
                // A corrupt run must not hide the others.
                if runs.read(trace_id).is_ok_and(|run| run.checkpoint(id).is_some()) {
                    return Ok((trace_id, id));
                }
            }
            return Err(no_such(named));
        }
        let Some((run, name)) = named.rsplit_once('/') else { return Err(no_such(named)) };
        let trace_id = runs.find(run)?;
        let run = runs.read(trace_id)?;
        let of = |checkpoint: &&CheckpointRecord| {
            let phase = run.phase(checkpoint.phase).map(|(phase, _)| phase.id.as_str());
            phase.is_some_and(|phase| {
                name == checkpoint_name(checkpoint.at, phase, checkpoint.version)
                    || name == format!("{}_{phase}", checkpoint.at.as_str())
            })
        };
        match run.checkpoints.iter().rev().find(of) {
            Some(checkpoint) => Ok((trace_id, checkpoint.id)),
            None => Err(no_such(named)),
        }
    }
}

/// Whether the governance of a phase has passed, if it was measured.
fn governed(run: &Run, phase: &str, side: CheckpointSide) -> Option<bool> {
    let done = run.position(phase).and_then(|at| run.phase(at)?.1.done.as_ref());
    let governed =
        done.filter(|_| side == CheckpointSide::Post).and_then(|done| done.governance.as_ref());
    governed.map(|governed| governed.passed)
}

fn no_such(named: &str) -> EngineError {
    let named: String = named.chars().take(120).collect();
    EngineError::NoCheckpoint { what: format!("there is no checkpoint `{named}`") }
}
