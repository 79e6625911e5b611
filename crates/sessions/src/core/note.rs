//! What is recorded of the core loop.

use serde::{Deserialize, Serialize};
use windlass_kernel::Digest;

use super::judge::Judge;

/// Something that happened in the core loop of a session. The state of the loop is a fold over these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "core", rename_all = "snake_case", deny_unknown_fields)]
pub enum CoreNote {
    /// A prompt was entered, and needs a plan unless `skipped` says why not.
    PromptTaken {
        /// Its number in the session.
        number: u32,
        /// Its text without secrets, shortened.
        text: String,
        /// The file with what the hydrator is given.
        context: Option<String>,
        /// Why it needs no plan.
        skipped: Option<String>,
    },
    /// A judge was started by the client, with our prompt.
    JudgeStarted {
        /// The judge.
        judge: Judge,
        /// The client's id of the use of its tool.
        id: String,
        /// The digest of its file.
        file: Digest,
        /// The digest of the prompt that it was given.
        prompt: Digest,
        /// The files as they were then, for a verification.
        tree: Option<String>,
    },
    /// A judge works in the background; its answer comes with its end.
    JudgeLaunched {
        /// The client's id of the use of its tool.
        id: String,
        /// The client's id of the subagent.
        agent: String,
    },
    /// A judge answered in a way that cannot be read, or did not answer.
    AnswerRefused {
        /// The judge.
        judge: Judge,
        /// The client's id of the use of its tool.
        id: String,
        /// Why.
        reason: String,
    },
    /// The prompt has a plan.
    Planned {
        /// The client's id of the use of its tool.
        id: String,
        /// What the person wants.
        intent: String,
        /// The selected workflow.
        workflow: String,
        /// The gates of the workflow.
        gates: Vec<String>,
        /// When the work is done.
        criteria: Vec<String>,
        /// The steps of the plan.
        steps: Vec<PlanStep>,
        /// What else the plan says: scope, path, complexity, context.
        details: serde_json::Value,
    },
    /// The critic has judged the plan.
    Criticised {
        /// The client's id of the use of its tool.
        id: String,
        /// PROCEED, REVISE or HALT.
        verdict: String,
        /// Why.
        reason: String,
        /// What is wrong with the plan.
        findings: Vec<Finding>,
        /// The criteria as it approves them.
        criteria: Vec<String>,
    },
    /// The custodiet has audited the work.
    Audited {
        /// The client's id of the use of its tool.
        id: String,
        /// OK, WARN or BLOCK. BLOCK stops every hook of the session.
        verdict: String,
        /// Why.
        reason: String,
        /// What is wrong.
        issue: String,
        /// Which rule it breaks.
        principle: String,
        /// What would be right.
        correction: String,
    },
    /// The verifier has judged the work.
    Verified {
        /// The client's id of the use of its tool.
        id: String,
        /// The files that it looked at.
        #[serde(default)]
        tree: Option<String>,
        /// VERIFIED or ISSUES.
        verdict: String,
        /// Why.
        reason: String,
        /// What must be mended.
        issues: Vec<Finding>,
    },
    /// The framework agent has reflected on the session.
    Reflected {
        /// The client's id of the use of its tool.
        id: String,
        /// The reflection as Markdown.
        reflection: String,
        /// Its outcome: success, partial or failure.
        outcome: String,
        /// What was learned.
        learnings: Vec<String>,
        /// What should be improved: titles with descriptions.
        improvements: Vec<Finding>,
    },
    /// A step of the plan has got on.
    Step {
        /// The step.
        step: String,
        /// How far.
        status: StepStatus,
    },
    /// The agent handed the work to a skill or command.
    SkillUsed {
        /// Its name.
        name: String,
    },
    /// How the repository was when the session's first prompt came: what is not the session's work.
    Began {
        /// The commit.
        head: Option<String>,
        /// The files that were changed already.
        dirty: Vec<String>,
    },
    /// The files are others than those that were verified.
    WorkChanged {
        /// The files as they are.
        tree: String,
    },
    /// A person has cleared a block.
    BlockCleared {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// The agent was not let stop.
    StopRefused {
        /// What is missing.
        missing: String,
    },
    /// Something was written to the tracker.
    Delivered {
        /// What, as [`Delivery::key`](super::Delivery) names it.
        key: String,
        /// The item of the tracker.
        item: String,
    },
    /// The session's insights were written.
    InsightsWritten {
        /// The file.
        path: String,
    },
    /// What was said in the session was written down.
    TranscriptWritten {
        /// The file.
        path: String,
    },
    /// A step of the close, as it ended.
    Closing(CloseStep),
    /// The work is committed, pushed and proven to be.
    Closed {
        /// The commit.
        commit: Option<String>,
    },
    /// The client ended the session while something was missing.
    Unclosed {
        /// What.
        missing: Vec<String>,
    },
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// Its id in the workflow.
    pub id: String,
    /// What is to be done.
    pub text: String,
}

/// A finding: what it is about, and what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The check, dimension or title.
    pub about: String,
    /// The problem or description.
    pub text: String,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Nothing was done.
    #[default]
    Pending,
    /// It is being done.
    InProgress,
    /// It is done.
    Completed,
}

impl StepStatus {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

/// A step of the close.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloseStep {
    /// Its name: format, stage, commit, pull, sync, push, proof.
    pub step: String,
    /// Whether it succeeded.
    pub ok: bool,
    /// What it said, shortened.
    pub detail: String,
}
