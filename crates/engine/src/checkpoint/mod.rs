//! Lists, loads, compares and purges checkpoints. Rolling back to one is in `rollback`.

mod compare;
mod document;
mod invocation;
mod purge;

pub use compare::{Changed, CheckpointDiff, GateChange};
pub(crate) use document::document;
pub use document::{
    AgentState, AgentStatus, ArtifactInfo, Document, GovernanceResults, OrchestratorState,
    TokenUsage, name_of,
};
pub use invocation::ToolInvocation;
pub use purge::{Purged, PurgedOne, Retention};

use windlass_kernel::run::{CheckpointKind, CheckpointRecord, CheckpointSide, Event, Run};
use windlass_kernel::{CheckpointId, Timestamp, TraceId};
use windlass_workspace::{TextDiff, TreeId};

use crate::book::{PAGE, fold, open_record};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::find::RunFilter;

/// A checkpoint in a list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// The number of files that the phase leaves behind.
    pub artifact_count: usize,
    /// Whether it is not an ancestor of the run's present state.
    pub archived: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its id.
    pub id: CheckpointId,
    /// Why it was made.
    pub kind: CheckpointKind,
    /// Its name in its run.
    pub name: String,
    /// The checkpoint before it.
    pub parent_checkpoint_id: Option<CheckpointId>,
    /// Whether the phase has not failed and governance has passed.
    pub passed: bool,
    /// The phase.
    pub phase: String,
    /// Before or after it.
    #[serde(rename = "type")]
    pub side: CheckpointSide,
    /// Its number among those of its phase and side.
    pub version: u32,
}

impl Engine {
    /// Lists the checkpoints of a run, oldest first.
    ///
    /// # Errors
    /// [`EngineError`] when there is no such run, or its trace is corrupt.
    pub fn checkpoints(&self, trace_id: TraceId) -> Result<Vec<Summary>, EngineError> {
        let mut summaries = Vec::new();
        let run = self.walk(trace_id, |run, event, ts| {
            let Event::Checkpointed(checkpoint) = event else { return Ok(true) };
            summaries.push(Summary {
                artifact_count: checkpoint.artifacts.len(),
                archived: true,
                created_at: ts,
                id: checkpoint.id,
                kind: checkpoint.kind,
                name: name_of(checkpoint.at, &checkpoint.phase, checkpoint.version),
                parent_checkpoint_id: checkpoint.parent,
                passed: checkpoint.kind != CheckpointKind::Failed
                    && governed(run, &checkpoint.phase, checkpoint.at),
                phase: checkpoint.phase.clone(),
                side: checkpoint.at,
                version: checkpoint.version,
            });
            Ok(true)
        })?;
        let live: std::collections::BTreeSet<CheckpointId> =
            run.lineage().map(|checkpoint| checkpoint.id).collect();
        for summary in &mut summaries {
            summary.archived = !live.contains(&summary.id);
        }
        Ok(summaries)
    }

    /// Loads a checkpoint: the run is folded up to it.
    ///
    /// # Errors
    /// [`EngineError`] when there is no such checkpoint, or its trace is corrupt up to it.
    pub fn checkpoint(&self, trace_id: TraceId, id: CheckpointId) -> Result<Document, EngineError> {
        let mut found = None;
        self.walk(trace_id, |run, event, ts| {
            if let Event::Checkpointed(checkpoint) = event
                && checkpoint.id == id
            {
                found = Some(document(run, checkpoint, ts, self.store.as_ref()));
            }
            Ok(found.is_none())
        })?;
        found.ok_or_else(|| no_such(&id.to_string()))
    }

    /// Finds a checkpoint: `RUN/NAME` (the newest when the name has no version), or its id.
    ///
    /// # Errors
    /// [`EngineError::NoCheckpoint`] when there is none.
    pub fn find_checkpoint(&self, named: &str) -> Result<(TraceId, CheckpointId), EngineError> {
        if let Ok(id) = named.parse::<CheckpointId>() {
            let filter = RunFilter { open_only: false, state: None, limit: usize::MAX };
            for found in self.list(&filter)? {
                let trace_id = found.trace.head.trace_id;
                // A corrupt run must not hide the others.
                if self.read(trace_id).is_ok_and(|run| run.checkpoint(id).is_some()) {
                    return Ok((trace_id, id));
                }
            }
            return Err(no_such(named));
        }
        let Some((run, name)) = named.rsplit_once('/') else { return Err(no_such(named)) };
        let trace_id = self.find(run)?;
        let run = self.read(trace_id)?;
        let of = |checkpoint: &&CheckpointRecord| {
            let phase = run.phase(checkpoint.phase).map(|(phase, _)| phase.id.as_str());
            phase.is_some_and(|phase| {
                name == name_of(checkpoint.at, phase, checkpoint.version)
                    || name == format!("{}_{phase}", checkpoint.at.as_str())
            })
        };
        match run.checkpoints.iter().rev().find(of) {
            Some(checkpoint) => Ok((trace_id, checkpoint.id)),
            None => Err(no_such(named)),
        }
    }

    /// Returns the difference between two snapshots as a unified diff.
    ///
    /// # Errors
    /// [`EngineError`] when one is damaged.
    pub fn text_diff(
        &self,
        from: &TreeId,
        to: &TreeId,
        bytes_max: usize,
    ) -> Result<TextDiff, EngineError> {
        self.checkpointer()?.store().text_diff(from, to, bytes_max)
    }

    /// Checks the storage of all checkpoints, and describes each snapshot and file that is damaged.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be read.
    pub fn check_checkpoints(&self) -> Result<Vec<String>, EngineError> {
        self.checkpointer()?.store().check()
    }

    /// Folds a run entry by entry and calls `see` after each; stops when it returns `false`.
    pub(crate) fn walk(
        &self,
        trace_id: TraceId,
        mut see: impl FnMut(&Run, &Event, Timestamp) -> Result<bool, EngineError>,
    ) -> Result<Run, EngineError> {
        let recorded = self.store.load_state(trace_id)?;
        let mut run = Run::empty(trace_id);
        let mut buffer = Vec::with_capacity(1024);
        loop {
            let page = self.store.list_log_entries(trace_id, run.head.sequence_number, PAGE)?;
            for record in &page {
                let (event, head) = open_record(&run, record, &mut buffer)?;
                fold(&mut run, record, &event, head)?;
                if !see(&run, &event, record.entry.ts)? {
                    return Ok(run);
                }
            }
            if page.len() < PAGE {
                break;
            }
        }
        let corrupt = |source| EngineError::Corrupt { trace_id, source };
        run.head.matches(&recorded.head).map_err(corrupt)?;
        Ok(run)
    }
}

/// Whether the governance of a phase has passed.
fn governed(run: &Run, phase: &str, side: CheckpointSide) -> bool {
    let done = run.position(phase).and_then(|at| run.phase(at)?.1.done.as_ref());
    let governed =
        done.filter(|_| side == CheckpointSide::Post).and_then(|done| done.governance.as_ref());
    governed.is_none_or(|governed| governed.passed)
}

fn no_such(named: &str) -> EngineError {
    let named: String = named.chars().take(120).collect();
    EngineError::NoCheckpoint { what: format!("there is no checkpoint `{named}`") }
}
