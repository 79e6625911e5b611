//! The answer of the critic.

use serde::Serialize;
use serde_json::Value;

use super::answer;
use crate::core::answer::{items, some, text, texts};
use crate::fields::{FieldError, Fields};
use crate::keyword::keywords;

keywords! {
    /// The critic's verdict on a plan.
    CriticVerdict {
        /// The plan may be carried out.
        Proceed = "PROCEED",
        /// The plan must be changed first.
        Revise = "REVISE",
        /// The plan must not be carried out.
        Halt = "HALT",
    }
}

keywords! {
    /// What the critic checks.
    CriticCheck {
        /// Wrong reasoning.
        LogicalErrors = "logical_errors",
        /// What is taken for granted.
        UnstatedAssumptions = "unstated_assumptions",
        /// Claims without evidence.
        MissingVerification = "missing_verification",
        /// A plan for something else than what was asked.
        ScopeDrift = "scope_drift",
        /// What could go wrong.
        MissingEdgeCases = "missing_edge_cases",
        /// Whether the plan can be carried out.
        Feasibility = "feasibility",
    }
}

/// A problem of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CriticFinding {
    /// The check that found it.
    pub check: CriticCheck,
    /// The problem.
    pub problem: String,
}

/// The answer of the critic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CriticAnswer {
    /// The approved acceptance criteria; at least one with `PROCEED`.
    pub acceptance_criteria: Vec<String>,
    /// The problems; at least one with `REVISE` and `HALT`.
    pub findings: Vec<CriticFinding>,
    /// Why.
    pub reason: String,
    /// The verdict.
    pub verdict: CriticVerdict,
}

answer!(CriticAnswer);

impl CriticAnswer {
    /// Reads an answer that is JSON already.
    ///
    /// # Errors
    /// [`FieldError`] for the first field that is wrong.
    pub fn from_value(value: &Value) -> Result<Self, FieldError> {
        let known = ["verdict", "reason", "findings", "acceptance_criteria"];
        let fields = Fields::new(value, "", &known)?;
        let verdict = fields.must("verdict", Fields::parsed)?;
        let reason = text(&fields, "reason")?;
        let findings = items(&fields, "findings", |item, place| {
            let fields = Fields::new(item, place, &["check", "problem"])?;
            let check = fields.must("check", Fields::parsed)?;
            Ok(CriticFinding { check, problem: text(&fields, "problem")? })
        })?;
        let criteria = texts(&fields, "acceptance_criteria")?;
        let (findings, acceptance_criteria) = match verdict {
            CriticVerdict::Proceed => {
                let why = "`PROCEED` needs at least one criterion";
                (findings, some(&fields, "acceptance_criteria", criteria, why)?)
            }
            CriticVerdict::Revise | CriticVerdict::Halt => {
                let why = format!("`{verdict}` needs at least one finding");
                (some(&fields, "findings", findings, &why)?, criteria)
            }
        };
        Ok(Self { acceptance_criteria, findings, reason, verdict })
    }
}
