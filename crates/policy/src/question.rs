//! A call to judge, and its judgement.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_kernel::{Code, RiskLevel};

use crate::{Asked, Verdict};

/// A call to judge.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The tool's server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// The risk class that the call declares.
    pub declared_class: Option<RiskLevel>,
    /// The call's arguments.
    pub args: Value,
    /// Whether the call has an idempotency key.
    pub has_key: bool,
    /// The phase of the run that it belongs to.
    pub phase: Option<String>,
    /// The agent that makes it.
    pub agent: Option<String>,
}

/// The judgement of a call and its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The stable code; present exactly when the call is denied.
    pub code: Option<Code>,
    /// Which rule decided and why, for a person, in one line.
    pub reason: String,
    /// All rules that matched, strictest first.
    pub rules: Vec<RuleHit>,
    /// The simple commands that the call would run.
    pub commands: Vec<String>,
    /// The files that arguments and redirections name, in the workspace or in its cell's `/tmp`.
    pub paths: Vec<String>,
    /// Effects that commands and paths do not show; with any of them a person is asked at least.
    pub findings: Vec<String>,
    /// What a person is asked about besides the findings; empty unless the verdict is to ask.
    #[serde(skip)]
    pub asked: Vec<Asked>,
    /// The paths that the call may write and that it names exactly, relative to the workspace.
    #[serde(skip)]
    pub written: Vec<String>,
}

/// One rule that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleHit {
    /// The rule.
    pub id: String,
    /// The file that contains it.
    pub file: String,
    /// Its verdict here: `ask` instead of `deny` if a file name pattern only may match a denied path.
    pub verdict: Verdict,
    /// The rule's reason.
    pub reason: String,
    /// What matched: the tool, a command or a path.
    pub on: String,
}
