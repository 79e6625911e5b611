//! Checkpoints: when they are due and what they record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::consensus::REJECTED;
use super::plan::{Doer, RunOutcome};
use super::state::Run;
use crate::entry::present;
use crate::{CheckpointId, Digest};

/// A checkpoint: the data that is not in other entries of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The output files of the phase, by path.
    pub artifacts: BTreeMap<String, CheckpointArtifact>,
    /// Before or after the phase.
    pub at: CheckpointSide,
    /// The attempt of the phase; after a rollback, the next attempt.
    pub attempt: u32,
    /// The duration of the phase.
    pub duration_ms: u64,
    /// The id.
    pub id: CheckpointId,
    /// The reason for the checkpoint. Renamed because the event also has a `kind`.
    #[serde(rename = "made_for")]
    pub kind: CheckpointKind,
    /// Further data.
    pub metadata: Value,
    /// The checkpoint before it in the lineage.
    #[serde(deserialize_with = "present")]
    pub parent: Option<CheckpointId>,
    /// The phase.
    pub phase: String,
    /// The number among the checkpoints of its phase and side, from 1.
    pub version: u32,
    /// The stored workspace, if the run has one.
    #[serde(deserialize_with = "present")]
    pub workspace: Option<CheckpointWorkspace>,
}

/// An output file of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointArtifact {
    /// The type, derived from the file extension.
    pub artifact_type: String,
    /// The digest of its content.
    pub digest: Digest,
    /// The size.
    pub size_bytes: u64,
}

/// The workspace of a run at a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointWorkspace {
    /// The tree of the phase's separate work tree, if it has one.
    #[serde(deserialize_with = "present")]
    pub branch: Option<String>,
    /// The tree of the run's workspace.
    pub tree: String,
}

/// Returns the name of a checkpoint, unique in its run.
#[must_use]
pub fn checkpoint_name(side: CheckpointSide, phase: &str, version: u32) -> String {
    format!("{}_{phase}_v{version}", side.as_str())
}

/// Whether a checkpoint is before or after its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckpointSide {
    /// Before the phase.
    Pre,
    /// After the phase.
    Post,
}

impl CheckpointSide {
    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pre => "PRE",
            Self::Post => "POST",
        }
    }
}

/// The reason for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointKind {
    /// An attempt begins.
    Started,
    /// The attempt succeeded.
    Succeeded,
    /// The attempt failed, or was rejected by people or reviewers.
    Failed,
    /// People or reviewers approved.
    Approved,
    /// The run was rolled back.
    Rollback,
}

impl CheckpointKind {
    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Approved => "approved",
            Self::Rollback => "rollback",
        }
    }
}

/// A rollback that a person requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// The phases whose work is discarded.
    pub archived: Vec<String>,
    /// The person.
    pub by: String,
    /// The target checkpoint.
    pub checkpoint: CheckpointId,
    /// The commit at which interrupted work left the run's branch, if no other event records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The end that an ended run keeps: only its files are put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<KeptEnd>,
    /// The newest checkpoint before the rollback.
    #[serde(deserialize_with = "present")]
    pub from: Option<CheckpointId>,
    /// The reason.
    pub reason: String,
    /// Whether the run continues without a hold.
    pub resume: bool,
    /// The tree of the workspace before the rollback.
    #[serde(deserialize_with = "present")]
    pub snapshot: Option<String>,
    /// The tree to restore: the checkpoint's tree and the files that people have added since.
    #[serde(deserialize_with = "present")]
    pub target: Option<String>,
    /// The tree of the checkpoint.
    #[serde(deserialize_with = "present")]
    pub tree: Option<String>,
}

/// The end of a run whose files are put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptEnd {
    /// Further details.
    pub detail: String,
    /// The outcome.
    pub outcome: RunOutcome,
    /// The reason.
    pub reason: String,
}

/// A checkpoint in the state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Before or after the phase.
    pub at: CheckpointSide,
    /// The attempt of the phase.
    pub attempt: u32,
    /// The id.
    pub id: CheckpointId,
    /// The reason for the checkpoint.
    pub kind: CheckpointKind,
    /// The checkpoint before it in the lineage.
    pub parent: Option<CheckpointId>,
    /// The index of the phase in the plan.
    pub phase: usize,
    /// The sequence number of its entry.
    pub sequence_number: u64,
    /// The number among the checkpoints of its phase and side.
    pub version: u32,
    /// The stored workspace, if the run has one.
    pub workspace: Option<CheckpointWorkspace>,
}

