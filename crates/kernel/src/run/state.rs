//! The state of a run, folded from its entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::branch::Branch;
use super::checkpoint::{CheckpointRecord, CheckpointSide, DueCheckpoint, Rollback};
use super::consensus::Review;
use super::event::NoteKind;
use super::index::Index;
use super::integration::IntegrationState;
use super::payload::{Change, PhaseResult, Started, Usage, WaitsFor};
use super::plan::{BudgetedResource, Effect, FAILED, Phase, Plan, RunOutcome};
use super::rollback::History;
use super::setup::SetupState;
use super::votes::Hold;
use crate::{Digest, Head, Timestamp, TraceId};

/// The status of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PhaseStatus {
    /// Not started yet, or to be redone.
    #[default]
    Pending,
    /// An attempt is in progress.
    Running,
    /// Complete: all checks and the gate passed.
    Complete,
    /// The last attempt failed.
    Failed,
    /// Skipped in this run.
    Skipped,
}

impl PhaseStatus {
    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// The stage of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttemptStage {
    /// Before the work: the check with this index is next.
    Before(usize),
    /// The work is next.
    #[default]
    Work,
    /// The work is done in a separate work tree; its merge is next.
    Merge,
    /// After the work: the check with this index is next.
    After(usize),
    /// The verdict of the gate is next.
    Gate,
}

/// The source of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JudgedBy {
    /// The check with this index in its phase.
    Check(usize),
    /// The gate.
    Gate,
    /// A failure of the work.
    Failure,
}

/// A verdict whose effect is not recorded yet.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingVerdict {
    /// The source of a verdict.
    pub judged_by: JudgedBy,
    /// The verdict.
    pub verdict: String,
    /// The reason.
    pub reason: String,
    /// The findings to be fixed.
    pub findings: Value,
}

/// The state of a phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseState {
    /// The status.
    pub status: PhaseStatus,
    /// The number of the newest attempt; 0 before the first.
    pub attempt: u32,
    /// The stage of the attempt.
    pub stage: AttemptStage,
    /// A verdict other than `Continue` whose effect is not recorded yet.
    pub pending_verdict: Option<PendingVerdict>,
    /// The result of the newest attempt.
    pub done: Option<Arc<PhaseResult>>,
    /// The findings of the check or gate that sent the run back to this phase.
    pub findings: Value,
    /// What the attempt waits for.
    pub waiting: Option<Waiting>,
    /// How often the agent of the attempt could not be reached.
    pub unavailable: u32,
    /// The open invocation.
    pub open_invocation: Option<u64>,
    /// Whether the process died while an invocation was open, which was neither started again nor
    /// decided on by a person.
    pub uncertain: bool,
    /// Whether a part of the work was done before it is taken up again: its process died, or people approved a call.
    pub interrupted: bool,
    /// When the newest attempt began.
    pub started_at: Option<Timestamp>,
    /// The separate work tree, if the phase has one.
    pub branch: Branch,
    /// The reviews so far.
    pub reviews: Vec<Review>,
    /// The usage of the agents and programs of the newest attempt, by name.
    pub agents: BTreeMap<String, Usage>,
    /// The agent or program of the open invocation.
    pub(super) open_agent: Option<String>,
    /// The open invocation of an audit, made while the other one goes on, and its agent.
    pub(super) open_audit: Option<(u64, String)>,
    /// The open invocations of subagents, each with the invocation that asked for it and its agent.
    pub(super) open_subagents: BTreeMap<u64, (u64, String)>,
    /// Whether a gate or check sent the run to this intervention.
    pub(super) forced: bool,
    /// An intervention that must be settled first.
    pub(super) after: Option<usize>,
    /// The usage of the invocations of the work in progress.
    pub(super) invoked: Usage,
}

impl PhaseState {
    pub(super) const fn settled(&self) -> bool {
        matches!(self.status, PhaseStatus::Complete | PhaseStatus::Skipped)
    }
}

/// The reason why an attempt waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// What the person should see.
    pub evidence: Arc<Value>,
    /// The question to the person.
    pub question: String,
}

