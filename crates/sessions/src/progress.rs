//! What is counted during a session, so that each event need not read the whole of it. Nothing but speed is lost with it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use windlass_kernel::Digest;
use windlass_runtime::CallStreak;

use crate::core::CoreProgress;
use crate::note::Unguarded;

/// The progress of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Progress {
    /// The digest of the policy at the last event.
    pub policy: Option<Digest>,
    /// The number of prompts.
    pub prompts: u32,
    /// The calls in a row that lead nowhere.
    pub streak: CallStreak,
    /// The uses of tools that were not asked about.
    pub unguarded: BTreeSet<Unguarded>,
    /// What the agent is told at the next prompt.
    pub tell: Vec<String>,
    /// The state of the core loop.
    pub core: Option<CoreProgress>,
}
