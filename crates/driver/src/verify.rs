//! Verification of an output: seven steps in order, up to the first that fails.

use serde::{Deserialize, Serialize};

use crate::outcome::Finding;
use crate::{CheckResult, DriverConfig, Facts, Outcome, Step, rules};

/// What verification found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verification {
    /// The steps that were done, in order; none after the first that failed.
    pub steps: Vec<StepResult>,
    /// PASS when all steps passed, otherwise what the failure comes to.
    pub outcome: Outcome,
    /// The step that failed.
    pub failed_step: Option<Step>,
}

/// What one step found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepResult {
    /// The step.
    pub step: Step,
    /// What it found.
    pub result: CheckResult,
}

/// Verifies an output by what is known of it; what is not known never passes.
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

fn judge(config: &DriverConfig, step: Step, facts: &Facts) -> Result<(), Finding> {
    let intent = rules::intent(config, facts)?;
    match step {
        Step::IntentAlignment => rules::alignment(intent, facts),
        Step::ModelAuthority => {
            let selection = rules::selection(config, intent, facts)?;
            rules::invoked(facts, selection)
        }
        Step::ContextCompliance => rules::context(intent, facts),
        Step::ScopeMutationSafety => rules::scope(config, intent, facts),
        Step::StructuralIntegrity => rules::well_formed(facts),
        Step::Hallucination => rules::hallucination(intent, facts),
        Step::OutputContract => rules::contract(facts),
    }
}
