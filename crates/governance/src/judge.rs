//! Judges observations. A rule that could not be observed is not met.

use std::cmp::Ordering;

use serde_json::{Number, Value, json};
use windlass_kernel::canon;
use windlass_kernel::run::plan::{Compare, Evidence, OnFailure, Rule};
use windlass_kernel::run::{ComplianceResult, GateResult, GateStatus, GovernanceResult};
use windlass_text::printable;

use crate::limits::shown;
use crate::validate::FileFindings;

/// The longest message, in characters.
const MESSAGE_CHARS_MAX: usize = 1000;
/// The most output of a program that is parsed for its number.
const PRINTED_BYTES_MAX: usize = 1 << 20;

/// What was observed for a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A program exited.
    Exited {
        /// Its exit code; absent when a signal ended it.
        exit_code: Option<i64>,
        /// Its standard output.
        stdout: String,
        /// The end of its output, for a person.
        output_tail: String,
    },
    /// Files were checked.
    Files(FileFindings),
    /// Why there is no observation: the program did not start, took too long, or was not tried.
    Unavailable(String),
}

/// The judgement of one rule.
struct Finding {
    actual: Value,
    is_met: bool,
    message: String,
    threshold: Value,
    violations: Vec<String>,
}

impl Finding {
    fn new(is_met: bool, threshold: Value, actual: Value, message: impl AsRef<str>) -> Self {
        let message = printable(message.as_ref(), MESSAGE_CHARS_MAX);
        let violations = if is_met { Vec::new() } else { vec![message.clone()] };
        Self { actual, is_met, message, threshold, violations }
    }
}

/// Judges a gate.
#[must_use]
pub fn judge_gate(rule: &Rule, observation: &Observation) -> GateResult {
    let finding = judge(&rule.evidence, observation);
    GateResult {
        actual: finding.actual,
        gate_id: rule.id.clone(),
        message: finding.message,
        remediation: rule.remediation.clone(),
        status: status(rule, finding.is_met),
        threshold: finding.threshold,
    }
}

/// Judges a compliance check.
#[must_use]
pub fn judge_compliance(rule: &Rule, observation: &Observation) -> ComplianceResult {
    let finding = judge(&rule.evidence, observation);
    ComplianceResult {
        compliance_type: rule.id.clone(),
        passed: finding.is_met,
        status: status(rule, finding.is_met),
        violations: finding.violations,
    }
}

/// The results of one phase, which passes when no rule blocks.
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

fn judge(evidence: &Evidence, observation: &Observation) -> Finding {
    match evidence {
        Evidence::Metric { compare, pointer, threshold, .. } => {
            let wanted = Value::Number(threshold.clone());
            match measured(pointer, observation) {
                Ok(actual) => {
                    let is_met = holds(*compare, &actual, threshold);
                    let comparison = match compare {
                        Compare::AtLeast => "at least",
                        Compare::AtMost => "at most",
                        Compare::Equal => "exactly",
                    };
                    let message = format!("{actual}, expected {comparison} {threshold}");
                    Finding::new(is_met, wanted, Value::Number(actual), message)
                }
                Err(why) => Finding::new(false, wanted, Value::Null, why),
            }
        }
        Evidence::Tool { .. } => {
            let wanted = json!(0);
            match observation {
                Observation::Exited { exit_code: Some(0), .. } => {
                    Finding::new(true, wanted, json!(0), "the program succeeded")
                }
                Observation::Exited { exit_code, .. } => {
                    Finding::new(false, wanted, json!(exit_code), failed(observation))
                }
                Observation::Files(_) | Observation::Unavailable(_) => {
                    Finding::new(false, wanted, Value::Null, failed(observation))
                }
            }
        }
        Evidence::Validator { .. } => validated(observation),
    }
}

/// Why a program has no usable result.
fn failed(observation: &Observation) -> String {
    match observation {
        Observation::Exited { exit_code: Some(code), output_tail, .. } => {
            format!("the program exited with {code}: {output_tail}")
        }
        Observation::Exited { exit_code: None, output_tail, .. } => {
            format!("a signal ended the program: {output_tail}")
        }
        Observation::Unavailable(why) => format!("there is no result: {why}"),
        Observation::Files(_) => "no program was started".to_owned(),
    }
}

/// The number that a program printed, or why there is none.
fn measured(pointer: &str, observation: &Observation) -> Result<Number, String> {
    // The output of a program that failed does not count.
    let Observation::Exited { exit_code: Some(0), stdout, .. } = observation else {
        return Err(failed(observation));
    };
    let printed = canon::parse(stdout.trim().as_bytes(), PRINTED_BYTES_MAX)
        .map_err(|error| format!("the program's output is not one JSON value: {error}"))?;
    match printed.pointer(pointer) {
        None => Err(format!("the program's output has no value at `{}`", shown(pointer))),
        Some(Value::Number(number)) => Ok(number.clone()),
        Some(
            other @ (Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_)),
        ) => {
            let (pointer, value) = (shown(pointer), shown(&other.to_string()));
            Err(format!("the value at `{pointer}` is not a number: {value}"))
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

/// Compares two numbers; `None` if one cannot be represented.
pub(crate) fn order(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        // Integers beyond 2^53 are refused on input, so each is exact as a double.
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

fn validated(observation: &Observation) -> Finding {
    let findings = match observation {
        Observation::Files(findings) => findings,
        Observation::Unavailable(why) => {
            let message = format!("no file was checked: {why}");
            return Finding::new(false, json!(0), Value::Null, message);
        }
        Observation::Exited { .. } => {
            return Finding::new(false, json!(0), Value::Null, "no file was checked");
        }
    };
    let mut violations = findings.violations.clone();
    if findings.omitted > 0 {
        violations.push(format!("and {} more", findings.omitted));
    }
    if findings.lacks_file {
        violations.push("the patterns match no file, or only empty files".to_owned());
    }
    let listed = u64::try_from(findings.violations.len()).unwrap_or(u64::MAX);
    let count =
        listed.saturating_add(findings.omitted).saturating_add(u64::from(findings.lacks_file));
    let message = match violations.first() {
        None => format!("{} files checked", findings.files),
        Some(first) if violations.len() == 1 => first.clone(),
        Some(first) => format!("{first}; {count} violations in all"),
    };
    let mut finding = Finding::new(violations.is_empty(), json!(0), json!(count), message);
    finding.violations = violations;
    finding
}
