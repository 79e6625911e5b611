//! What the events of a run carry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::governance::Governed;
use super::plan::{BudgetedResource, Plan, Trigger};
use crate::entry::present;
use crate::{Digest, State, Timestamp, TraceId};

/// The first entry of a run: all that it will ever need to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// Where the repository stood; absent outside of one.
    #[serde(deserialize_with = "present")]
    pub base: Option<Base>,
    /// Who started it.
    pub by: String,
    /// What came of phases that were done elsewhere before it began.
    pub inherited: BTreeMap<String, PhaseResult>,
    /// The digest of the loop file.
    pub loop_digest: Digest,
    /// What the run was started with, beyond the task.
    pub options: Value,
    /// What it follows.
    pub plan: Plan,
    /// The digest of everything that decides.
    pub policy_hash: Digest,
    /// The run's name.
    pub run_id: String,
    /// What is to be done.
    pub task: Value,
    /// The work tree of its own, if it has one, relative to the project.
    #[serde(deserialize_with = "present")]
    pub worktree: Option<String>,
}

/// Where a repository stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The branch; absent when detached.
    #[serde(deserialize_with = "present")]
    pub branch: Option<String>,
    /// The commit.
    pub commit: String,
}

/// What came of a try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseResult {
    /// What the doer answered: an object; a gate reads its `verdict`.
    pub answer: Value,
    /// The tool calls it made.
    pub calls: Vec<CallRecord>,
    /// The workspace after it, where there is a repository.
    #[serde(deserialize_with = "present")]
    pub change: Option<Change>,
    /// How long it took.
    pub duration_ms: u64,
    /// Facts it states for later phases.
    pub facts: BTreeMap<String, String>,
    /// Why it failed; absent when it did not.
    #[serde(deserialize_with = "present")]
    pub failure: Option<Failure>,
    /// What the measuring of the work said, where rules apply.
    #[serde(deserialize_with = "present")]
    pub governance: Option<GovernanceResult>,
    /// The files it leaves behind, by path.
    pub outputs: BTreeMap<String, Digest>,
    /// In a sentence or two.
    pub summary: String,
    /// What it used, its invocations included.
    pub usage: Usage,
}

/// Why a try failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// A class of failures.
    pub class: String,
    /// For a person.
    pub reason: String,
}

/// A tool call of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRecord {
    /// The digest of its last entry.
    pub entry_digest: Digest,
    /// Where it ended.
    pub state: State,
    /// The tool.
    pub tool: String,
    /// Its trace.
    pub trace_id: TraceId,
}

/// What a run has changed in its workspace so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The digest of the difference to where the run started.
    pub diff_digest: Digest,
    /// The changed files.
    pub files: Vec<String>,
    /// Lines added and removed.
    pub lines: u64,
    /// The tree of the workspace.
    pub tree: String,
}

/// How an invocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvocationResult {
    /// With an answer.
    Success,
    /// With a failure.
    Failure,
    /// It waits for a person.
    OnHold,
}

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Cost in millionths.
    pub cost_micros: u64,
    /// Tokens in.
    pub input_tokens: u64,
    /// Tokens out.
    pub output_tokens: u64,
    /// Whether something was used that nobody counted.
    pub unaccounted: bool,
}

impl Usage {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            unaccounted: self.unaccounted || other.unaccounted,
        }
    }

    /// Tokens, in and out.
    #[must_use]
    pub const fn tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// A run that waits for a person: what the person is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldRequest {
    /// How many different people must approve.
    pub approvals: u32,
    /// The call that waits, if it is one.
    #[serde(deserialize_with = "present")]
    pub call: Option<TraceId>,
    /// The digest of what was changed so far.
    #[serde(deserialize_with = "present")]
    pub change: Option<Change>,
    /// What the answer is to look at.
    pub checklist: Vec<String>,
    /// When it lapses.
    #[serde(deserialize_with = "present")]
    pub expires_at: Option<Timestamp>,
    /// What led to it.
    pub evidence: Value,
    /// The hold's place among the run's holds, from 1.
    pub number: u32,
    /// The phase it stands at.
    pub phase: String,
    /// The gate or check it comes from, if any.
    #[serde(deserialize_with = "present")]
    pub source: Option<String>,
    /// What is asked, for a person.
    pub question: String,
    /// How many different people must reject.
    pub rejections: u32,
    /// The budget that is used up, if that is why.
    #[serde(deserialize_with = "present")]
    pub resource: Option<BudgetedResource>,
    /// Who may answer; anybody when empty.
    pub reviewers: Vec<String>,
    /// The phase's place in the plan, from 0.
    pub step_index: u32,
    /// Why.
    pub trigger: Trigger,
}

/// A person's answer to a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vote {
    /// Who.
    pub by: String,
    /// What an approval is bound to.
    pub conditions: Vec<String>,
    /// What.
    pub decision: VoteDecision,
    /// Why.
    pub reason: String,
    /// The digest of what the person was shown.
    pub shown: Digest,
}

/// What a person can say to a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VoteDecision {
    /// Go on.
    Approved,
    /// Do not.
    Rejected,
}

impl VoteDecision {
    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "APPROVED",
            Self::Rejected => "REJECTED",
        }
    }
}
