//! Rules: what they match, and their verdicts.

mod covers;
mod load;

use serde::{Deserialize, Serialize};
use windlass_kernel::RiskLevel;
use windlass_text::Glob;

pub(crate) use covers::{covers, unreachable};
pub(crate) use load::{Example, RawCase, command_globs, load, read_cases};

use crate::Pointer;
use crate::shell::Access;

/// The most rules of a set.
pub const RULES_MAX: usize = 10_000;

/// The verdict on a call, from mild to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The call may happen.
    Allow,
    /// A person decides.
    Ask,
    /// The call must not happen.
    Deny,
}

impl Verdict {
    /// The verdict as policy files write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// One rule of a set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rule {
    pub(crate) id: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    pub(crate) limits: Limits,
    /// The calls that it must match or miss; a set that was loaded before is known to.
    #[serde(skip)]
    pub(crate) examples: Vec<Example>,
}

/// What a call must be like for a rule to match; an empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Limits {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool: Vec<Glob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<RiskLevel>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<Glob>,
    /// Commands that the rule does not match although `command` does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except_command: Vec<Glob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Glob>,
    /// The same globs in lower case, for file systems that ignore case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path_folded: Vec<Glob>,
    /// Paths that the rule does not match although `path` does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except_path: Vec<Glob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except_path_folded: Vec<Glob>,
    pub access: Option<Access>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phase: Vec<Glob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent: Vec<Glob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<(Pointer, Vec<Glob>)>,
}

impl Rule {
    /// Its id, unique in the set.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The file that contains it.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line where it starts.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }

    /// Its verdict.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Its reason, for a person.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}
