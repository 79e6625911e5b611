//! Checks and gates: what judges a phase, and what follows from each verdict.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plan::{Doer, Effect};
use crate::digest::Digest;
use crate::entry::present;

/// A check before or after the work of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Before, after or during the work.
    pub at: CheckTiming,
    /// The executor; its answer has a `verdict`.
    pub doer: Doer,
    /// The id, unique in the phase.
    pub id: String,
    /// The files and folders that the program of the check gets as they were at the start of the run; those
    /// that the command names if `None`.
    #[serde(deserialize_with = "present")]
    pub pinned: Option<Vec<String>>,
    /// The effect of each verdict; other verdicts are not allowed.
    pub verdicts: BTreeMap<String, Effect>,
}

/// Whether a check is before, after or during the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckTiming {
    /// After the work.
    After,
    /// Before the work.
    Before,
    /// While an agent works: an audit. It judges the calls so far before another one is made.
    During {
        /// Each call is drawn for an audit with this chance, in percent; the run's id decides.
        chance_percent: u32,
        /// After so many calls.
        every: u32,
        /// What the chance is drawn from besides the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seed: Option<Digest>,
    },
}

/// The gate of a phase, which judges by the `verdict` of its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// The id.
    pub id: String,
    /// The effect of each verdict; other verdicts are not allowed.
    pub verdicts: BTreeMap<String, Effect>,
}
