//! Judges what was found. What cannot be looked at is not met.

use std::cmp::Ordering;

use serde_json::{Number, Value, json};
use windlass_kernel::canon;
use windlass_kernel::run::plan::{Compare, Evidence, OnFailure, Rule};
use windlass_kernel::run::{ComplianceResult, GateResult, GateStatus, GovernanceResult};

use crate::inspect::Looked;
use crate::limits::{cut, cut_to};

/// The longest message, in characters.
const MESSAGE_CHARS_MAX: usize = 1000;
/// The most that a program may print for its number to be read.
const PRINTED_BYTES_MAX: usize = 1 << 20;

/// What was found where a rule looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A program ended by itself.
    Ended {
        /// Its exit code; absent when a signal ended it.
        exit_code: Option<i64>,
        /// What it printed.
        stdout: String,
        /// The end of what it said, for a person.
        words: String,
    },
    /// Files were looked at.
    Files(Looked),
    /// Nothing could be found, and why: it did not start, took too long, or was not tried.
    Nothing(String),
}

/// A rule held against what was found.
struct Finding {
    actual: Value,
    is_met: bool,
    message: String,
    threshold: Value,
    violations: Vec<String>,
}

impl Finding {
    fn new(is_met: bool, threshold: Value, actual: Value, message: impl AsRef<str>) -> Self {
        let message = cut_to(message.as_ref(), MESSAGE_CHARS_MAX);
        let violations = if is_met { Vec::new() } else { vec![message.clone()] };
        Self { actual, is_met, message, threshold, violations }
    }
}

/// What a gate says of what was found.
#[must_use]
pub fn gate(rule: &Rule, found: &Found) -> GateResult {
    let finding = weigh(&rule.evidence, found);
    GateResult {
        actual: finding.actual,
        gate_id: rule.id.clone(),
        message: finding.message,
        remediation: rule.remediation.clone(),
        status: status(rule, finding.is_met),
        threshold: finding.threshold,
    }
}

/// What a compliance check says of what was found.
#[must_use]
pub fn compliance(rule: &Rule, found: &Found) -> ComplianceResult {
    let finding = weigh(&rule.evidence, found);
    ComplianceResult {
        compliance_type: rule.id.clone(),
        passed: finding.is_met,
        status: status(rule, finding.is_met),
        violations: finding.violations,
    }
}

/// All results of one phase; it passes when nothing blocks.
#[must_use]
pub fn governed(gates: Vec<GateResult>, checks: Vec<ComplianceResult>) -> GovernanceResult {
    let statuses = gates.iter().map(|gate| gate.status);
    let mut statuses = statuses.chain(checks.iter().map(|check| check.status));
    let passed = !statuses.any(|status| status == GateStatus::Blocked);
    GovernanceResult { compliance_checks: checks, passed, quality_gates: gates }
}

const fn status(rule: &Rule, is_met: bool) -> GateStatus {
    match (is_met, rule.on_failure) {
        (true, OnFailure::Warn | OnFailure::Block) => GateStatus::Passed,
        (false, OnFailure::Warn) => GateStatus::Warned,
        (false, OnFailure::Block) => GateStatus::Blocked,
    }
}

fn weigh(evidence: &Evidence, found: &Found) -> Finding {
    match evidence {
        Evidence::Metric { compare, pointer, threshold, .. } => {
            let wanted = Value::Number(threshold.clone());
            match measured(pointer, found) {
                Ok(actual) => {
                    let is_met = holds(*compare, &actual, threshold);
                    let word = match compare {
                        Compare::AtLeast => "at least",
                        Compare::AtMost => "at most",
                        Compare::Equal => "exactly",
                    };
                    let message = format!("{actual}, wanted {word} {threshold}");
                    Finding::new(is_met, wanted, Value::Number(actual), message)
                }
                Err(why) => Finding::new(false, wanted, Value::Null, why),
            }
        }
        Evidence::Tool { .. } => {
            let wanted = json!(0);
            match found {
                Found::Ended { exit_code: Some(0), .. } => {
                    Finding::new(true, wanted, json!(0), "the program ended well")
                }
                Found::Ended { exit_code, .. } => {
                    Finding::new(false, wanted, json!(exit_code), failed(found))
                }
                Found::Files(_) | Found::Nothing(_) => {
                    Finding::new(false, wanted, Value::Null, failed(found))
                }
            }
        }
        Evidence::Validator { .. } => validated(found),
    }
}

/// Why there is no result of a program that ended well.
fn failed(found: &Found) -> String {
    match found {
        Found::Ended { exit_code: Some(code), words, .. } => {
            format!("the program ended with {code}: {words}")
        }
        Found::Ended { exit_code: None, words, .. } => format!("the program was ended: {words}"),
        Found::Nothing(why) => format!("nothing was found: {why}"),
        Found::Files(_) => "no program was started".to_owned(),
    }
}

/// The number that a program has printed, or why there is none.
fn measured(pointer: &str, found: &Found) -> Result<Number, String> {
    // A program that failed has measured nothing, whatever it printed.
    let Found::Ended { exit_code: Some(0), stdout, .. } = found else {
        return Err(failed(found));
    };
    let printed = canon::parse(stdout.trim().as_bytes(), PRINTED_BYTES_MAX)
        .map_err(|error| format!("what the program printed is not one JSON value: {error}"))?;
    match printed.pointer(pointer) {
        None => Err(format!("what the program printed has nothing at `{}`", cut(pointer))),
        Some(Value::Number(number)) => Ok(number.clone()),
        Some(
            other @ (Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_)),
        ) => {
            let shown = cut(&other.to_string());
            Err(format!("what is at `{}` is not a number: {shown}", cut(pointer)))
        }
    }
}

fn holds(compare: Compare, actual: &Number, threshold: &Number) -> bool {
    match (order(actual, threshold), compare) {
        (None, Compare::AtLeast | Compare::AtMost | Compare::Equal) => false,
        (Some(order), Compare::AtLeast) => order != Ordering::Less,
        (Some(order), Compare::AtMost) => order != Ordering::Greater,
        (Some(order), Compare::Equal) => order == Ordering::Equal,
    }
}

/// How two numbers stand to each other; `None` when that cannot be said.
pub(crate) fn order(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        // Whole numbers beyond 2^53 are not let in, so each is exact as a double.
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

fn validated(found: &Found) -> Finding {
    let looked = match found {
        Found::Files(looked) => looked,
        Found::Nothing(why) => {
            let message = format!("no file was looked at: {why}");
            return Finding::new(false, json!(0), Value::Null, message);
        }
        Found::Ended { .. } => {
            return Finding::new(false, json!(0), Value::Null, "no file was looked at");
        }
    };
    let mut violations = looked.violations.clone();
    if looked.untold > 0 {
        violations.push(format!("and {} more", looked.untold));
    }
    if looked.lacks {
        violations.push("the patterns match no file, or only empty ones".to_owned());
    }
    let told = u64::try_from(looked.violations.len()).unwrap_or(u64::MAX);
    let count = told.saturating_add(looked.untold).saturating_add(u64::from(looked.lacks));
    let message = match violations.first() {
        None => format!("{} files are as they should be", looked.files),
        Some(first) if violations.len() == 1 => first.clone(),
        Some(first) => format!("{first}; {count} faults in all"),
    };
    let mut finding = Finding::new(violations.is_empty(), json!(0), json!(count), message);
    finding.violations = violations;
    finding
}
