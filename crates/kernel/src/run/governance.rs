//! What the work of phases is measured by, and what the measuring said.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::entry::present;

/// All rules that a run's phases are measured by, composed from every level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Governance {
    /// What must be kept to.
    pub compliance: Vec<Rule>,
    /// How good the work must be.
    pub gates: Vec<Rule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What is looked at.
    pub evidence: Evidence,
    /// Its name, unique among its kind.
    pub id: String,
    /// Who laid it down.
    pub level: RuleLevel,
    /// What follows when it is not met.
    pub on_failure: OnFailure,
    /// The phases after which it is looked at; all when empty.
    pub phases: Vec<String>,
    /// What to do then.
    pub remediation: String,
}

/// Who laid a rule down: a later one may only be stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleLevel {
    /// Everybody.
    Universal,
    /// An organisation.
    Organisation,
    /// A project.
    Project,
    /// A loop.
    Loop,
}

/// What follows when a rule is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It is told.
    Warn,
    /// The phase has failed.
    Block,
}

/// What a rule looks at. What cannot be looked at is not met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Evidence {
    /// A number in the JSON that a program prints.
    Metric {
        /// The program and its arguments.
        argv: Vec<String>,
        /// How the number stands to the threshold.
        compare: Compare,
        /// Where the number is, as a JSON pointer.
        pointer: String,
        /// The threshold.
        threshold: Number,
        /// How long the program may take.
        timeout_ms: u64,
    },
    /// A program that ends well.
    Tool {
        /// The program and its arguments.
        argv: Vec<String>,
        /// How long it may take.
        timeout_ms: u64,
    },
    /// Files and what they hold.
    Validator {
        /// The largest that one may be.
        #[serde(deserialize_with = "present")]
        bytes_max: Option<u64>,
        /// Patterns of files; at least one must match unless only `forbid` is given.
        files: Vec<String>,
        /// A regular expression that none may match.
        #[serde(deserialize_with = "present")]
        forbid: Option<String>,
        /// Whether each must be JSON.
        json: bool,
        /// A regular expression that each must match.
        #[serde(deserialize_with = "present")]
        require: Option<String>,
    },
}

/// How a number stands to a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// Not below it.
    AtLeast,
    /// Not above it.
    AtMost,
    /// Just it.
    Equal,
}

/// What the measuring of one phase said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GovernanceResult {
    /// What must be kept to.
    pub compliance_checks: Vec<ComplianceResult>,
    /// Whether nothing blocks.
    pub passed: bool,
    /// How good the work is.
    pub quality_gates: Vec<GateResult>,
}

/// What one gate said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateResult {
    /// What was found.
    pub actual: Value,
    /// The gate.
    pub gate_id: String,
    /// For a person.
    pub message: String,
    /// What to do.
    pub remediation: String,
    /// How it ended.
    pub status: GateStatus,
    /// What was wanted.
    pub threshold: Value,
}

/// How a gate ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateStatus {
    /// Met.
    Passed,
    /// Not met, and told.
    Warned,
    /// Not met, and the phase has failed.
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

/// What one compliance check said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComplianceResult {
    /// The check.
    pub compliance_type: String,
    /// Whether it is kept to.
    pub passed: bool,
    /// How it ended.
    pub status: GateStatus,
    /// What is not.
    pub violations: Vec<String>,
}
