//! Checkpoints as people use them: list, load, compare. Going back to one is in `rollback`.

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

use crate::book::{PAGE, fold, open_record};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::find::RunFilter;

/// A checkpoint in a list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// How many files the phase leaves behind.
    pub artifact_count: usize,
    /// Whether the run as it stands does not go back to it any more.
    pub archived: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its name.
    pub id: CheckpointId,
    /// What it was made for.
    pub kind: CheckpointKind,
    /// Its name in its run.
    pub name: String,
    /// The checkpoint that it goes on from.
    pub parent_checkpoint_id: Option<CheckpointId>,
    /// Whether the phase has not failed and nothing blocks.
    pub passed: bool,
    /// The phase.
    pub phase: String,
    /// Before or after it.
    #[serde(rename = "type")]
    pub side: CheckpointSide,
    /// Its place among those of its phase and side.
    pub version: u32,
}

impl Engine {
    /// Lists the checkpoints of a run, oldest first.
    ///
    /// # Errors
    /// [`EngineError`] when there is no such run, or its trace does not hold together.
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

    /// Loads a checkpoint in full: the run is folded up to it.
    ///
    /// # Errors
    /// [`EngineError`] when there is no such checkpoint, or its run does not hold together up to it.
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
    /// [`EngineError::NoCheckpoint`] when there is none, or a name fits none.
    pub fn find_checkpoint(&self, named: &str) -> Result<(TraceId, CheckpointId), EngineError> {
        if let Ok(id) = named.parse::<CheckpointId>() {
            let filter = RunFilter { open_only: false, state: None, limit: usize::MAX };
            for found in self.list(&filter)? {
                let trace_id = found.trace.head.trace_id;
                // A run that does not hold together must not hide the others.
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

    /// What differs between two workspaces, as a unified diff, and whether it was cut off.
    ///
    /// # Errors
    /// [`EngineError`] when one is not whole.
    pub fn difference(
        &self,
        from: &str,
        to: &str,
        bytes_max: usize,
    ) -> Result<(Vec<u8>, bool), EngineError> {
        self.keeper()?.vault().difference(from, to, bytes_max)
    }

    /// What of all that checkpoints keep is damaged, each by its name.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be looked at.
    pub fn faults(&self) -> Result<Vec<String>, EngineError> {
        self.keeper()?.vault().faults()
    }

    /// Folds a run entry by entry and shows each; stops where it is told to.
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

/// Whether nothing blocks in what the measuring of a phase said.
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
