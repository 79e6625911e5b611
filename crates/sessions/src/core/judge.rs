//! The agents of the core loop.

use serde::{Deserialize, Serialize};

/// An agent that plans, judges or reflects, and never does the work itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judge {
    /// Turns a prompt into a plan.
    PromptHydrator,
    /// Reviews a plan before it is carried out.
    Critic,
    /// Audits the work while it is done.
    Custodiet,
    /// Verifies the work when it is done.
    QaVerifier,
    /// Reflects on the session.
    Framework,
}

impl Judge {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::PromptHydrator, Self::Critic, Self::Custodiet, Self::QaVerifier, Self::Framework];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PromptHydrator => "prompt-hydrator",
            Self::Critic => "critic",
            Self::Custodiet => "custodiet",
            Self::QaVerifier => "qa-verifier",
            Self::Framework => "framework",
        }
    }

    /// The agent that a client calls so; one of a plugin has the plugin's name in front.
    #[must_use]
    pub fn named(kind: &str) -> Option<Self> {
        let name = kind.rsplit_once(':').map_or(kind, |(_, name)| name);
        Self::ALL.into_iter().find(|judge| judge.as_str() == name)
    }
}
