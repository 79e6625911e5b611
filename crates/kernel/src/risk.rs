//! The risk level of tools.

use serde::{Deserialize, Serialize};

use crate::canon::canonical_names;

/// The risk level of a tool, from the lowest to the highest.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RiskLevel {
    /// Changes nothing.
    Read,
    /// Changes something.
    Write,
    /// Changes something that is hard to undo or has a wide effect.
    HighRisk,
}

impl RiskLevel {
    /// Whether a call at this level changes something and therefore needs an idempotency key.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// The name that artifacts use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::HighRisk => "HIGH_RISK",
        }
    }
}

canonical_names! { RiskLevel }
