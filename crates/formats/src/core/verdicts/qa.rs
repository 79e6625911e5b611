//! The answer of the QA verifier.

use serde::Serialize;
use serde_json::Value;

use super::answer;
use crate::core::answer::{items, some, text};
use crate::fields::{FieldError, Fields};
use crate::keyword::keywords;

keywords! {
    /// The QA verifier's verdict on the work.
    QaVerdict {
        /// It is correct.
        Verified = "VERIFIED",
        /// It has problems.
        Issues = "ISSUES",
    }
}

keywords! {
    /// The result of a check.
    CheckResult {
        /// It holds.
        Passed = "passed",
        /// It does not hold.
        Failed = "failed",
        /// It does not apply to this work.
        NotApplicable = "not_applicable",
    }
}

keywords! {
    /// What a problem concerns.
    IssueDimension {
        /// How good the result is.
        OutputQuality = "output_quality",
        /// Whether the workflow was followed.
        ProcessCompliance = "process_compliance",
        /// Whether the result means what was asked for.
        SemanticCorrectness = "semantic_correctness",
    }
}

keywords! {
    /// How bad a problem is.
    IssueSeverity {
        /// The work cannot be used.
        Critical = "critical",
        /// The work must be changed.
        Major = "major",
        /// The work should be changed.
        Minor = "minor",
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QaCheck {
    /// What shows the result.
    pub evidence: String,
    /// The result.
    pub result: CheckResult,
}

/// The five checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QaChecks {
    /// Are all acceptance criteria met?
    pub criteria: QaCheck,
    /// Is the documentation up to date?
    pub documentation: QaCheck,
    /// Are there no obvious errors?
    pub errors: QaCheck,
    /// Is the result what was asked for?
    pub intent: QaCheck,
    /// Do the tests pass?
    pub tests: QaCheck,
}

/// A problem of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QaIssue {
    /// What it concerns.
    pub dimension: IssueDimension,
    /// The problem.
    pub problem: String,
    /// How bad it is.
    pub severity: IssueSeverity,
}

/// The answer of the QA verifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QaAnswer {
    /// The checks. With `VERIFIED` none has failed, and those of intent and criteria have passed.
    pub checks: QaChecks,
    /// The problems; at least one with `ISSUES`, none with `VERIFIED`.
    pub issues: Vec<QaIssue>,
    /// Why.
    pub reason: String,
    /// The verdict.
    pub verdict: QaVerdict,
}

answer!(QaAnswer);

impl QaAnswer {
    /// Reads an answer that is JSON already.
    ///
    /// # Errors
    /// [`FieldError`] for the first field that is wrong.
    pub fn from_value(value: &Value) -> Result<Self, FieldError> {
        let fields = Fields::new(value, "", &["verdict", "reason", "checks", "issues"])?;
        let verdict = fields.must("verdict", Fields::parsed)?;
        let reason = text(&fields, "reason")?;
        let checks = checks(fields.required("checks")?, verdict)?;
        let issues = items(&fields, "issues", |item, place| {
            let fields = Fields::new(item, place, &["dimension", "severity", "problem"])?;
            Ok(QaIssue {
                dimension: fields.must("dimension", Fields::parsed)?,
                severity: fields.must("severity", Fields::parsed)?,
                problem: text(&fields, "problem")?,
            })
        })?;
        let issues = match verdict {
            QaVerdict::Issues => some(&fields, "issues", issues, "`ISSUES` needs at least one")?,
            QaVerdict::Verified if issues.is_empty() => issues,
            QaVerdict::Verified => {
                return Err(fields.invalid("issues", "`VERIFIED` cannot have any"));
            }
        };
        Ok(Self { checks, issues, reason, verdict })
    }
}

fn checks(value: &Value, verdict: QaVerdict) -> Result<QaChecks, FieldError> {
    let known = ["intent", "criteria", "tests", "documentation", "errors"];
    let fields = Fields::new(value, "checks.", &known)?;
    let check = |name: &str, must_apply: bool| -> Result<QaCheck, FieldError> {
        let place = format!("{}.", fields.name(name));
        let check = Fields::new(fields.required(name)?, &place, &["result", "evidence"])?;
        let result = check.must("result", Fields::parsed)?;
        let refuses = match result {
            CheckResult::Failed => true,
            CheckResult::NotApplicable => must_apply,
            CheckResult::Passed => false,
        };
        if verdict == QaVerdict::Verified && refuses {
            return Err(check.invalid("result", format!("`VERIFIED` cannot have it `{result}`")));
        }
        Ok(QaCheck { evidence: text(&check, "evidence")?, result })
    };
    Ok(QaChecks {
        // Every session has an intent and approved criteria.
        intent: check("intent", true)?,
        criteria: check("criteria", true)?,
        tests: check("tests", false)?,
        documentation: check("documentation", false)?,
        errors: check("errors", false)?,
    })
}
