//! What the core loop has to tell the tracker.

use serde::{Deserialize, Serialize};

/// Something that is written to the tracker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// What tells it from others of the session.
    pub key: String,
    /// What it is.
    pub kind: DeliveryKind,
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
}

impl Delivery {
    /// The prompt whose work it belongs to, if it is about one.
    #[must_use]
    pub fn prompt(&self) -> Option<u32> {
        match self.kind {
            DeliveryKind::Work | DeliveryKind::WorkDone | DeliveryKind::Step => {
                self.key.split('/').nth(1)?.parse().ok()
            }
            DeliveryKind::Block
            | DeliveryKind::Reflection
            | DeliveryKind::Learning
            | DeliveryKind::Improvement => None,
        }
    }
}

/// What is written to the tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryKind {
    /// An item for the work of a plan.
    Work,
    /// Its item is done.
    WorkDone,
    /// An item for a block, with the progress and the violation.
    Block,
    /// An item for a reflection.
    Reflection,
    /// An item for a learning.
    Learning,
    /// An item for an improvement.
    Improvement,
    /// A step of a plan has got on.
    Step,
}
