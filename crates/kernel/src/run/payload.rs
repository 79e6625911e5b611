//! The payloads of the events of a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::governance::GovernanceResult;
use super::plan::{BudgetedResource, Plan, Trigger};
use super::setup::Setup;
use crate::artifact::{Edit, NamedFile};
use crate::entry::present;
use crate::{Digest, Head, Signed, State, Statement, Timestamp, TraceId, canon, is_same_name};

/// The payload of the first event: everything that the run depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// The commit of the repository at the start; `None` outside a repository.
    #[serde(deserialize_with = "present")]
    pub base: Option<Base>,
    /// The person or process that started the run.
    pub by: String,
    /// The project's folder in the run's separate work tree, if it is not the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The results of phases that were done elsewhere before the run started.
    pub inherited: BTreeMap<String, PhaseResult>,
    /// The digest of the loop file.
    pub loop_digest: Digest,
    /// The options of the run, in addition to the task.
    pub options: Value,
    /// The plan.
    pub plan: Plan,
    /// The digest of the policy.
    pub policy_hash: Digest,
    /// The name of the run.
    pub run_id: String,
    /// What makes the work tree of the run ready, if anything has to.
    #[serde(deserialize_with = "present")]
    pub setup: Option<Setup>,
    /// The task.
    pub task: Value,
    /// The path of the run's separate work tree, relative to the project, if it has one.
    #[serde(deserialize_with = "present")]
    pub worktree: Option<String>,
}

impl Started {
    /// The folder in its separate work tree in which the run works, relative to the state of the project; `None` if it
    /// works in the project itself.
    #[must_use]
    pub fn own_workspace(&self) -> Option<PathBuf> {
        let worktree = Path::new(self.worktree.as_ref()?);
        Some(self.folder.as_ref().map_or_else(|| worktree.to_owned(), |own| worktree.join(own)))
    }
}

/// The branch and commit that a run started from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The branch; `None` if the head was detached.
    #[serde(deserialize_with = "present")]
    pub branch: Option<String>,
    /// The commit.
    pub commit: String,
    /// The tree of the files at the start, if they differed from the commit: what differed then is not the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
}

/// The result of the work of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseResult {
    /// The answer of the executor, an object; a gate reads its `verdict`.
    pub answer: Value,
    /// The tool calls of the attempt.
    pub calls: Vec<CallRecord>,
    /// The change of the workspace after the attempt, if there is a repository.
    #[serde(deserialize_with = "present")]
    pub change: Option<Change>,
    /// The duration.
    pub duration_ms: u64,
    /// Facts for later phases.
    pub facts: BTreeMap<String, String>,
    /// The failure; `None` if the attempt did not fail.
    #[serde(deserialize_with = "present")]
    pub failure: Option<Failure>,
    /// The results of the governance rules, if any apply.
    #[serde(deserialize_with = "present")]
    pub governance: Option<GovernanceResult>,
    /// The output files, by path.
    pub outputs: BTreeMap<String, Digest>,
    /// The summary, in one or two sentences.
    pub summary: String,
    /// The usage, including that of its invocations.
    pub usage: Usage,
}

/// The failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The class of the failure.
    pub class: String,
    /// The reason, for a person.
    pub reason: String,
}

/// A tool call of a run, as the run records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRecord {
    /// The digest of the last entry of the call.
    pub entry_digest: Digest,
    /// The final state of the call.
    pub state: State,
    /// The tool.
    pub tool: String,
    /// The trace of the call.
    pub trace_id: TraceId,
}

/// What an attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum WaitsFor {
    /// A person's answer to a call.
    Call {
        /// The call.
        call: TraceId,
    },
    /// A person who grants more of a resource that is used up.
    Budget {
        /// The resource.
        resource: BudgetedResource,
    },
    /// An agent that could not be reached.
    Agent {
        /// When it can be tried again, if that is known.
        #[serde(deserialize_with = "present")]
        until: Option<Timestamp>,
    },
}

/// The change of the workspace since the start of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The commit to which the work moved the run's branch, if it did since the last record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The digest of the diff.
    pub diff_digest: Digest,
    /// The changed files.
    pub files: Vec<String>,
    /// The number of lines added and removed.
    pub lines: u64,
    /// The tree of the workspace.
    pub tree: String,
}

/// The result of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvocationResult {
    /// It returned an answer.
    Success,
    /// It failed.
    Failure,
    /// It waits for a person.
    OnHold,
}

/// The sum of two numbers, at most the largest that a document can have.
const fn sum(one: u64, other: u64) -> u64 {
    let sum = one.saturating_add(other);
    let max = canon::INTEGER_MAX.unsigned_abs();
    if sum < max { sum } else { max }
}

/// The usage of an agent or program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// The cost in millionths of the currency.
    pub cost_micros: u64,
    /// The number of input tokens.
    pub input_tokens: u64,
    /// The number of output tokens.
    pub output_tokens: u64,
    /// Whether some usage was not counted.
    pub unaccounted: bool,
}

