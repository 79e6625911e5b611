//! What the judge is asked, and what it answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_kernel::{Code, RiskLevel};

use crate::Verdict;

/// One call that wants to happen.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The tool's server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// The class that the call claims.
    pub declared_class: Option<RiskLevel>,
    /// The call's arguments.
    pub args: Value,
    /// Whether the call has an idempotency key.
    pub has_key: bool,
    /// The phase of the run it belongs to.
    pub phase: Option<String>,
    /// The agent that makes it.
    pub agent: Option<String>,
}

/// The answer, with everything that led to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// The stable code; there is one exactly when the call is denied.
    pub code: Option<Code>,
    /// Which rule decided and why, for a person, in one line.
    pub reason: String,
    /// All rules that matched, strictest first.
    pub rules: Vec<RuleHit>,
    /// The simple commands that the call would run.
    pub commands: Vec<String>,
    /// The paths that the call names, as far as they lie in the workspace.
    pub paths: Vec<String>,
    /// What makes the call more than its commands and paths; with any of these it is at least asked.
    pub findings: Vec<String>,
}

/// One rule that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleHit {
    /// The rule.
    pub id: String,
    /// The file it stands in.
    pub file: String,
    /// How strict it was here: a file name pattern that only may meet a denied path is asked.
    pub verdict: Verdict,
    /// The rule's reason.
    pub reason: String,
    /// What matched: the tool, a command or a path.
    pub on: String,
}
