//! How much a tool can do to the world.

use serde::{Deserialize, Serialize};

use crate::canon::canonical_names;

/// The class of a tool, from harmless to dangerous.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RiskLevel {
    /// Changes nothing.
    Read,
    /// Changes something.
    Write,
    /// Changes something that is hard to undo or reaches far.
    HighRisk,
}

impl RiskLevel {
    /// Whether a call of this class changes something and so needs an idempotency key.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// The class as artifacts write it.
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
