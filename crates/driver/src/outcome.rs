//! The four outcomes, and what failures come to.

use serde::{Deserialize, Serialize};

/// How a phase, a check or a task ends; there is no fifth way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// It holds; the only success.
    Pass,
    /// Something is missing that a person can give.
    AskUser,
    /// A person has to edit the output.
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

/// What kind of failure a check found; configuration says what each comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// A rule was broken, or someone acted who may not.
    PolicyOrAuthorityViolation,
    /// The output of a critical intent names what does not exist.
    HallucinationCriticalIntent,
    /// A fact is unknown, or a question is open.
    MissingInformation,
    /// The output does not have its form.
    StructuralOrFormattingError,
}

/// What a person is told first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// Something is missing.
    InsufficientContext,
    /// The task touched, or asks for, what it may not.
    ScopeExceeded,
    /// A model worked that may not.
    AuthorityViolation,
    /// The output does not hold.
    VerificationFailed,
}

/// One failure, before configuration says what it comes to.
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

    /// The task touched, or asks for, what it may not.
    pub fn scope(reason: impl Into<String>) -> Self {
        let class = FailureClass::PolicyOrAuthorityViolation;
        Self { class, response: Response::ScopeExceeded, reason: reason.into() }
    }

    /// A model or the driver acts without the right to.
    pub fn authority(reason: impl Into<String>) -> Self {
        let class = FailureClass::PolicyOrAuthorityViolation;
        Self { class, response: Response::AuthorityViolation, reason: reason.into() }
    }

    /// A rule of the lifecycle is broken.
    pub fn policy(reason: impl Into<String>) -> Self {
        let class = FailureClass::PolicyOrAuthorityViolation;
        Self { class, response: Response::VerificationFailed, reason: reason.into() }
    }

    /// The output does not have its form.
    pub fn structural(reason: impl Into<String>) -> Self {
        let class = FailureClass::StructuralOrFormattingError;
        Self { class, response: Response::VerificationFailed, reason: reason.into() }
    }
}
