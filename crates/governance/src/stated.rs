//! A rule together with where it is written.

use std::fmt;

use windlass_kernel::run::plan::{OnFailure, Rule, RuleLevel};

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What must be kept to.
    Compliance,
    /// How good the work must be.
    Gate,
}

impl Kind {
    /// The name in files and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compliance => "compliance",
            Self::Gate => "gate",
        }
    }
}

/// Where a rule is written: line and column count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A rule as somebody laid it down.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated {
    /// What it is about.
    pub kind: Kind,
    /// Where.
    pub place: Place,
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

/// The name of what follows in files and messages.
#[must_use]
pub const fn on_failure_name(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Warn => "warn",
        OnFailure::Block => "block",
    }
}
