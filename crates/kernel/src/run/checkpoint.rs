//! Checkpoints: which are owed, and what is kept of each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::Doer;
use super::state::Run;
use crate::entry::present;
use crate::{CheckpointId, Digest};

/// One checkpoint: what is not in the run's other entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The files that the phase leaves behind, by path.
    pub artifacts: BTreeMap<String, CheckpointArtifact>,
    /// Before or after its phase.
    pub at: CheckpointSide,
    /// The try of the phase; the one to come after a rollback.
    pub attempt: u32,
    /// How long the phase took.
    pub duration_ms: u64,
    /// Its name.
    pub id: CheckpointId,
    /// What it was made for. The event has a `kind` of its own.
    #[serde(rename = "made_for")]
    pub kind: CheckpointKind,
    /// What else is to be known.
    pub metadata: Value,
    /// The checkpoint that it goes on from.
    #[serde(deserialize_with = "present")]
    pub parent: Option<CheckpointId>,
    /// The phase.
    pub phase: String,
    /// Its place among those of its phase and side, from 1.
    pub version: u32,
    /// The files, where they are kept.
    #[serde(deserialize_with = "present")]
    pub workspace: Option<CheckpointWorkspace>,
}

/// A file that a phase leaves behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointArtifact {
    /// What it is, by its name's ending.
    pub artifact_type: String,
    /// The digest of its content.
    pub digest: Digest,
    /// How large it is.
    pub size_bytes: u64,
}

/// The files of a run as they were kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointWorkspace {
    /// The tree of the phase's own work tree, if it has one.
    #[serde(deserialize_with = "present")]
    pub branch: Option<String>,
    /// The tree of the run's workspace.
    pub tree: String,
}

/// The name of a checkpoint in its run.
#[must_use]
pub fn checkpoint_name(side: CheckpointSide, phase: &str, version: u32) -> String {
    format!("{}_{phase}_v{version}", side.as_str())
}

/// On which side of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckpointSide {
    /// Before.
    Pre,
    /// After.
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

/// What a checkpoint was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointKind {
    /// A try begins.
    Started,
    /// It has succeeded.
    Succeeded,
    /// It has failed, or those who were asked said no.
    Failed,
    /// Those who were asked said yes.
    Approved,
    /// The run was taken back.
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

/// A person's wish to take a run back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// The phases whose work is put aside.
    pub archived: Vec<String>,
    /// Who.
    pub by: String,
    /// To which checkpoint.
    pub checkpoint: CheckpointId,
    /// The newest checkpoint before.
    #[serde(deserialize_with = "present")]
    pub from: Option<CheckpointId>,
    /// Why.
    pub reason: String,
    /// Whether the run goes on at once.
    pub resume: bool,
    /// The workspace as it was before.
    #[serde(deserialize_with = "present")]
    pub snapshot: Option<String>,
    /// The workspace as it is to be: the checkpoint's, and what people have added since.
    #[serde(deserialize_with = "present")]
    pub target: Option<String>,
    /// The workspace of the checkpoint.
    #[serde(deserialize_with = "present")]
    pub tree: Option<String>,
}

/// A checkpoint as a run remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Before or after its phase.
    pub at: CheckpointSide,
    /// The try of the phase.
    pub attempt: u32,
    /// Its name.
    pub id: CheckpointId,
    /// What it was made for.
    pub kind: CheckpointKind,
    /// The checkpoint that it goes on from.
    pub parent: Option<CheckpointId>,
    /// The phase, by its place in the plan.
    pub phase: usize,
    /// The number of its entry.
    pub sequence_number: u64,
    /// Its place among those of its phase and side.
    pub version: u32,
    /// The files, where they are kept.
    pub workspace: Option<CheckpointWorkspace>,
}

/// A checkpoint that must be made next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueCheckpoint {
    /// Before or after its phase.
    pub at: CheckpointSide,
    /// The try of the phase.
    pub attempt: u32,
    /// What for.
    pub kind: CheckpointKind,
    /// The checkpoint that it goes on from.
    pub parent: Option<CheckpointId>,
    /// The phase, by its place in the plan.
    pub phase: usize,
    /// Its place among those of its phase and side.
    pub version: u32,
}

impl Run {
    /// The checkpoint that must be recorded together with what was just recorded.
    #[must_use]
    pub const fn due_checkpoint(&self) -> Option<DueCheckpoint> {
        self.due_checkpoint
    }

    /// A checkpoint by its name.
    #[must_use]
    pub fn checkpoint(&self, id: CheckpointId) -> Option<&CheckpointRecord> {
        self.checkpoints.iter().find(|checkpoint| checkpoint.id == id)
    }

    /// The checkpoints that the run as it stands goes back to, newest first.
    pub fn lineage(&self) -> impl Iterator<Item = &CheckpointRecord> {
        let mut next = self.checkpoints.last();
        std::iter::from_fn(move || {
            let checkpoint = next?;
            next = checkpoint.parent.and_then(|parent| self.checkpoint(parent));
            Some(checkpoint)
        })
    }

    /// Notes that a checkpoint is owed, if this run makes them.
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

    /// A phase has ended: what is kept of it says how.
    pub(super) fn require_post_checkpoint(&mut self, phase: usize) {
        let Some((planned, state)) = self.phase(phase) else { return };
        let done = state.done.as_ref();
        let failed = done.is_none_or(|done| done.failure.is_some());
        let verdict = done.and_then(|done| done.answer.get("verdict")).and_then(Value::as_str);
        let kind = match &planned.doer {
            _ if failed => CheckpointKind::Failed,
            Doer::Person { .. } | Doer::Consensus { .. } if verdict == Some("rejected") => {
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
        let owed = self.due_checkpoint.ok_or("no checkpoint is owed")?;
        let phase = self.phase_index(&checkpoint.phase)?;
        let Checkpoint { at, attempt, kind, parent, version, .. } = *checkpoint;
        if (DueCheckpoint { at, attempt, kind, parent, phase, version }) != owed {
            return Err("another checkpoint is owed".to_owned());
        }
        if self.checkpoint(checkpoint.id).is_some() {
            return Err("its name is taken".to_owned());
        }
        let planned = self.phase(phase).map(|(planned, _)| planned);
        let branch = planned.is_some_and(|planned| planned.branch);
        if branch && let Some(workspace) = &checkpoint.workspace {
            let (tree, theirs) = (workspace.tree.clone(), workspace.branch.clone());
            self.change(phase, |state| match (at, kind) {
                // What was taken back to its end began elsewhere.
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