/// The resources that a run has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Changed lines.
    pub changed_lines: u64,
    /// Cost.
    pub cost_micros: u64,
    /// Tokens.
    pub tokens: u64,
    /// Whether some usage was not counted.
    pub unaccounted: bool,
    /// Working time.
    pub wall_ms: u64,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The outcome.
    pub outcome: RunOutcome,
    /// The reason, as an identifier.
    pub reason: String,
    /// The reason, for a person.
    pub detail: String,
    /// The time.
    pub at: Timestamp,
}

/// A recorded note of an executor.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedNote {
    /// The kind of the note.
    pub what: NoteKind,
    /// The content of the note.
    pub body: Arc<Value>,
    /// The time.
    pub at: Timestamp,
}

/// A commit of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The branch.
    pub branch: String,
    /// The commit.
    pub commit: String,
    /// The parent commit.
    pub parent: String,
    /// The tree of the commit.
    pub tree: String,
}

/// A run folded from its entries.
///
/// Live work and recovery use the same fold, so they cannot diverge.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The head of its trace.
    pub head: Head,
    /// The payload of the first event.
    pub started: Option<Arc<Started>>,
    /// When the run started.
    pub started_at: Option<Timestamp>,
    /// The time of the last entry.
    pub last_at: Option<Timestamp>,
    /// The phases, in the order of the plan.
    pub phases: Vec<PhaseState>,
    /// The facts that phases have recorded.
    pub facts: BTreeMap<String, String>,
    /// The resources that the run has used.
    pub spent: Spent,
    /// The change of the workspace after the last phase.
    pub change: Option<Change>,
    /// The tree of the workspace that was last reviewed: after work and its gates, or as people approved it.
    pub reviewed: Option<String>,
    /// The hold that the run is on.
    pub hold: Option<Hold>,
    /// The number of holds so far.
    pub holds: u32,
    /// The number of invocations so far.
    pub invocations: u64,
    /// The usage of each agent and program in all attempts, also in those that were superseded or rolled back.
    pub agents: BTreeMap<String, Usage>,
    /// The newest commit.
    pub commit: Option<Commit>,
    /// When the newest commit was prepared.
    pub commit_at: Option<Timestamp>,
    /// The commit at which the work of phases left the run's branch, if it moved the branch since the newest commit.
    pub left_at: Option<String>,
    /// The notes of executors, oldest first.
    pub notes: Vec<RecordedNote>,
    /// How far the work tree of the run is made ready.
    pub setup: SetupState,
    /// The end of the run.
    pub ended: Option<Ended>,
    /// The merge of the run's branch after its end.
    pub integration: IntegrationState,
    /// The checkpoints, oldest first.
    pub checkpoints: Vec<CheckpointRecord>,
    /// The last stored tree of the workspace.
    pub tree: Option<String>,
    /// The last rollback.
    pub last_rollback: Option<Arc<Rollback>>,
    /// Whether the run was rolled back and waits for a person to let it continue.
    pub(super) paused: bool,
    pub(super) due_checkpoint: Option<DueCheckpoint>,
    pub(super) rollback: Option<Arc<Rollback>>,
    /// The sequence number of the entry before the last rollback began.
    pub(super) rollback_at: u64,
    /// The number of merges so far.
    pub(super) merges: u64,
    pub(super) versions: BTreeMap<(usize, CheckpointSide), u32>,
    /// The state of each attempt at the end of its work, if the run has checkpoints.
    pub(super) ends: BTreeMap<(usize, u32), Arc<PhaseState>>,
    pub(super) history: History,
    pub(super) warned: BTreeSet<BudgetedResource>,
    pub(super) granted: BTreeMap<BudgetedResource, u64>,
    pub(super) sent_back: BTreeMap<(usize, JudgedBy), Vec<SentBack>>,
    pub(super) index: Index,
}

/// One time that a check or gate sent the run back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentBack {
    pub(super) sequence_number: u64,
    pub(super) to: usize,
    pub(super) fingerprint: Option<Digest>,
}

