//! The files that show holds to people.

use windlass_kernel::run::Run;

use crate::error::EngineError;

/// The hold packets of runs: files that show holds to people.
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
}
