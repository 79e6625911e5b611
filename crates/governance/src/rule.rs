//! A rule and its location.

use windlass_kernel::run::plan::{OnFailure, Rule, RuleLevel};
use windlass_text::Location;

/// The two kinds of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleKind {
    /// A requirement that must be met.
    Compliance,
    /// A measure of the quality of work.
    Gate,
}

impl RuleKind {
    /// The name in files and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compliance => "compliance",
            Self::Gate => "gate",
        }
    }
}

/// A rule and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct LocatedRule {
    /// Its kind.
    pub kind: RuleKind,
    /// Where.
    pub location: Location,
    /// The rule; its level is the file's.
    pub rule: Rule,
}

/// The name of a level in files and messages.
#[must_use]
pub const fn level_name(level: RuleLevel) -> &'static str {
    match level {
        RuleLevel::Universal => "universal",
        RuleLevel::Organisation => "organisation",
        RuleLevel::Project => "project",
        RuleLevel::Loop => "loop",
    }
}

/// The name of `on_failure` in files and messages.
#[must_use]
pub const fn on_failure_name(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Warn => "warn",
        OnFailure::Block => "block",
    }
}
