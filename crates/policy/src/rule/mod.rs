//! Rules: what they match and how strict they are.

mod covers;
mod load;

use serde::{Deserialize, Serialize};
use windlass_kernel::RiskLevel;

pub(crate) use covers::unreachable;
pub(crate) use load::{Example, RawCase, load, read_cases};

use crate::Pointer;
use crate::glob::Glob;
use crate::shell::Access;

/// The most rules of a set.
pub const RULES_MAX: usize = 10_000;

/// The answer to a question, from mild to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It may happen.
    Allow,
    /// A person decides.
    Ask,
    /// It must not happen.
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
#[derive(Clone, Debug)]
pub struct Rule {
    pub(crate) id: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    pub(crate) limits: Limits,
    pub(crate) examples: Vec<Example>,
}

/// What a rule demands; an empty list demands nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limits {
    pub tool: Vec<Glob>,
    pub class: Vec<RiskLevel>,
    pub command: Vec<Glob>,
    pub path: Vec<Glob>,
    /// The same globs for a file system that folds case.
    pub path_folded: Vec<Glob>,
    pub access: Option<Access>,
    pub phase: Vec<Glob>,
    pub agent: Vec<Glob>,
    pub args: Vec<(Pointer, Vec<Glob>)>,
}

impl Rule {
    /// Its name, unique in the set.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The file it stands in.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line it starts at.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }

    /// How strict it is.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why it is there, for a person.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What it demands, for a person: one `name = globs` each.
    #[must_use]
    pub fn limits(&self) -> Vec<String> {
        let limits = &self.limits;
        let mut shown = Vec::new();
        let mut list = |name: &str, globs: &[Glob]| {
            if !globs.is_empty() {
                let texts: Vec<&str> = globs.iter().map(Glob::text).collect();
                shown.push(format!("{name} = {}", texts.join(", ")));
            }
        };
        list("tool", &limits.tool);
        list("command", &limits.command);
        list("path", &limits.path);
        list("phase", &limits.phase);
        list("agent", &limits.agent);
        for (pointer, globs) in &limits.args {
            list(&format!("args {}", pointer.text()), globs);
        }
        if !limits.class.is_empty() {
            let texts: Vec<&str> = limits.class.iter().map(|class| class.as_str()).collect();
            shown.push(format!("class = {}", texts.join(", ")));
        }
        if let Some(access) = limits.access {
            let text = if access == Access::Read { "read" } else { "write" };
            shown.push(format!("access = {text}"));
        }
        shown
    }
}
