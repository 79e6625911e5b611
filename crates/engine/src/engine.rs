//! The engine: what it is put together from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_connect::Confinement;
use windlass_journal::{Check, JournalError, Reader, RunFilter, RunListing, Runs};
use windlass_kernel::run::Run;
use windlass_kernel::{Digest, RiskLevel, TraceId};
use windlass_policy::{Judgement, Question};
use windlass_runtime::{Clock, Gateway};
use windlass_store::Store;

use crate::checkpointer::Checkpointer;
use crate::error::EngineError;
use crate::phase_executor::PhaseExecutor;
use crate::repository::Repository;
use crate::run_recorder::{EventExpander, Recording, RunObservers, RunRecorder};
use crate::stop::Stop;

/// The files in which people see the holds of runs.
pub trait HoldPackets: Send + Sync {
    /// Checks that the packet of a run's hold says what the journal says.
    ///
    /// # Errors
    /// [`EngineError::Packet`] when it is missing, corrupt or was edited.
    fn check(&self, run: &Run) -> Result<(), EngineError>;

    /// Removes the packets of a run's answered holds, or only names them.
    ///
    /// # Errors
    /// [`EngineError`] when a file cannot be removed.
    fn remove(&self, run: &Run, dry_run: bool) -> Result<Vec<String>, EngineError>;
}

/// Brings the gateway for the folder that a run works in.
pub trait GatewayProvider: Send + Sync {
    /// The gateway whose tools work in this folder.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be put together.
    fn gateway(&self, workspace: &Path) -> Result<Arc<Gateway>, EngineError>;

    /// What the programs of loops are confined to in this folder, if they are.
    fn confinement(&self, workspace: &Path) -> Option<Confinement>;

    /// The registry's class of a tool.
    fn class_of(&self, server: &str, tool: &str) -> Option<RiskLevel>;

    /// What policy says to a call, without it being made; `None` when that cannot be told.
    fn judgement(&self, workspace: &Path, question: &Question) -> Option<Judgement>;

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
    pub clock: Arc<dyn Clock>,
    /// Perform phases and checks.
    pub executor: Arc<dyn PhaseExecutor>,
    /// See every entry of a run as it is recorded.
    pub observers: Vec<Arc<dyn RunObservers>>,
    /// The files that show holds.
    pub packets: Arc<dyn HoldPackets>,
    /// The repository.
    pub repository: Arc<dyn Repository>,
    /// Brings gateways.
    pub gateways: Arc<dyn GatewayProvider>,
    /// The stop switch.
    pub stop: Stop,
}

/// Takes runs through their loops.
pub struct Engine {
    pub(crate) recording: Recording,
    pub(crate) executor: Arc<dyn PhaseExecutor>,
    pub(crate) packets: Arc<dyn HoldPackets>,
    pub(crate) repository: Arc<dyn Repository>,
    pub(crate) gateways: Arc<dyn GatewayProvider>,
    pub(crate) stop: Stop,
    pub(crate) settings: Settings,
}

impl Engine {
    /// Makes an engine of its parts.
    #[must_use]
    pub fn new(parts: Parts, settings: Settings) -> Self {
        let Parts { store, clock, executor, observers, packets, repository, gateways, stop } =
            parts;
        let recording = Recording { store, clock, observers, expander: None, checkpointer: None };
        Self { recording, executor, packets, repository, gateways, stop, settings }
    }

    /// Reads runs.
    #[must_use]
    pub fn runs(&self) -> Runs {
        Runs::new(Arc::clone(&self.recording.store))
    }

    /// Finds a run by its name or its trace's id.
    ///
    /// # Errors
    /// [`EngineError`] when there is none.
    pub fn find(&self, name: &str) -> Result<TraceId, EngineError> {
        Ok(self.runs().find(name)?)
    }

    /// Lists runs, newest first.
    ///
    /// # Errors
    /// [`EngineError`] when the store cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<RunListing>, EngineError> {
        Ok(self.runs().list(filter)?)
    }

    /// Reads a run as recorded.
    ///
    /// # Errors
    /// [`EngineError`] when there is none, or its trace does not hold together.
    pub fn read(&self, trace_id: TraceId) -> Result<Run, EngineError> {
        Ok(self.runs().read(trace_id)?)
    }

    /// Records every event together with what the expander adds to it.
    #[must_use]
    pub fn with_expander(mut self, expander: Arc<dyn EventExpander>) -> Self {
        self.recording.expander = Some(expander);
        self
    }

    /// Makes the checkpoints of runs.
    #[must_use]
    pub fn with_checkpointer(mut self, checkpointer: Arc<Checkpointer>) -> Self {
        self.recording.checkpointer = Some(checkpointer);
        self
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.recording.store.as_ref()
    }

    /// Shows a recorded run to the observers: its process may have died before they had seen its end.
    pub(crate) fn refresh(&self, trace_id: TraceId) -> Result<(), EngineError> {
        let mut observers = self.recording.observers(trace_id);
        let mut reader = Reader::<Run>::new(trace_id, Check::Verified);
        reader.read(self.store(), &mut observers)?;
        for observer in &mut observers {
            observer.durable(reader.state()).map_err(JournalError::Observer)?;
        }
        Ok(())
    }

    /// Acquires a recorded run.
    pub(crate) fn open(&self, trace_id: TraceId) -> Result<RunRecorder, EngineError> {
        RunRecorder::open(&self.recording, trace_id)
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
