//! The files that show holds and checkpoints to people.

use windlass_kernel::run::Run;

use crate::error::EngineError;
use crate::purge::PurgedCheckpoint;

/// The files that show holds and checkpoints of runs to people.
pub trait HoldPackets: Send + Sync {
    /// Checks that the packet of a run's hold matches the journal.
    ///
    /// # Errors
    /// [`EngineError::Packet`] if it is missing, corrupt or was edited.
    fn check(&self, run: &Run) -> Result<(), EngineError>;

    /// Removes the packets of a run's answered holds and returns their names; a dry run removes none.
    ///
    /// # Errors
    /// [`EngineError`] if a file cannot be removed.
    fn remove(&self, run: &Run, dry_run: bool) -> Result<Vec<String>, EngineError>;

    /// Removes the files that show purged checkpoints, and returns how many there were; a dry run removes none.
    ///
    /// # Errors
    /// [`EngineError`] if a file cannot be removed.
    fn remove_checkpoints(
        &self,
        purged: &[PurgedCheckpoint],
        dry_run: bool,
    ) -> Result<u64, EngineError>;
}
