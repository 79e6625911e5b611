//! Parses `driver/verification.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Spanned;
use windlass_text::{FileError, SourceFile};

use super::FORM_HINT;
use crate::paths::is_plain;
use crate::{FailureClass, Outcome, Response};

const RESPONSE_BYTES_MAX: usize = 200;

/// One step of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationStep {
    /// The output answers the intent that was asked for.
    IntentAlignment,
    /// The model that answered is allowed for the intent.
    ModelAuthority,
    /// The project's context file was present and respected.
    ContextCompliance,
    /// Only allowed files have changed.
    ScopeMutationSafety,
    /// The output is well formed.
    StructuralIntegrity,
    /// The paths, symbols and citations in the output exist.
    Hallucination,
    /// The output has the declared keys.
    OutputContract,
}

impl VerificationStep {
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
    order: Spanned<Vec<Spanned<VerificationStep>>>,
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

/// The content of the file.
pub(super) struct Verification {
    pub context_file: String,
    pub order: Vec<VerificationStep>,
    pub outcomes: BTreeMap<FailureClass, Outcome>,
    pub responses: BTreeMap<Response, String>,
}

pub(super) fn load(source: &SourceFile<'_>) -> Result<Verification, FileError> {
    let raw: RawFile = source.parse_toml(FORM_HINT)?;
    let file = raw.context_file.get_ref();
    if !is_plain(file) || file.contains('/') {
        let message = format!("`{file}` cannot be the name of the context file");
        let hint = "use a file name without `/`: the file is at the top of the project";
        return Err(source.error(raw.context_file.span(), message).with_hint(hint));
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
            let hint = "use HALT, ASK_USER or INTERVENTION_REQUIRED";
            return Err(source
                .error(outcome.span(), "a failure cannot have the outcome PASS")
                .with_hint(hint));
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
            return Err(source
                .error(text.span(), "a response is empty, too long, or not one line")
                .with_hint(hint));
        }
        responses.insert(response, text.into_inner());
    }
    Ok(Verification { context_file: raw.context_file.into_inner(), order, outcomes, responses })
}

/// Checks that the order names every step exactly once: a missing step would skip a check.
fn order(
    source: &SourceFile<'_>,
    raw: Spanned<Vec<Spanned<VerificationStep>>>,
) -> Result<Vec<VerificationStep>, FileError> {
    let listed = raw.span();
    let mut order: Vec<VerificationStep> = Vec::with_capacity(VerificationStep::ALL.len());
    for step in raw.into_inner() {
        if order.contains(step.get_ref()) {
            let message = format!("the step {:?} is listed twice", step.get_ref());
            return Err(source.error(step.span(), message).with_hint("name every step once"));
        }
        order.push(step.into_inner());
    }
    if let Some(step) = VerificationStep::ALL.iter().find(|step| !order.contains(step)) {
        let message = format!("the step {step:?} is missing");
        return Err(source.error(listed, message).with_hint("name every step once"));
    }
    Ok(order)
}
