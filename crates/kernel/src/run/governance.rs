//! The governance rules for the work of phases, and their results.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::entry::present;

/// The governance rules of a run, composed from all levels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Governance {
    /// The compliance rules.
    pub compliance: Vec<Rule>,
    /// The quality gates.
    pub gates: Vec<Rule>,
}

/// A governance rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The evidence that the rule examines.
    pub evidence: Evidence,
    /// The id, unique among the rules of the same kind.
    pub id: String,
    /// The level that defines the rule.
    pub level: RuleLevel,
    /// The consequence of a violation.
    pub on_failure: OnFailure,
    /// The phases that the rule applies to; all if empty.
    pub phases: Vec<String>,
    /// How to fix a violation.
    pub remediation: String,
}

/// The level that defines a rule. A later level may only make a rule stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleLevel {
    /// All organisations.
    Universal,
    /// An organisation.
    Organisation,
    /// A project.
    Project,
    /// A loop.
    Loop,
}

/// The consequence of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The violation is reported.
    Warn,
    /// The phase fails.
    Block,
}

/// The evidence that a rule examines. A rule whose evidence is unavailable is violated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Evidence {
    /// A number in the JSON that a program prints.
    Metric {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The comparison of the number with the threshold.
        compare: Compare,
        /// The files and folders that the program gets as they were at the start of the run; those that the
        /// command names if `None`.
        #[serde(deserialize_with = "present")]
        pinned: Option<Vec<String>>,
        /// The JSON pointer to the number.
        pointer: String,
        /// The threshold.
        threshold: Number,
        /// The time limit of the program.
        timeout_ms: u64,
    },
    /// A program that must exit successfully.
    Tool {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The files and folders that the program gets as they were at the start of the run; those that the
        /// command names if `None`.
        #[serde(deserialize_with = "present")]
        pinned: Option<Vec<String>>,
        /// The time limit.
        timeout_ms: u64,
    },
    /// Files and their contents.
    Validator {
        /// The maximum size of a file.
        #[serde(deserialize_with = "present")]
        bytes_max: Option<u64>,
        /// Patterns of files; at least one file must match, unless only `forbid` is given.
        files: Vec<String>,
        /// A regular expression that no file may match.
        #[serde(deserialize_with = "present")]
        forbid: Option<String>,
        /// Whether each file must be JSON.
        json: bool,
        /// A regular expression that each file must match.
        #[serde(deserialize_with = "present")]
        require: Option<String>,
    },
}

impl Evidence {
    /// The pinned files as they are written; `None` for those that the command names, and without one.
    #[must_use]
    pub fn pinned(&self) -> Option<&[String]> {
        match self {
            Self::Metric { pinned, .. } | Self::Tool { pinned, .. } => pinned.as_deref(),
            Self::Validator { .. } => None,
        }
    }
}

/// A comparison of a number with a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// Greater than or equal.
    AtLeast,
    /// Less than or equal.
    AtMost,
    /// Equal.
    Equal,
}

/// The results of all governance rules for one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GovernanceResult {
    /// The results of the compliance rules.
    pub compliance_checks: Vec<ComplianceResult>,
    /// Whether no rule blocks.
    pub passed: bool,
    /// The results of the quality gates.
    pub quality_gates: Vec<GateResult>,
}

/// The result of one quality gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateResult {
    /// The actual value.
    pub actual: Value,
    /// The gate.
    pub gate_id: String,
    /// The message, for a person.
    pub message: String,
    /// How to fix a violation.
    pub remediation: String,
    /// The status.
    pub status: GateStatus,
    /// The required value.
    pub threshold: Value,
}

/// The status of a rule after its evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateStatus {
    /// The rule is met.
    Passed,
    /// The rule is violated, which is only reported.
    Warned,
    /// The rule is violated, and the phase failed.
    Blocked,
}

impl GateStatus {
    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Warned => "warned",
            Self::Blocked => "blocked",
        }
    }
}

/// The result of one compliance rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComplianceResult {
    /// The id of the rule.
    pub compliance_type: String,
    /// Whether the rule is met.
    pub passed: bool,
    /// The status.
    pub status: GateStatus,
    /// The violations.
    pub violations: Vec<String>,
}