/// A checkpoint that must be recorded next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueCheckpoint {
    /// Before or after the phase.
    pub at: CheckpointSide,
    /// The attempt of the phase.
    pub attempt: u32,
    /// The reason for the checkpoint.
    pub kind: CheckpointKind,
    /// The checkpoint before it in the lineage.
    pub parent: Option<CheckpointId>,
    /// The index of the phase in the plan.
    pub phase: usize,
    /// The number among the checkpoints of its phase and side.
    pub version: u32,
}

impl Run {
    /// The checkpoint that must be recorded together with the last event.
    #[must_use]
    pub const fn due_checkpoint(&self) -> Option<DueCheckpoint> {
        self.due_checkpoint
    }

    /// Returns a checkpoint by its id.
    #[must_use]
    pub fn checkpoint(&self, id: CheckpointId) -> Option<&CheckpointRecord> {
        self.checkpoints.iter().find(|checkpoint| checkpoint.id == id)
    }

    /// The newest checkpoint and its ancestors, newest first.
    pub fn lineage(&self) -> impl Iterator<Item = &CheckpointRecord> {
        let mut next = self.checkpoints.last();
        std::iter::from_fn(move || {
            let checkpoint = next?;
            next = checkpoint.parent.and_then(|parent| self.checkpoint(parent));
            Some(checkpoint)
        })
    }

    /// Makes a checkpoint due, if this run has checkpoints.
    pub(super) fn require_checkpoint(
        &mut self,
        phase: usize,
        at: CheckpointSide,
        kind: CheckpointKind,
    ) {
        let Some(attempt) = self.phases.get(phase).map(|state| state.attempt) else { return };
        if !self.plan().is_some_and(|plan| plan.checkpoints) {
            return;
        }
        let attempt =
            if kind == CheckpointKind::Rollback { attempt.saturating_add(1) } else { attempt };
        let parent = self.checkpoints.last().map(|checkpoint| checkpoint.id);
        let version = self.versions.get(&(phase, at)).copied().unwrap_or_default();
        let version = version.saturating_add(1);
        self.due_checkpoint = Some(DueCheckpoint { at, attempt, kind, parent, phase, version });
    }

    /// Makes the checkpoint after a phase due; its kind tells how the phase ended.
    pub(super) fn require_post_checkpoint(&mut self, phase: usize) {
        let Some((planned, state)) = self.phase(phase) else { return };
        let done = state.done.as_ref();
        let failed = done.is_none_or(|done| done.failure.is_some());
        let verdict = done.and_then(|done| done.answer.get("verdict")).and_then(Value::as_str);
        let kind = match &planned.doer {
            _ if failed => CheckpointKind::Failed,
            Doer::Person { .. } | Doer::Consensus { .. } if verdict == Some(REJECTED) => {
                CheckpointKind::Failed
            }
            Doer::Person { .. } | Doer::Consensus { .. } => CheckpointKind::Approved,
            Doer::Agent { .. } | Doer::Builtin { .. } | Doer::Command { .. } => {
                CheckpointKind::Succeeded
            }
        };
        self.require_checkpoint(phase, CheckpointSide::Post, kind);
    }

    pub(super) fn add_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), String> {
        let due = self.due_checkpoint.ok_or("no checkpoint is due")?;
        let phase = self.phase_index(&checkpoint.phase)?;
        let Checkpoint { at, attempt, kind, parent, version, .. } = *checkpoint;
        if (DueCheckpoint { at, attempt, kind, parent, phase, version }) != due {
            return Err("another checkpoint is due".to_owned());
        }
        if self.checkpoint(checkpoint.id).is_some() {
            return Err("its id is already used".to_owned());
        }
        let planned = self.phase(phase).map(|(planned, _)| planned);
        let branch = planned.is_some_and(|planned| planned.branch);
        if branch && let Some(workspace) = &checkpoint.workspace {
            let (tree, theirs) = (workspace.tree.clone(), workspace.branch.clone());
            self.change(phase, |state| match (at, kind) {
                // A phase that was rolled back to its end forked from an earlier workspace.
                (CheckpointSide::Pre, CheckpointKind::Rollback) => {}
                (CheckpointSide::Pre, _) => state.branch.fork = Some(tree),
                (CheckpointSide::Post, _) => state.branch.theirs = theirs,
            });
        }
        if let Some(workspace) = &checkpoint.workspace {
            self.tree = Some(workspace.tree.clone());
        }
        self.due_checkpoint = None;
        self.versions.insert((phase, at), version);
        self.checkpoints.push(CheckpointRecord {
            at,
            attempt,
            id: checkpoint.id,
            kind,
            parent,
            phase,
            sequence_number: self.head.sequence_number.saturating_add(1),
            version,
            workspace: checkpoint.workspace.clone(),
        });
        Ok(())
    }
}
