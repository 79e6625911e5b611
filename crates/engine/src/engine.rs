//! The engine: what it is put together from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_connect::Confinement;
use windlass_kernel::run::{Event, Run};
use windlass_kernel::{Digest, RiskLevel, Timestamp, TraceId};
use windlass_policy::{Judgement, Question};
use windlass_runtime::{Gateway, Source};
use windlass_store::Store;

use crate::book::Book;
use crate::checkpointer::Checkpointer;
use crate::error::EngineError;
use crate::find::{Found, RunFilter, Runs};
use crate::hands::Hands;
use crate::repository::Repository;
use crate::stop::Stop;

/// Writes the files that show a run. They follow the journal; nothing is ever decided by them.
pub trait Projector: Send + Sync {
    /// Writes what the newest events of a run have changed; it may be shown the same ones again.
    ///
    /// # Errors
    /// [`EngineError::Unwritable`].
    fn show(&self, run: &Run, events: &[Event]) -> Result<(), EngineError>;

    /// Removes the files of a run's answered holds, or only names them.
    ///
    /// # Errors
    /// [`EngineError::Unwritable`].
    fn drop_holds(&self, run: &Run, dry_run: bool) -> Result<Vec<String>, EngineError> {
        let _ = (run, dry_run);
        Ok(Vec::new())
    }

    /// Checks that the packet of the hold that a run is on is the journal's.
    ///
    /// # Errors
    /// [`EngineError::Packet`] when it is missing, corrupt or edited by hand.
    fn check_hold(&self, run: &Run) -> Result<(), EngineError>;
}

/// Adds what a loop's own rules want on record together with an event.
pub trait Escort: Send + Sync {
    /// The events to record in place of `event`, which is among them. They become durable in one
    /// transaction, all of them or none.
    ///
    /// # Errors
    /// [`EngineError`] when they cannot be told: then the event is not recorded either.
    fn escort(&self, run: &Run, event: Event, now: Timestamp) -> Result<Vec<Event>, EngineError>;
}

/// Brings the gateway for the folder that a run works in.
pub trait Workshop: Send + Sync {
    /// The gateway whose tools work in this folder.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be put together.
    fn gateway(&self, workspace: &Path) -> Result<Arc<Gateway>, EngineError>;

    /// What the programs of loops are confined to in this folder, if they are.
    fn confinement(&self, workspace: &Path) -> Option<Confinement> {
        let _ = workspace;
        None
    }

    /// The registry's class of a tool.
    fn class_of(&self, server: &str, tool: &str) -> Option<RiskLevel>;

    /// What policy says to a call, without it being made; `None` when that cannot be told.
    fn judgement(&self, workspace: &Path, question: &Question) -> Option<Judgement> {
        let _ = (workspace, question);
        None
    }

    /// How many rules and tools there are.
    fn sizes(&self) -> (usize, usize);
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

/// What an engine is put together from.
#[derive(Clone)]
pub struct Parts {
    /// Keeps the journal.
    pub store: Arc<dyn Store>,
    /// Gives time and ids.
    pub source: Arc<dyn Source>,
    /// Perform phases and checks.
    pub hands: Arc<dyn Hands>,
    /// Writes the files that show runs.
    pub projector: Arc<dyn Projector>,
    /// The repository.
    pub place: Arc<dyn Repository>,
    /// Brings gateways.
    pub workshop: Arc<dyn Workshop>,
    /// The stop switch.
    pub stop: Stop,
}

/// Takes runs through their loops.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) hands: Arc<dyn Hands>,
    pub(crate) projector: Arc<dyn Projector>,
    pub(crate) place: Arc<dyn Repository>,
    pub(crate) workshop: Arc<dyn Workshop>,
    pub(crate) stop: Stop,
    pub(crate) settings: Settings,
    pub(crate) escort: Option<Arc<dyn Escort>>,
    pub(crate) keeper: Option<Arc<Checkpointer>>,
}

impl Engine {
    /// Puts an engine together.
    #[must_use]
    pub fn new(parts: Parts, settings: Settings) -> Self {
        let Parts { store, source, hands, projector, place, workshop, stop } = parts;
        Self {
            store,
            source,
            hands,
            projector,
            place,
            workshop,
            stop,
            settings,
            escort: None,
            keeper: None,
        }
    }

    /// Reads runs.
    #[must_use]
    pub fn runs(&self) -> Runs {
        Runs::new(Arc::clone(&self.store))
    }

    /// Finds a run by its name or its trace's id.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when there is none.
    pub fn find(&self, name: &str) -> Result<TraceId, EngineError> {
        self.runs().find(name)
    }

    /// Lists runs, newest first.
    ///
    /// # Errors
    /// [`EngineError`] when the store cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<Found>, EngineError> {
        self.runs().list(filter)
    }

    /// Reads a run as recorded.
    ///
    /// # Errors
    /// [`EngineError`] when there is none, or its trace does not hold together.
    pub fn read(&self, trace_id: TraceId) -> Result<Run, EngineError> {
        self.runs().read(trace_id)
    }

    /// Has every event recorded with what the escort adds to it.
    #[must_use]
    pub fn with_escort(mut self, escort: Arc<dyn Escort>) -> Self {
        self.escort = Some(escort);
        self
    }

    /// Has the checkpoints of runs kept.
    #[must_use]
    pub fn with_keeper(mut self, keeper: Arc<Checkpointer>) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Writes the files that show what was appended last.
    pub(crate) fn show(&self, book: &Book) -> Result<(), EngineError> {
        self.projector.show(book.run(), book.last())
    }

    /// Takes a recorded run over.
    pub(crate) fn open(&self, trace_id: TraceId) -> Result<Book, EngineError> {
        let book = Book::open(&self.store, &self.source, trace_id)?;
        Ok(book.with_escort(self.escort.clone()).with_keeper(self.keeper.clone()))
    }

    /// The stop switch.
    #[must_use]
    pub const fn stop_switch(&self) -> &Stop {
        &self.stop
    }

    /// The folder that a run works in.
    #[must_use]
    pub fn workspace(&self, run: &Run) -> PathBuf {
        let own = run.started.as_ref().and_then(|started| started.worktree.as_ref());
        own.map_or_else(|| self.settings.root.clone(), |own| self.settings.root.join(own))
    }
}
