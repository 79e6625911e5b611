//! A run as its trace tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::branch::Branch;
use super::checkpoint::{CheckpointRecord, CheckpointSide, DueCheckpoint, Rollback};
use super::consensus::Review;
use super::event::Note;
use super::index::Index;
use super::payload::{Change, HoldRequest, PhaseResult, Started, Usage, Vote, VoteDecision};
use super::plan::{BudgetedResource, Effect, FAILED, Phase, Plan, RunOutcome};
use super::rollback::Past;
use crate::{Digest, Head, Timestamp, TraceId};

/// Where a phase stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseStatus {
    /// Not yet begun, or to be done again.
    Pending,
    /// A try is under way.
    Running,
    /// Done, and judged well.
    Complete,
    /// Its last try failed.
    Failed,
    /// Not done in this run.
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

/// How far a try has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStage {
    /// This check comes next, by its place in the plan; the work is still to be done.
    Before(usize),
    /// The work comes next.
    Work,
    /// The work is done in a work tree of its own, which is to be merged.
    Merge,
    /// The work is done; this check comes next.
    After(usize),
    /// All is judged but the gate's verdict.
    Gate,
}

/// What judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JudgedBy {
    /// A check, by its place in the plan.
    Check(usize),
    /// The gate.
    Gate,
    /// The work itself failed.
    Failure,
}

/// A verdict whose effect is still to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingVerdict {
    /// What judged.
    pub judged_by: JudgedBy,
    /// What it said.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// What is to be done better.
    pub findings: Value,
}

/// One phase of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseState {
    /// Where it stands.
    pub status: PhaseStatus,
    /// The number of its newest try; 0 before the first.
    pub attempt: u32,
    /// How far the try has come.
    pub stage: AttemptStage,
    /// A verdict that does not just let it go on.
    pub pending_verdict: Option<PendingVerdict>,
    /// What came of the newest try.
    pub done: Option<Arc<PhaseResult>>,
    /// What a later judge found wanting.
    pub findings: Value,
    /// A call of this phase that waits for a person.
    pub waiting: Option<(TraceId, String)>,
    /// An invocation that has not ended.
    pub open_invocation: Option<u64>,
    /// The process died while an invocation was open, and neither has it been started again nor has
    /// a person said what to do.
    pub uncertain: bool,
    /// When the newest try began.
    pub started_at: Option<Timestamp>,
    /// Its work tree, if it works in one of its own.
    pub branch: Branch,
    /// What those who must agree have said so far.
    pub reviews: Vec<Review>,
    /// What the agents and programs of the newest try have used, by name.
    pub agents: BTreeMap<String, Usage>,
    /// The one whose invocation has not ended.
    pub(super) open_agent: Option<String>,
    /// A gate has sent the run here though it is only done on intervention.
    pub(super) forced: bool,
    /// An intervention that must come first.
    pub(super) after: Option<usize>,
    /// What the invocations of the piece of work under way have used.
    pub(super) invoked: Usage,
}

impl PhaseState {
    pub(super) const fn new() -> Self {
        Self {
            status: PhaseStatus::Pending,
            attempt: 0,
            stage: AttemptStage::Work,
            pending_verdict: None,
            done: None,
            findings: Value::Null,
            waiting: None,
            open_invocation: None,
            uncertain: false,
            started_at: None,
            branch: Branch {
                fork: None,
                theirs: None,
                merging: None,
                conflict: None,
                mended: Vec::new(),
            },
            reviews: Vec::new(),
            agents: BTreeMap::new(),
            open_agent: None,
            forced: false,
            after: None,
            invoked: Usage {
                cost_micros: 0,
                input_tokens: 0,
                output_tokens: 0,
                unaccounted: false,
            },
        }
    }

    pub(super) const fn settled(&self) -> bool {
        matches!(self.status, PhaseStatus::Complete | PhaseStatus::Skipped)
    }
}

/// What a run has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Changed lines.
    pub changed_lines: u64,
    /// Cost.
    pub cost_micros: u64,
    /// Tokens.
    pub tokens: u64,
    /// Whether something was used that nobody counted.
    pub unaccounted: bool,
    /// Working time.
    pub wall_ms: u64,
}

/// A run on hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// What the person is shown.
    pub held: HoldRequest,
    /// The digest of that.
    pub shown: Digest,
    /// Since when.
    pub since: Timestamp,
    /// The answers so far, with their times.
    pub votes: Vec<(Vote, Timestamp)>,
}

/// What the answers to a hold come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Not enough yet.
    Open,
    /// Enough people have approved.
    Approved,
    /// Somebody has rejected.
    Rejected,
}

impl Hold {
    /// What the answers come to.
    #[must_use]
    pub fn resolution(&self) -> Resolution {
        let people = |decision| {
            let votes = self.votes.iter().filter(|(vote, _)| vote.decision == decision);
            votes.map(|(vote, _)| vote.by.as_str()).collect::<BTreeSet<&str>>().len()
        };
        // Whatever a journal says, nothing is decided by nobody.
        let enough = |count: u32| usize::try_from(count).unwrap_or(usize::MAX).max(1);
        if people(VoteDecision::Rejected) >= enough(self.held.rejections) {
            Resolution::Rejected
        } else if people(VoteDecision::Approved) >= enough(self.held.approvals) {
            Resolution::Approved
        } else {
            Resolution::Open
        }
    }

    /// Whether it has lapsed without an answer.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.resolution() == Resolution::Open
            && self.held.expires_at.is_some_and(|expires_at| now >= expires_at)
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub outcome: RunOutcome,
    /// Why, as a word.
    pub reason: String,
    /// Why, for a person.
    pub detail: String,
    /// When.
    pub at: Timestamp,
}

