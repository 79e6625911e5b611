//! Reads `driver/verification.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::paths::is_plain;
use crate::source::Source;
use crate::{ConfigError, FailureClass, Outcome, Response};

const RESPONSE_BYTES_MAX: usize = 200;

/// One step of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The output answers what was asked.
    IntentAlignment,
    /// The model that answered may work on this.
    ModelAuthority,
    /// The project's context was there, and was kept to.
    ContextCompliance,
    /// Only what may change has changed.
    ScopeMutationSafety,
    /// The output has its form.
    StructuralIntegrity,
    /// What the output names exists.
    Hallucination,
    /// The output holds what was declared.
    OutputContract,
}

impl Step {
    /// All steps, in the order of the shipped configuration.
    pub const ALL: [Self; 7] = [
        Self::IntentAlignment,
        Self::ModelAuthority,
        Self::ContextCompliance,
        Self::ScopeMutationSafety,
        Self::StructuralIntegrity,
        Self::Hallucination,
        Self::OutputContract,
    ];
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    context_file: Spanned<String>,
    order: Spanned<Vec<Spanned<Step>>>,
    outcomes: RawOutcomes,
    responses: RawResponses,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutcomes {
    policy_or_authority_violation: Spanned<Outcome>,
    hallucination_critical_intent: Spanned<Outcome>,
    missing_information: Spanned<Outcome>,
    structural_or_formatting_error: Spanned<Outcome>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawResponses {
    insufficient_context: Spanned<String>,
    scope_exceeded: Spanned<String>,
    authority_violation: Spanned<String>,
    verification_failed: Spanned<String>,
}

/// What the file declares.
pub(super) struct Verification {
    pub context_file: String,
    pub order: Vec<Step>,
    pub outcomes: BTreeMap<FailureClass, Outcome>,
    pub responses: BTreeMap<Response, String>,
}

pub(super) fn load(source: &Source<'_>) -> Result<Verification, ConfigError> {
    let raw: RawFile = source.parse()?;
    let file = raw.context_file.get_ref();
    if !is_plain(file) || file.contains('/') {
        let message = format!("`{file}` cannot be the name of the context file");
        let hint = "it lies at the top of the project: a name without `/`";
        return Err(source.error(raw.context_file.span(), message, hint));
    }
    let order = order(source, raw.order)?;
    let mut outcomes = BTreeMap::new();
    for (class, outcome) in [
        (FailureClass::PolicyOrAuthorityViolation, raw.outcomes.policy_or_authority_violation),
        (FailureClass::HallucinationCriticalIntent, raw.outcomes.hallucination_critical_intent),
        (FailureClass::MissingInformation, raw.outcomes.missing_information),
        (FailureClass::StructuralOrFormattingError, raw.outcomes.structural_or_formatting_error),
    ] {
        if outcome.get_ref().is_success() {
            let hint = "a failure is HALT, ASK_USER or INTERVENTION_REQUIRED";
            return Err(source.error(outcome.span(), "a failure cannot be a PASS", hint));
        }
        outcomes.insert(class, outcome.into_inner());
    }
    let mut responses = BTreeMap::new();
    for (response, text) in [
        (Response::InsufficientContext, raw.responses.insufficient_context),
        (Response::ScopeExceeded, raw.responses.scope_exceeded),
        (Response::AuthorityViolation, raw.responses.authority_violation),
        (Response::VerificationFailed, raw.responses.verification_failed),
    ] {
        let line = text.get_ref();
        let too_long = line.len() > RESPONSE_BYTES_MAX;
        if line.trim().is_empty() || too_long || line.contains(char::is_control) {
            let hint = format!("one line of 1 to {RESPONSE_BYTES_MAX} bytes");
            return Err(source.error(text.span(), "a response says nothing or too much", hint));
        }
        responses.insert(response, text.into_inner());
    }
    Ok(Verification { context_file: raw.context_file.into_inner(), order, outcomes, responses })
}

/// The order names every step exactly once: a step left out would be a check left out.
fn order(source: &Source<'_>, raw: Spanned<Vec<Spanned<Step>>>) -> Result<Vec<Step>, ConfigError> {
    let listed = raw.span();
    let mut order: Vec<Step> = Vec::with_capacity(Step::ALL.len());
    for step in raw.into_inner() {
        if order.contains(step.get_ref()) {
            let message = format!("the step {:?} is listed before", step.get_ref());
            return Err(source.error(step.span(), message, "name every step once"));
        }
        order.push(step.into_inner());
    }
    if let Some(step) = Step::ALL.iter().find(|step| !order.contains(step)) {
        let message = format!("the step {step:?} is left out");
        return Err(source.error(listed, message, "name every step once"));
    }
    Ok(order)
}
