//! The four outcomes, and the classes of failure.

use serde::{Deserialize, Serialize};

/// How a phase, a check or a task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// Success.
    Pass,
    /// A person must supply missing information.
    AskUser,
    /// A person must edit the output.
    InterventionRequired,
    /// The task ends here.
    Halt,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pass, Self::AskUser, Self::InterventionRequired, Self::Halt];

    /// The name as the journal writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::AskUser => "ASK_USER",
            Self::InterventionRequired => "INTERVENTION_REQUIRED",
            Self::Halt => "HALT",
        }
    }

    /// Whether this is success: only PASS is.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Pass)
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The class of a failure; the configuration gives the outcome of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// A rule was broken, or a model acted without authority.
    PolicyOrAuthorityViolation,
    /// The output of a critical intent names something that does not exist.
    HallucinationCriticalIntent,
    /// A fact is unknown, or a question is open.
    MissingInformation,
    /// The output is malformed.
    StructuralOrFormattingError,
}

/// The standard response to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// Information is missing.
    InsufficientContext,
    /// The task exceeded its scope.
    ScopeExceeded,
    /// A model worked without authority.
    AuthorityViolation,
    /// The output failed verification.
    VerificationFailed,
}

/// A failure, before the configuration gives its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub class: FailureClass,
    pub response: Response,
    pub reason: String,
}

impl Finding {
    /// A fact is unknown or a question is open.
    pub fn missing(reason: impl Into<String>) -> Self {
        let class = FailureClass::MissingInformation;
        Self { class, response: Response::InsufficientContext, reason: reason.into() }
    }

    /// The task exceeded its scope.
    pub fn scope(reason: impl Into<String>) -> Self {
        let class = FailureClass::PolicyOrAuthorityViolation;
        Self { class, response: Response::ScopeExceeded, reason: reason.into() }
    }

    /// A model or the driver acts without authority.
    pub fn authority(reason: impl Into<String>) -> Self {
        let class = FailureClass::PolicyOrAuthorityViolation;
        Self { class, response: Response::AuthorityViolation, reason: reason.into() }
    }

    /// A rule of the lifecycle is broken.
    pub fn policy(reason: impl Into<String>) -> Self {
        let class = FailureClass::PolicyOrAuthorityViolation;
        Self { class, response: Response::VerificationFailed, reason: reason.into() }
    }

    /// The output is malformed.
    pub fn structural(reason: impl Into<String>) -> Self {
        let class = FailureClass::StructuralOrFormattingError;
        Self { class, response: Response::VerificationFailed, reason: reason.into() }
    }
}