impl Run {
    /// A run without entries.
    #[must_use]
    pub fn empty(trace_id: TraceId) -> Self {
        Self {
            head: Head::empty(trace_id),
            started: None,
            started_at: None,
            last_at: None,
            phases: Vec::new(),
            facts: BTreeMap::new(),
            spent: Spent::default(),
            change: None,
            reviewed: None,
            hold: None,
            holds: 0,
            invocations: 0,
            agents: BTreeMap::new(),
            commit: None,
            commit_at: None,
            left_at: None,
            notes: Vec::new(),
            setup: SetupState::default(),
            ended: None,
            integration: IntegrationState::default(),
            checkpoints: Vec::new(),
            tree: None,
            last_rollback: None,
            paused: false,
            due_checkpoint: None,
            rollback: None,
            rollback_at: 0,
            merges: 0,
            versions: BTreeMap::new(),
            ends: BTreeMap::new(),
            history: History::default(),
            warned: BTreeSet::new(),
            granted: BTreeMap::new(),
            sent_back: BTreeMap::new(),
            index: Index::default(),
        }
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.started.as_ref().map(|started| &started.plan)
    }

    /// The newest commit of the run's branch that the run, or the work of its phases, has made.
    #[must_use]
    pub fn newest_commit(&self) -> Option<&str> {
        let own = self.commit.as_ref().map(|commit| commit.commit.as_str());
        self.left_at.as_deref().or(own)
    }

    /// The builtins that the phases and their checks use, without repetitions.
    pub fn builtins(&self) -> impl Iterator<Item = &str> {
        self.index.graph.builtins.iter().map(String::as_str)
    }

    /// The index of a phase in the plan.
    #[must_use]
    pub fn position(&self, phase: &str) -> Option<usize> {
        self.index.graph.names.get(phase).copied()
    }

    /// A phase of the plan and its state.
    #[must_use]
    pub fn phase(&self, position: usize) -> Option<(&Phase, &PhaseState)> {
        Some((self.plan()?.phases.get(position)?, self.phases.get(position)?))
    }

    /// All phases of the plan and their states.
    pub fn all_phases(&self) -> impl Iterator<Item = (&Phase, &PhaseState)> {
        self.plan().into_iter().flat_map(|plan| plan.phases.iter()).zip(&self.phases)
    }

    /// The used amount of a resource; attempts are counted by phase, not here.
    #[must_use]
    pub const fn used(&self, resource: BudgetedResource) -> u64 {
        match resource {
            BudgetedResource::Attempts => 0,
            BudgetedResource::ChangedLines => self.spent.changed_lines,
            BudgetedResource::CostMicros => self.spent.cost_micros,
            BudgetedResource::Tokens => self.spent.tokens,
            BudgetedResource::WallMs => self.spent.wall_ms,
        }
    }

    /// The working time that is left, if it is limited.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let (limit, used) = (self.limit(BudgetedResource::WallMs)?, self.spent.wall_ms);
        Some(Duration::from_millis(limit.saturating_sub(used)))
    }

    /// The limit of a resource, including the amounts that people have granted.
    #[must_use]
    pub fn limit(&self, resource: BudgetedResource) -> Option<u64> {
        let limit = self.plan()?.budget.limit(resource)?;
        Some(self.granted.get(&resource).copied().unwrap_or(limit))
    }

    /// The effect of a verdict; `None` if the loop does not declare the verdict.
    pub(super) fn effect<'a>(phase: &'a Phase, pending: &PendingVerdict) -> Option<&'a Effect> {
        match pending.judged_by {
            JudgedBy::Check(index) => phase.checks.get(index)?.verdicts.get(&pending.verdict),
            JudgedBy::Gate => phase.gate.as_ref()?.verdicts.get(&pending.verdict),
            JudgedBy::Failure => phase.gate.as_ref()?.verdicts.get(FAILED),
        }
    }

    /// The name of the check or gate that gave a verdict.
    pub(super) fn source_name(phase: &Phase, judged_by: JudgedBy) -> String {
        match judged_by {
            JudgedBy::Check(index) => phase.checks.get(index).map(|check| check.id.clone()),
            JudgedBy::Gate => phase.gate.as_ref().map(|gate| gate.id.clone()),
            JudgedBy::Failure => Some(FAILED.to_owned()),
        }
        .unwrap_or_default()
    }
}