/// Something that was stated for the record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedNote {
    /// What kind of thing.
    pub what: NoteKind,
    /// The thing.
    pub body: Arc<Value>,
    /// When.
    pub at: Timestamp,
}

/// A commit of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The branch.
    pub branch: String,
    /// The commit.
    pub commit: String,
    /// Its parent.
    pub parent: String,
    /// Its tree.
    pub tree: String,
}

/// A run folded from its entries.
///
/// The same fold serves live work and recovery, so the two cannot drift apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The end of its trace.
    pub head: Head,
    /// How it started.
    pub started: Option<Arc<Started>>,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// When its last entry was made.
    pub last_at: Option<Timestamp>,
    /// Its phases, in the plan's order.
    pub phases: Vec<PhaseState>,
    /// Facts that phases have stated.
    pub facts: BTreeMap<String, String>,
    /// What it has used.
    pub spent: Spent,
    /// The workspace as the last phase left it.
    pub change: Option<Change>,
    /// The hold it is on.
    pub hold: Option<Hold>,
    /// How many holds there were.
    pub holds: u32,
    /// How many invocations there were.
    pub invocations: u64,
    /// Its newest commit.
    pub commit: Option<Commit>,
    /// When that was prepared.
    pub commit_at: Option<Timestamp>,
    /// What was stated for the record, oldest first.
    pub notes: Vec<RecordedNote>,
    /// How it ended.
    pub ended: Option<Ended>,
    /// Its checkpoints, oldest first.
    pub checkpoints: Vec<CheckpointRecord>,
    /// The workspace as the run last left it, where it is kept.
    pub tree: Option<String>,
    /// The rollback that it goes on from, if it does.
    pub last_rollback: Option<Arc<Rollback>>,
    /// A person has taken it back and has not said that it goes on.
    pub(super) paused: bool,
    pub(super) due_checkpoint: Option<DueCheckpoint>,
    pub(super) rollback: Option<Arc<Rollback>>,
    pub(super) versions: BTreeMap<(usize, CheckpointSide), u32>,
    /// How each try stood when its work had ended, for those that can be gone back to.
    pub(super) ends: BTreeMap<(usize, u32), Arc<PhaseState>>,
    pub(super) past: Past,
    pub(super) warned: BTreeSet<BudgetedResource>,
    pub(super) granted: BTreeMap<BudgetedResource, u64>,
    pub(super) sent_back: BTreeMap<(usize, JudgedBy), Vec<SentBack>>,
    pub(super) index: Index,
}

/// One time that a judgement sent the run back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentBack {
    pub(super) sequence_number: u64,
    pub(super) to: usize,
    pub(super) fingerprint: Option<Digest>,
}

impl Run {
    /// A run of which nothing is recorded.
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
            hold: None,
            holds: 0,
            invocations: 0,
            commit: None,
            commit_at: None,
            notes: Vec::new(),
            ended: None,
            checkpoints: Vec::new(),
            tree: None,
            last_rollback: None,
            paused: false,
            due_checkpoint: None,
            rollback: None,
            versions: BTreeMap::new(),
            ends: BTreeMap::new(),
            past: Past::default(),
            warned: BTreeSet::new(),
            granted: BTreeMap::new(),
            sent_back: BTreeMap::new(),
            index: Index::default(),
        }
    }

    /// What it follows.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.started.as_ref().map(|started| &started.plan)
    }

    /// The builtins that its phases and their checks use.
    pub fn builtins(&self) -> impl Iterator<Item = &str> {
        self.index.graph.builtins.iter().map(String::as_str)
    }

    /// A phase's place in the plan.
    #[must_use]
    pub fn position(&self, phase: &str) -> Option<usize> {
        self.index.graph.names.get(phase).copied()
    }

    /// A phase as planned and as it stands.
    #[must_use]
    pub fn phase(&self, at: usize) -> Option<(&Phase, &PhaseState)> {
        Some((self.plan()?.phases.get(at)?, self.phases.get(at)?))
    }

    /// All phases as planned and as they stand.
    pub fn all_phases(&self) -> impl Iterator<Item = (&Phase, &PhaseState)> {
        self.plan().into_iter().flat_map(|plan| plan.phases.iter()).zip(&self.phases)
    }

    /// How much of a resource is used; attempts are counted by phase.
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

    /// How much of a resource may be used, with what people have granted on top.
    #[must_use]
    pub fn limit(&self, resource: BudgetedResource) -> Option<u64> {
        let limit = self.plan()?.budget.limit(resource)?;
        Some(self.granted.get(&resource).copied().unwrap_or(limit))
    }

    /// What follows from a verdict that has been given; `None` when no one gave it a meaning.
    pub(super) fn effect<'a>(phase: &'a Phase, judged: &PendingVerdict) -> Option<&'a Effect> {
        match judged.judged_by {
            JudgedBy::Check(at) => phase.checks.get(at)?.verdicts.get(&judged.verdict),
            JudgedBy::Gate => phase.gate.as_ref()?.verdicts.get(&judged.verdict),
            JudgedBy::Failure => phase.gate.as_ref()?.verdicts.get(FAILED),
        }
    }

    /// The name under which a judgement is counted and shown.
    pub(super) fn source_name(phase: &Phase, source: JudgedBy) -> String {
        match source {
            JudgedBy::Check(at) => phase.checks.get(at).map(|check| check.id.clone()),
            JudgedBy::Gate => phase.gate.as_ref().map(|gate| gate.id.clone()),
            JudgedBy::Failure => Some(FAILED.to_owned()),
        }
        .unwrap_or_default()
    }
}
