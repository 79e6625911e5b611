//! The plan of a run: a loop, checked and with all references resolved.
//!
//! The first entry of a run contains its plan, so a change of the loop file cannot change a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::governance::{Compare, Evidence, Governance, OnFailure, Rule, RuleLevel};
pub use super::judges::{Check, CheckTiming, Gate};
use crate::Timestamp;
use crate::entry::present;

/// The maximum number of phases of a loop.
pub const PHASES_MAX: usize = 10_000;

/// A loop as a run executes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The limits of a run.
    pub budget: Budget,
    /// Whether checkpoints are created before and after each phase.
    pub checkpoints: bool,
    /// Whether phases run in parallel.
    pub concurrency: Concurrency,
    /// The governance rules.
    pub governance: Governance,
    /// How holds are answered.
    pub hold: HoldRule,
    /// The id of the loop.
    pub id: String,
    /// What to do with a run whose process died.
    pub on_restart: OnRestart,
    /// The phases, each after the phases that it needs.
    pub phases: Vec<Phase>,
    /// The requirements for the start of a run.
    pub require: Vec<Requirement>,
    /// The title of the loop.
    pub title: String,
    /// The variant of the loop, if it has variants.
    #[serde(deserialize_with = "present")]
    pub variant: Option<String>,
    /// The version of the loop.
    pub version: String,
}

/// The limits of a run; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The attempts of each phase.
    pub attempts: Option<u64>,
    /// The changed lines of the workspace since the start of the run.
    pub changed_lines: Option<u64>,
    /// The cost in millionths of the currency.
    pub cost_micros: Option<u64>,
    /// The input and output tokens.
    pub tokens: Option<u64>,
    /// The working time in milliseconds; time on hold does not count.
    pub wall_ms: Option<u64>,
}

/// A resource that a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetedResource {
    /// Attempts of one phase.
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
    /// All variants.
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

/// Whether phases run in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// Ready phases run in parallel.
    Parallel,
    /// One phase at a time, and one run of the loop at a time.
    Serial,
}

/// What to do with a run whose process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRestart {
    /// Put it on hold.
    Hold,
    /// Resume it.
    Resume,
    /// End it.
    Terminate,
}

/// How holds are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldRule {
    /// The number of different people that must approve.
    pub approvals: u32,
    /// The time after which an unanswered hold expires, in milliseconds.
    pub expires_ms: Option<u64>,
    /// How often an attempt whose agent could not be reached goes on by itself.
    pub retries: u32,
    /// Whether the person who started the run counts where several must approve.
    pub starter_counts: bool,
}

impl HoldRule {
    /// When a hold that begins at `start` expires.
    #[must_use]
    pub fn expires_at(&self, start: Timestamp) -> Option<Timestamp> {
        let after = i64::try_from(self.expires_ms?).ok()?;
        Timestamp::from_unix_ms(start.unix_ms().checked_add(after)?).ok()
    }
}

impl Default for HoldRule {
    fn default() -> Self {
        Self { approvals: 1, expires_ms: None, retries: 3, starter_counts: false }
    }
}

/// A requirement for the start and the resumption of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// The project is a git repository without changes and without untracked files.
    CleanRepo,
    /// The project is a git repository with at least one commit.
    Repo,
    /// No other run of a loop with this requirement is in progress in the project.
    Single,
}

/// A phase of a loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Whether the phase works in a separate work tree, which is merged into the workspace afterwards.
    pub branch: bool,
    /// The checks before and after the work, in order.
    pub checks: Vec<Check>,
    /// The executor.
    pub doer: Doer,
    /// The gate that judges the answer.
    pub gate: Option<Gate>,
    /// The id, unique in the loop.
    pub id: String,
    /// The phases that must be settled before it.
    pub needs: Vec<String>,
    /// Patterns of the output files that it must create; the files must not be empty.
    pub outputs: Vec<String>,
    /// What the phase is called beside its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The condition of the phase.
    pub when: PhaseCondition,
}

/// The executor of a phase or a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum Doer {
    /// An agent, by the name of its file.
    Agent {
        /// The name.
        agent: String,
        /// The prompt, in addition to the task and the results so far.
        prompt: Option<String>,
    },
    /// A builtin function of the engine.
    Builtin {
        /// The name.
        name: String,
        /// The settings.
        with: BTreeMap<String, Value>,
    },
    /// Several reviewers, of whom enough must approve.
    Consensus {
        /// The points that each reviewer checks.
        checklist: Vec<String>,
        /// The question.
        question: String,
        /// The number of reviewers that must approve.
        quorum: u32,
        /// The reviewers; agents review first, then people.
        reviewers: Vec<Reviewer>,
    },
    /// A program that reads JSON from standard input and writes one JSON object to standard output.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Whether the program may be started again if it is unknown how it ended.
        repeatable: bool,
        /// The time limit.
        timeout_ms: u64,
    },
    /// A person, who answers through the queue.
    Person {
        /// The number of different people that must approve.
        approvals: u32,
        /// The question.
        question: String,
    },
}

