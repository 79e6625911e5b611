//! The policy of a run: the files that decide about it, as they are now.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use windlass_kernel::Digest;
use windlass_kernel::run::plan::{Plan, RunOutcome};
use windlass_kernel::run::{Event, Run};

use crate::engine::Engine;
use crate::error::EngineError;

/// The reason with which a run ends whose policy has changed.
const POLICY_CHANGED: &str = "POLICY_CHANGED_MID_RUN";

/// Sizes and times of the policy's files: as long as they are the same, the files are not read again.
pub type PolicyStamp = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// Reads the policy of runs.
pub trait PolicyReader: Send + Sync {
    /// The digest of the files that decide about a run of this plan, as they are now.
    ///
    /// # Errors
    /// [`EngineError`] if a file cannot be read.
    fn hash(&self, plan: &Plan) -> Result<Digest, EngineError>;

    /// The sizes and times of all files that can decide about a run.
    fn stamp(&self) -> PolicyStamp;
}

impl Engine {
    /// The policy hash of a run of this plan, as the files are now.
    pub(crate) fn policy_hash(&self, plan: &Plan) -> Result<Digest, EngineError> {
        match &self.policy {
            Some(reader) => reader.hash(plan),
            None => Ok(self.settings.policy_hash),
        }
    }

    /// Whether the policy of a run is still the one that it began with.
    pub(crate) fn has_its_policy(&self, run: &Run) -> Result<bool, EngineError> {
        let Some(started) = &run.started else { return Ok(false) };
        // Runs of older versions have the digest of all files.
        Ok(started.policy_hash == self.policy_hash(&started.plan)?
            || started.policy_hash == self.settings.policy_hash)
    }
}

/// The end of a run whose policy has changed.
pub(crate) fn end_by_policy() -> Event {
    Event::Ended {
        outcome: RunOutcome::Blocked,
        reason: POLICY_CHANGED.to_owned(),
        detail: "the policy has changed since the run began".to_owned(),
    }
}
