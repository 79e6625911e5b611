//! How long checkpoints are kept: the settings of a project.

use std::collections::BTreeMap;

use serde::Deserialize;
use windlass_engine::GateRetention;

/// What `checkpoint purge` keeps if its options do not say it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// Checkpoints that are not older than this many days.
    pub days: u32,
    /// The newest checkpoints of each run.
    pub keep: usize,
    /// What differs for the checkpoints of gates, by the gate's id.
    pub gates: BTreeMap<String, GateSettings>,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self { days: 30, keep: 5, gates: BTreeMap::new() }
    }
}

/// How long the checkpoints of one gate are kept.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GateSettings {
    /// Those that are not older than this many days.
    days: Option<u32>,
    /// The newest of this gate in each run.
    keep: Option<usize>,
    /// Whether approved ones are purged too.
    approved: Option<bool>,
}

/// The maximum of days: a hundred years.
const DAYS_MAX: u32 = 36_500;

impl RetentionSettings {
    /// What the engine keeps of gates.
    pub fn gates(&self) -> BTreeMap<String, GateRetention> {
        let gates = self.gates.iter().map(|(id, own)| {
            let GateSettings { days, keep, approved } = *own;
            (id.clone(), GateRetention { days, keep, approved })
        });
        gates.collect()
    }

    /// Fails if a number is too large, or a gate has no settings.
    pub fn check(&self) -> Result<(), String> {
        if self.days > DAYS_MAX {
            return Err(format!("`retention.days` must be at most {DAYS_MAX}"));
        }
        for (id, own) in &self.gates {
            if own.days.is_some_and(|days| days > DAYS_MAX) {
                return Err(format!("`retention.gates.{id}.days` must be at most {DAYS_MAX}"));
            }
            if own.days.is_none() && own.keep.is_none() && own.approved.is_none() {
                return Err(format!(
                    "`retention.gates.{id}` is empty: it may have `days`, `keep` and `approved`"
                ));
            }
        }
        Ok(())
    }
}
