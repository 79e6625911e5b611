//! Verification of an output: seven steps in order, up to the first that fails.

use serde::{Deserialize, Serialize};

use crate::outcome::Finding;
use crate::{CheckResult, DriverConfig, Facts, Outcome, VerificationStep, rules};

/// The result of verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verification {
    /// The results of the steps, up to the first that failed.
    pub steps: Vec<StepResult>,
    /// PASS when all steps passed, otherwise the outcome of the failure.
    pub outcome: Outcome,
    /// The step that failed.
    pub failed_step: Option<VerificationStep>,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepResult {
    /// The step.
    pub step: VerificationStep,
    /// Its result.
    pub result: CheckResult,
}

/// Verifies an output by the known facts; an unknown fact never passes.
#[must_use]
pub fn verify(config: &DriverConfig, facts: &Facts) -> Verification {
    let mut steps = Vec::with_capacity(config.order.len());
    for step in config.order.iter().copied() {
        let result = CheckResult::of(config, judge(config, step, facts));
        let outcome = result.outcome;
        steps.push(StepResult { step, result });
        if !outcome.is_success() {
            return Verification { steps, outcome, failed_step: Some(step) };
        }
    }
    Verification { steps, outcome: Outcome::Pass, failed_step: None }
}

fn judge(config: &DriverConfig, step: VerificationStep, facts: &Facts) -> Result<(), Finding> {
    let intent = rules::intent(config, facts)?;
    match step {
        VerificationStep::IntentAlignment => rules::alignment(intent, facts),
        VerificationStep::ModelAuthority => {
            let selection = rules::selection(config, intent, facts)?;
            rules::invoked(facts, selection)
        }
        VerificationStep::ContextCompliance => rules::context(intent, facts),
        VerificationStep::ScopeMutationSafety => rules::scope(config, intent, facts),
        VerificationStep::StructuralIntegrity => rules::well_formed(facts),
        VerificationStep::Hallucination => rules::hallucination(intent, facts),
        VerificationStep::OutputContract => rules::contract(facts),
    }
}
