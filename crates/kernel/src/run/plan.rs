//! A loop as the run machine takes it: checked, with nothing left to look up.
//!
//! A run carries its plan in its first entry, so a change of the loop file cannot change a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::governance::{Compare, Evidence, Governance, OnFailure, Rule, RuleLevel};
use crate::entry::present;

/// The most phases of a loop.
pub const PHASES_MAX: usize = 10_000;

/// A whole loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How much a run may use.
    pub budget: Budget,
    /// Whether the workspace and the run's state are kept before and after each phase.
    pub checkpoints: bool,
    /// Whether ready phases are done one at a time or side by side.
    pub concurrency: Concurrency,
    /// What the work of phases is measured by.
    pub governance: Governance,
    /// How holds of this loop are answered.
    pub hold: HoldRule,
    /// The loop's name.
    pub id: String,
    /// What becomes of a run whose process died.
    pub on_restart: OnRestart,
    /// The phases, each after those it needs.
    pub phases: Vec<Phase>,
    /// What must be true before anything is recorded.
    pub require: Vec<Requirement>,
    /// The loop's title.
    pub title: String,
    /// The variant of the loop, where it has some.
    #[serde(deserialize_with = "present")]
    pub variant: Option<String>,
    /// The loop's own version.
    pub version: String,
}

/// Limits of a run; what is absent is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// How often any one phase may be tried.
    pub attempts: Option<u64>,
    /// Changed lines of the workspace, against where the run started.
    pub changed_lines: Option<u64>,
    /// Cost in millionths of the currency.
    pub cost_micros: Option<u64>,
    /// Tokens, in and out.
    pub tokens: Option<u64>,
    /// Working time in milliseconds; time on hold does not count.
    pub wall_ms: Option<u64>,
}

/// What a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetedResource {
    /// Tries of one phase.
    Attempts,
    /// Changed lines.
    ChangedLines,
    /// Cost.
    CostMicros,
    /// Tokens.
    Tokens,
    /// Working time.
    WallMs,
}

impl BudgetedResource {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Attempts, Self::ChangedLines, Self::CostMicros, Self::Tokens, Self::WallMs];

    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attempts => "attempts",
            Self::ChangedLines => "changed_lines",
            Self::CostMicros => "cost_micros",
            Self::Tokens => "tokens",
            Self::WallMs => "wall_ms",
        }
    }
}

impl Budget {
    /// The limit of one resource.
    #[must_use]
    pub const fn limit(&self, resource: BudgetedResource) -> Option<u64> {
        match resource {
            BudgetedResource::Attempts => self.attempts,
            BudgetedResource::ChangedLines => self.changed_lines,
            BudgetedResource::CostMicros => self.cost_micros,
            BudgetedResource::Tokens => self.tokens,
            BudgetedResource::WallMs => self.wall_ms,
        }
    }
}

/// Whether ready phases are done one at a time or side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// Ready phases run side by side.
    Parallel,
    /// One phase at a time; one run of the loop at a time.
    Serial,
}

/// What becomes of a run whose process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRestart {
    /// It waits for a person.
    Hold,
    /// It goes on.
    Resume,
    /// It ends.
    Terminate,
}

/// How holds are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldRule {
    /// How many different people must approve.
    pub approvals: u32,
    /// After how long an unanswered hold lapses, in milliseconds.
    pub expires_ms: Option<u64>,
}

impl Default for HoldRule {
    fn default() -> Self {
        Self { approvals: 1, expires_ms: None }
    }
}

/// What must be true before a run starts or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// The project is a git repository without changes and without untracked files.
    CleanRepo,
    /// The project is a git repository with at least one commit.
    Repo,
    /// No other run of a loop with this requirement is under way in the project.
    Single,
}

/// One phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Whether it works in a work tree of its own, which is merged into the run's when it is done.
    pub branch: bool,
    /// Judgements before and after the work, in order.
    pub checks: Vec<Check>,
    /// Who does it.
    pub doer: Doer,
    /// The judgement of its answer.
    pub gate: Option<Gate>,
    /// Its name, unique in the loop.
    pub id: String,
    /// The phases that come before it.
    pub needs: Vec<String>,
    /// Patterns of files that it must leave behind, not empty.
    pub outputs: Vec<String>,
    /// When it is done at all.
    pub when: PhaseCondition,
}

/// Who does a phase or makes a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum Doer {
    /// An agent, by the name of its file.
    Agent {
        /// Its name.
        agent: String,
        /// What it is told, beyond the task and what came before.
        prompt: Option<String>,
    },
    /// A function of the engine.
    Builtin {
        /// Its name.
        name: String,
        /// Its settings.
        with: BTreeMap<String, Value>,
    },
    /// Several reviewers, of whom enough must approve.
    Consensus {
        /// What each of them is to look at.
        checklist: Vec<String>,
        /// What is asked.
        question: String,
        /// How many must approve.
        quorum: u32,
        /// Who; agents review first, then people are asked.
        reviewers: Vec<Reviewer>,
    },
    /// A program: JSON on its standard input, one JSON object on its standard output.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Whether it may be started a second time when it is not known how the first one ended.
        repeatable: bool,
        /// How long it may take.
        timeout_ms: u64,
    },
    /// A person, asked through the queue.
    Person {
        /// How many different people must agree.
        approvals: u32,
        /// What is asked.
        question: String,
    },
}

