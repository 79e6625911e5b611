//! The engine and its parts.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use windlass_journal::{Check, JournalError, Reader, RunFilter, RunListing, Runs};
use windlass_kernel::artifact::PROJECT_WORKSPACE;
use windlass_kernel::run::Run;
use windlass_kernel::{Call, Code, Digest, TraceId};
use windlass_redact::Redactor;
use windlass_runtime::{Clock, Gateway, People};
use windlass_store::Store;

use crate::checkpointer::{Checkpointer, WORKTREES};
use crate::error::EngineError;
use crate::gateway_provider::GatewayProvider;
use crate::hold_packets::HoldPackets;
use crate::phase_executor::PhaseExecutor;
use crate::policy_reader::PolicyReader;
use crate::repository::Repository;
use crate::run_recorder::{EventExpander, Recording, RunObservers, RunRecorder};
use crate::setup::SetupRunner;
use crate::stop::StopSwitch;

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The project's folder.
    pub root: PathBuf,
    /// The project's state folder; recorded paths of work trees are relative to it.
    pub state: PathBuf,
    /// The digest of all policy files, computed once.
    pub policy_hash: Digest,
    /// The name of the person or program that acts, as it is recorded.
    pub by: String,
    /// The folder of the lock files.
    pub locks: PathBuf,
}

/// The parts of an engine.
#[derive(Clone)]
pub struct Parts {
    /// Stores the journal.
    pub store: Arc<dyn Store>,
    /// Provides the time and new ids.
    pub clock: Arc<dyn Clock>,
    /// Performs phases and checks.
    pub executor: Arc<dyn PhaseExecutor>,
    /// See every recorded entry of a run.
    pub observers: Vec<Arc<dyn RunObservers>>,
    /// The hold packets.
    pub packets: Arc<dyn HoldPackets>,
    /// The repository.
    pub repository: Arc<dyn Repository>,
    /// Provides gateways.
    pub gateways: Arc<dyn GatewayProvider>,
    /// The people who decide.
    pub people: Arc<dyn People>,
    /// The stop switch.
    pub stop: StopSwitch,
}

/// Executes runs.
pub struct Engine {
    pub(crate) recording: Recording,
    pub(crate) executor: Arc<dyn PhaseExecutor>,
    pub(crate) packets: Arc<dyn HoldPackets>,
    pub(crate) repository: Arc<dyn Repository>,
    pub(crate) gateways: Arc<dyn GatewayProvider>,
    pub(crate) people: Arc<dyn People>,
    pub(crate) stop: StopSwitch,
    pub(crate) settings: Settings,
    pub(crate) setup_runner: Option<Arc<dyn SetupRunner>>,
    pub(crate) ports: Option<PathBuf>,
    pub(crate) policy: Option<Arc<dyn PolicyReader>>,
}

impl Engine {
    /// Creates an engine from its parts.
    #[must_use]
    pub fn new(parts: Parts, settings: Settings) -> Self {
        let Parts {
            store,
            clock,
            executor,
            observers,
            packets,
            repository,
            gateways,
            people,
            stop,
        } = parts;
        let recording = Recording {
            store,
            clock,
            observers,
            expander: None,
            checkpointer: None,
            redactor: Arc::default(),
        };
        let (setup_runner, ports, policy) = (None, None, None);
        Self {
            recording,
            executor,
            packets,
            repository,
            gateways,
            people,
            stop,
            settings,
            setup_runner,
            ports,
            policy,
        }
    }

    /// The reader of runs.
    #[must_use]
    pub fn runs(&self) -> Runs {
        Runs::new(Arc::clone(&self.recording.store))
    }

    /// Finds a run by its name or trace id.
    ///
    /// # Errors
    /// [`EngineError`] if there is none.
    pub fn find(&self, name: &str) -> Result<TraceId, EngineError> {
        Ok(self.runs().find(name)?)
    }