/// A reviewer of a consensus phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reviewer {
    /// An agent, by the name of its file.
    Agent {
        /// The name.
        agent: String,
        /// The prompt, in addition to the task, the checklist and the results so far.
        #[serde(deserialize_with = "present")]
        prompt: Option<String>,
    },
    /// A person.
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

/// The condition under which a phase is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "if", rename_all = "snake_case", deny_unknown_fields)]
pub enum PhaseCondition {
    /// Always.
    #[default]
    Always,
    /// If a fact of an earlier phase has one of these values.
    Fact {
        /// The name of the fact.
        fact: String,
        /// The values.
        one_of: Vec<String>,
    },
    /// Only if a gate or check sends the run there by `intervene`.
    Intervention,
}

/// The verdict of a phase whose work failed; a gate may declare an effect for it.
pub const FAILED: &str = "failed";

/// The effect of a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// The run ends as BLOCKED, with the reason of the gate.
    Block,
    /// The run continues.
    Continue,
    /// The run goes on hold.
    Hold {
        /// The number of different people that must approve; the number of the loop if `None`.
        approvals: Option<u32>,
        /// The trigger.
        trigger: Trigger,
    },
    /// The run does an intervention phase, then the judged phase again; at most once.
    Intervene {
        /// The intervention phase.
        phase: String,
        /// The effect if the intervention was already done.
        then: Box<Effect>,
    },
    /// The run goes back to a phase, with the findings of the check or gate.
    Redo {
        /// The maximum number of times.
        max: u32,
        /// The phase.
        phase: String,
        /// The effect after that.
        then: Box<Effect>,
    },
    /// The run ends.
    Stop {
        /// The outcome.
        outcome: RunOutcome,
        /// The reason.
        reason: String,
    },
}

/// The cause of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Trigger {
    /// No runner could reach its agent; the attempt goes on later.
    AgentUnavailable,
    /// A budget is exhausted.
    BudgetExhausted,
    /// A tool call of a phase waits for a person.
    CallApproval,
    /// Reviewers must agree.
    ConsensusRequested,
    /// A decision is needed that the loop cannot make.
    EscalationRequested,
    /// A branch has merge conflicts.
    MergeConflict,
    /// A person does the phase.
    PersonRequested,
    /// The process of the run died, and the loop lets a person decide.
    RestartRequested,
    /// A person rolled back the run and decides when it continues.
    RolledBack,
    /// The work tree of the run could not be made ready.
    SetupFailed,
    /// It is unknown whether an interrupted phase took effect.
    UncertainEffect,
    /// A rule must be waived.
    WaiverRequested,
}

impl Trigger {
    /// All variants.
    pub const ALL: [Self; 12] = [
        Self::AgentUnavailable,
        Self::BudgetExhausted,
        Self::CallApproval,
        Self::ConsensusRequested,
        Self::EscalationRequested,
        Self::MergeConflict,
        Self::PersonRequested,
        Self::RestartRequested,
        Self::RolledBack,
        Self::SetupFailed,
        Self::UncertainEffect,
        Self::WaiverRequested,
    ];

    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AgentUnavailable => "AGENT_UNAVAILABLE",
            Self::BudgetExhausted => "BUDGET_EXHAUSTED",
            Self::CallApproval => "CALL_APPROVAL",
            Self::ConsensusRequested => "CONSENSUS_REQUESTED",
            Self::EscalationRequested => "ESCALATION_REQUESTED",
            Self::MergeConflict => "MERGE_CONFLICT",
            Self::PersonRequested => "PERSON_REQUESTED",
            Self::RestartRequested => "RESTART_REQUESTED",
            Self::RolledBack => "ROLLED_BACK",
            Self::SetupFailed => "SETUP_FAILED",
            Self::UncertainEffect => "UNCERTAIN_EFFECT",
            Self::WaiverRequested => "WAIVER_REQUESTED",
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunOutcome {
    /// The run may not continue.
    Blocked,
    /// The run needs a decision that the loop cannot make.
    EscalationRequested,
    /// All phases are complete or skipped.
    Pass,
    /// The run needs a rule to be waived.
    WaiverRequested,
}

impl RunOutcome {
    /// All variants.
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
    /// The builtins that the phases and their checks use, with repetitions.
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

    /// The names of all agents: of phases, checks and reviewers.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        let doers = self
            .phases
            .iter()
            .flat_map(|phase| phase.checks.iter().map(|check| &check.doer).chain([&phase.doer]));
        doers.flat_map(|doer| -> Vec<&str> {
            match doer {
                Doer::Agent { agent, .. } => vec![agent],
                Doer::Consensus { reviewers, .. } => {
                    let agent = |reviewer: &'_ Reviewer| matches!(reviewer, Reviewer::Agent { .. });
                    reviewers.iter().filter(|one| agent(one)).map(Reviewer::name).collect()
                }
                Doer::Builtin { .. } | Doer::Command { .. } | Doer::Person { .. } => Vec::new(),
            }
        })
    }

    /// The index of a phase.
    #[must_use]
    pub fn position(&self, phase: &str) -> Option<usize> {
        self.phases.iter().position(|other| other.id == phase)
    }
}