impl Usage {
    /// The sum of both, as far as it can be recorded.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            cost_micros: sum(self.cost_micros, other.cost_micros),
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            unaccounted: self.unaccounted || other.unaccounted,
        }
    }

    /// The same, as far as it can be recorded: agents and services may claim any number.
    #[must_use]
    pub const fn recordable(self) -> Self {
        let nothing =
            Self { cost_micros: 0, input_tokens: 0, output_tokens: 0, unaccounted: false };
        self.plus(nothing)
    }

    /// The number of input and output tokens.
    #[must_use]
    pub const fn tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// The request for an answer that a run on hold shows to people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldRequest {
    /// The number of different people that must approve.
    pub approvals: u32,
    /// The call on hold, if a call caused the hold.
    #[serde(deserialize_with = "present")]
    pub call: Option<TraceId>,
    /// The change of the workspace so far.
    #[serde(deserialize_with = "present")]
    pub change: Option<Change>,
    /// The points that the person should check.
    pub checklist: Vec<String>,
    /// When the hold expires.
    #[serde(deserialize_with = "present")]
    pub expires_at: Option<Timestamp>,
    /// The cause of the hold, in detail.
    pub evidence: Value,
    /// The number of the hold in the run, from 1.
    pub number: u32,
    /// The phase.
    pub phase: String,
    /// The gate or check that caused the hold, if one did.
    #[serde(deserialize_with = "present")]
    pub source: Option<String>,
    /// The question.
    pub question: String,
    /// The number of different people that must reject.
    pub rejections: u32,
    /// The exhausted budget, if one caused the hold.
    #[serde(deserialize_with = "present")]
    pub resource: Option<BudgetedResource>,
    /// The people who may answer; anybody if empty.
    pub reviewers: Vec<String>,
    /// The index of the phase in the plan, from 0.
    pub step_index: u32,
    /// The trigger.
    pub trigger: Trigger,
}

/// A person's answer to a hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vote {
    /// The person, with the signature of the answer.
    pub by: Signed,
    /// The conditions of an approval.
    pub conditions: Vec<String>,
    /// The decision.
    pub decision: VoteDecision,
    /// The arguments that the person put in place of those of the call on hold, if they did.
    #[serde(deserialize_with = "present")]
    pub edit: Option<Edit>,
    /// The files that the call on hold names, as the person saw them, if they had changed since the question.
    pub files: Vec<NamedFile>,
    /// The reason.
    pub reason: String,
    /// What is to be done again, if a rejection does not end the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_back: Option<SendBack>,
    /// The digest of the hold that the person saw.
    pub shown: Digest,
}

/// What a person who rejects wants done again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendBack {
    /// What is to be done better; its agent reads it.
    pub findings: Vec<String>,
    /// The phase that is done again, with all that follow it.
    pub to: String,
}

/// A person's answer to a hold before it is signed.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsignedVote {
    /// The conditions of an approval.
    pub conditions: Vec<String>,
    /// The decision.
    pub decision: VoteDecision,
    /// The arguments that the person put in place of those of the call on hold, if they did.
    pub edit: Option<Edit>,
    /// The files that the call on hold names, as the person saw them, if they had changed since the question.
    pub files: Vec<NamedFile>,
    /// The reason.
    pub reason: String,
    /// What is to be done again, if a rejection does not end the run.
    pub send_back: Option<SendBack>,
    /// The digest of the hold that the person saw.
    pub shown: Digest,
}

impl UnsignedVote {
    /// What the person signs: the answer to a hold of a run whose last entry is `head`.
    #[must_use]
    pub fn statement(&self, head: &Head) -> Statement<'_> {
        Statement {
            after: head.entry_digest,
            conditions: &self.conditions,
            decision: self.decision.as_str().into(),
            edit: self.edit.as_ref().map(|edit| edit.proposal_digest),
            files: &self.files,
            reason: &self.reason,
            send_back: self.send_back.as_ref(),
            shown: self.shown,
            trace_id: head.trace_id,
        }
    }

    /// The answer with its signature.
    #[must_use]
    pub fn signed(self, by: Signed) -> Vote {
        let Self { conditions, decision, edit, files, reason, send_back, shown } = self;
        Vote { by, conditions, decision, edit, files, reason, send_back, shown }
    }
}

impl Vote {
    /// Whether both are answers of one person, or approvals that count for one approver. Anybody may reject.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let approved = |vote: &Self| vote.decision == VoteDecision::Approved;
        let one_approver = self.by.approver == other.by.approver;
        is_same_name(&self.by.name, &other.by.name)
            || one_approver && approved(self) && approved(other)
    }

    /// Whether the person signed this answer, in a run whose last entry is `head`.
    #[must_use]
    pub fn is_signed(&self, head: &Head) -> bool {
        let Self { by, conditions, decision, edit, files, reason, send_back, shown } = self.clone();
        let unsigned = UnsignedVote { conditions, decision, edit, files, reason, send_back, shown };
        by.verifies(&unsigned.statement(head))
    }
}

/// The withdrawal of a person's answer to a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// The person, with the signature of the withdrawal.
    pub by: Signed,
    /// The reason.
    pub reason: String,
    /// The digest of the hold.
    pub shown: Digest,
}

impl Revocation {
    /// What the person signs, in a run whose last entry is `head`.
    #[must_use]
    pub fn statement<'a>(head: &Head, reason: &'a str, shown: Digest) -> Statement<'a> {
        Statement {
            after: head.entry_digest,
            conditions: &[],
            decision: "REVOKED".into(),
            edit: None,
            files: &[],
            reason,
            send_back: None,
            shown,
            trace_id: head.trace_id,
        }
    }

    /// Whether the person signed this withdrawal.
    #[must_use]
    pub fn is_signed(&self, head: &Head) -> bool {
        self.by.verifies(&Self::statement(head, &self.reason, self.shown))
    }
}

/// The decision of a person on a hold, or of a reviewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VoteDecision {
    /// The run may continue.
    Approved,
    /// The run may not continue.
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
