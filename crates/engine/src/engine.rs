//! The engine: what it is put together from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_kernel::Digest;
use windlass_kernel::run::Run;
use windlass_runtime::{Gateway, Source};
use windlass_store::Store;

use crate::error::EngineError;
use crate::hands::Hands;
use crate::stop::Stop;

/// Writes the files that show a run. They follow the journal; nothing is ever decided by them.
pub trait Projector: Send + Sync {
    /// Writes what the last entry of a run has changed.
    ///
    /// # Errors
    /// [`EngineError::Unwritable`].
    fn show(&self, run: &Run) -> Result<(), EngineError>;

    /// Checks that the packet of the hold that a run is on is the journal's.
    ///
    /// # Errors
    /// [`EngineError::Packet`] when it is missing, corrupt or edited by hand.
    fn check_hold(&self, run: &Run) -> Result<(), EngineError>;
}

/// The project's repository, as far as runs need it.
pub trait Place: Send + Sync {
    /// Where the repository stands; `None` when it is not one, or has no commit.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] when that cannot be told.
    fn base(&self, workspace: &Path) -> Result<Option<windlass_kernel::run::Base>, EngineError>;

    /// Refuses a workspace with changes or untracked files.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] with the code `REPO_DIRTY`, or when that cannot be told.
    fn require_clean(&self, workspace: &Path) -> Result<(), EngineError>;

    /// Refuses a workspace that is not just as the run left it.
    ///
    /// # Errors
    /// [`EngineError::Requirement`] with the code `REPO_DIRTY`, or when that cannot be told.
    fn require_as_left(&self, workspace: &Path, run: &Run) -> Result<(), EngineError>;

    /// Makes a work tree of its own for a run; returns its path relative to the project.
    ///
    /// # Errors
    /// [`EngineError`] when git refuses.
    fn make_worktree(
        &self,
        run_id: &str,
        base: &windlass_kernel::run::Base,
    ) -> Result<String, EngineError>;
}

/// What the engine can be told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The project's folder.
    pub root: PathBuf,
    /// The digest of everything that decides, computed once.
    pub policy_hash: Digest,
    /// Who acts, for the record.
    pub by: String,
    /// The folder of the lock files.
    pub locks: PathBuf,
}

/// Takes runs through their loops.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) hands: Arc<dyn Hands>,
    pub(crate) projector: Arc<dyn Projector>,
    pub(crate) place: Arc<dyn Place>,
    pub(crate) gateway: Option<Arc<Gateway>>,
    pub(crate) stop: Stop,
    pub(crate) settings: Settings,
}

impl Engine {
    /// Puts an engine together; the gateway decides calls that runs wait for.
    #[expect(
        clippy::too_many_arguments,
        reason = "each part is named at the only place that builds it"
    )]
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        source: Arc<dyn Source>,
        hands: Arc<dyn Hands>,
        projector: Arc<dyn Projector>,
        place: Arc<dyn Place>,
        gateway: Option<Arc<Gateway>>,
        stop: Stop,
        settings: Settings,
    ) -> Self {
        Self { store, source, hands, projector, place, gateway, stop, settings }
    }

    /// The folder that a run works in.
    #[must_use]
    pub fn workspace(&self, run: &Run) -> PathBuf {
        let own = run.started.as_ref().and_then(|started| started.worktree.as_ref());
        own.map_or_else(|| self.settings.root.clone(), |own| self.settings.root.join(own))
    }
}