/// One of those who must agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reviewer {
    /// An agent, by the name of its file.
    Agent {
        /// Its name.
        agent: String,
        /// What it is told, beyond the task, the checklist and what came before.
        #[serde(deserialize_with = "present")]
        prompt: Option<String>,
    },
    /// A person, by the name under which they answer.
    Person {
        /// The name.
        name: String,
    },
}

impl Reviewer {
    /// The name under which a review is recorded.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Agent { agent, .. } => agent,
            Self::Person { name } => name,
        }
    }
}

/// When a phase is done at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "if", rename_all = "snake_case", deny_unknown_fields)]
pub enum PhaseCondition {
    /// Whenever its turn comes.
    #[default]
    Always,
    /// When a fact that an earlier phase stated has one of these values.
    Fact {
        /// The fact's name.
        fact: String,
        /// The values.
        one_of: Vec<String>,
    },
    /// Only when a gate sends the run there by `intervene`.
    Intervention,
}

/// A judgement before or after a phase's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Before or after.
    pub at: CheckTiming,
    /// Who judges; its answer has a `verdict`.
    pub doer: Doer,
    /// Its name, unique in the phase.
    pub id: String,
    /// What follows from each verdict; no other one may be given.
    pub verdicts: BTreeMap<String, Effect>,
}

/// Where a check stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckTiming {
    /// After the work.
    After,
    /// Before the work.
    Before,
}

/// The judgement of a phase's answer, which has a `verdict`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Its name.
    pub id: String,
    /// What follows from each verdict; no other one may be given.
    pub verdicts: BTreeMap<String, Effect>,
}

/// The verdict that stands for a phase whose work failed; a gate may map it.
pub const FAILED: &str = "failed";

/// What follows from a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// The run ends BLOCKED, for the gate's reason.
    Block,
    /// The run goes on.
    Continue,
    /// The run waits for a person.
    Hold {
        /// How many different people must approve; the loop's number when absent.
        approvals: Option<u32>,
        /// Why.
        trigger: Trigger,
    },
    /// An intervention phase is done, then the judged phase once more; at most once.
    Intervene {
        /// The intervention phase.
        phase: String,
        /// What follows when it was done before.
        then: Box<Effect>,
    },
    /// The run goes back to a phase, with the judge's findings.
    Redo {
        /// How often at most.
        max: u32,
        /// The phase.
        phase: String,
        /// What follows when that is used up.
        then: Box<Effect>,
    },
    /// The run ends.
    Stop {
        /// How.
        outcome: RunOutcome,
        /// Why.
        reason: String,
    },
}

/// Why a run waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Trigger {
    /// A budget is used up.
    BudgetExhausted,
    /// A tool call of a phase waits for a person.
    CallApproval,
    /// Reviewers are asked whether they agree.
    ConsensusRequested,
    /// A decision is needed that the loop does not take.
    EscalationRequested,
    /// A branch cannot be merged as it is.
    MergeConflict,
    /// A phase that a person does.
    PersonRequested,
    /// The run's process died, and the loop says that a person decides.
    RestartRequested,
    /// A person has taken the run back, and says when it goes on.
    RolledBack,
    /// It is not known whether something took effect.
    UncertainEffect,
    /// A rule would have to be waived.
    WaiverRequested,
}

impl Trigger {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::BudgetExhausted,
        Self::CallApproval,
        Self::ConsensusRequested,
        Self::EscalationRequested,
        Self::MergeConflict,
        Self::PersonRequested,
        Self::RestartRequested,
        Self::RolledBack,
        Self::UncertainEffect,
        Self::WaiverRequested,
    ];

    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BudgetExhausted => "BUDGET_EXHAUSTED",
            Self::CallApproval => "CALL_APPROVAL",
            Self::ConsensusRequested => "CONSENSUS_REQUESTED",
            Self::EscalationRequested => "ESCALATION_REQUESTED",
            Self::MergeConflict => "MERGE_CONFLICT",
            Self::PersonRequested => "PERSON_REQUESTED",
            Self::RestartRequested => "RESTART_REQUESTED",
            Self::RolledBack => "ROLLED_BACK",
            Self::UncertainEffect => "UNCERTAIN_EFFECT",
            Self::WaiverRequested => "WAIVER_REQUESTED",
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunOutcome {
    /// It may not go on.
    Blocked,
    /// It needs a decision beyond it.
    EscalationRequested,
    /// All of it was done.
    Pass,
    /// It needs a rule to be waived.
    WaiverRequested,
}

impl RunOutcome {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Blocked, Self::EscalationRequested, Self::Pass, Self::WaiverRequested];

    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "BLOCKED",
            Self::EscalationRequested => "ESCALATION_REQUESTED",
            Self::Pass => "PASS",
            Self::WaiverRequested => "WAIVER_REQUESTED",
        }
    }
}

impl Plan {
    /// The builtins that its phases and their checks use, each as often as it is used.
    pub fn builtins(&self) -> impl Iterator<Item = &str> {
        let doers = self
            .phases
            .iter()
            .flat_map(|phase| phase.checks.iter().map(|check| &check.doer).chain([&phase.doer]));
        doers.filter_map(|doer| match doer {
            Doer::Builtin { name, .. } => Some(name.as_str()),
            Doer::Agent { .. }
            | Doer::Consensus { .. }
            | Doer::Command { .. }
            | Doer::Person { .. } => None,
        })
    }

    /// The place of a phase in the plan.
    #[must_use]
    pub fn position(&self, phase: &str) -> Option<usize> {
        self.phases.iter().position(|other| other.id == phase)
    }
}