    /// Lists runs, newest first.
    ///
    /// # Errors
    /// [`EngineError`] if the store cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<RunListing>, EngineError> {
        Ok(self.runs().list(filter)?)
    }

    /// Reads a run.
    ///
    /// # Errors
    /// [`EngineError`] if there is none, or its trace is corrupt.
    pub fn read(&self, trace_id: TraceId) -> Result<Run, EngineError> {
        Ok(self.runs().read(trace_id)?)
    }

    /// Sets the expander, which adds events to every recorded event.
    #[must_use]
    pub fn with_expander(mut self, expander: Arc<dyn EventExpander>) -> Self {
        self.recording.expander = Some(expander);
        self
    }

    /// Sets the runner of setups, and the folder in which all runs of the account claim their ports.
    #[must_use]
    pub fn with_setups(mut self, runner: Arc<dyn SetupRunner>, ports: PathBuf) -> Self {
        self.setup_runner = Some(runner);
        self.ports = Some(ports);
        self
    }

    /// Sets the checkpointer, which creates the checkpoints of runs.
    #[must_use]
    pub fn with_checkpointer(mut self, checkpointer: Arc<Checkpointer>) -> Self {
        self.recording.checkpointer = Some(checkpointer);
        self
    }

    /// Sets the reader of the policy, so that a run has the policy of the files that it uses and ends when one of
    /// them changes.
    #[must_use]
    pub fn with_policy(mut self, policy: Arc<dyn PolicyReader>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Sets the redactor, which takes secrets out of all that is recorded.
    #[must_use]
    pub fn with_redactor(mut self, redactor: Arc<Redactor>) -> Self {
        self.recording.redactor = redactor;
        self
    }

    /// The name of the person or program that acts.
    #[must_use]
    pub fn actor(&self) -> &str {
        &self.settings.by
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.recording.store.as_ref()
    }

    /// Replays a recorded run to the observers: its process may have died before they saw its end.
    pub(crate) fn refresh(&self, trace_id: TraceId) -> Result<(), EngineError> {
        let mut observers = self.recording.observers(trace_id);
        let mut reader = Reader::<Run>::new(trace_id, Check::Verified);
        reader.read(self.store(), &mut observers)?;
        for observer in &mut observers {
            observer.durable(reader.state()).map_err(JournalError::Observer)?;
        }
        Ok(())
    }

    /// Acquires the lease of a recorded run.
    pub(crate) fn open(&self, trace_id: TraceId) -> Result<RunRecorder, EngineError> {
        RunRecorder::open(&self.recording, trace_id)
    }

    /// The workspace of a run.
    #[must_use]
    pub fn workspace(&self, run: &Run) -> PathBuf {
        let own = run.started.as_ref().and_then(|started| started.own_workspace());
        own.map_or_else(|| self.settings.root.clone(), |own| self.settings.state.join(own))
    }

    /// The top of a run's separate work tree, or else its workspace. They differ if the project is a folder of its
    /// repository.
    pub(crate) fn worktree_top(&self, run: &Run) -> PathBuf {
        let own = run.started.as_ref().and_then(|started| started.worktree.as_ref());
        own.map_or_else(|| self.workspace(run), |own| self.settings.state.join(own))
    }

    /// The gateway of the workspace in which a call works.
    pub(crate) fn gateway_of(&self, call: TraceId) -> Result<Arc<Gateway>, EngineError> {
        let state = Reader::<Call>::state_of(self.store(), call, Check::Verified)?;
        let workspace = state.request.map(|(request, _)| request.proposal.workspace);
        self.gateways.gateway(&self.folder_of(workspace.as_deref().unwrap_or_default())?)
    }

    /// The folder of a recorded workspace.
    fn folder_of(&self, workspace: &str) -> Result<PathBuf, EngineError> {
        if workspace == PROJECT_WORKSPACE {
            return Ok(self.settings.root.clone());
        }
        let name = workspace.strip_prefix(WORKTREES).and_then(|name| name.strip_prefix('/'));
        let is_name = |name: &str| {
            let mut parts = Path::new(name).components().peekable();
            parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
        };
        if name.is_some_and(is_name) {
            return Ok(self.settings.state.join(workspace));
        }
        Err(EngineError::Requirement {
            code: Code::StateRecoveryFailed,
            message: format!("`{workspace}` is recorded as a workspace but is not one"),
        })
    }
}

/// The name of a run; empty before it has started.
pub(crate) fn run_name(run: &Run) -> String {
    run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default()
}

/// Fails if a run has ended.
pub(crate) fn refuse_ended(run: &Run) -> Result<(), EngineError> {
    match &run.ended {
        Some(ended) => Err(EngineError::Ended {
            run: run_name(run),
            outcome: ended.outcome.as_str(),
            reason: ended.reason.clone(),
        }),
        None => Ok(()),
    }
}
