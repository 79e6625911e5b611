//! What survives a process: the journal, what was done outside, the clock, a folder with locks and
//! the stop switch. Processes are engines over it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use windlass_connect::Connect;
use windlass_engine::{
    Engine, EngineError, GatewayProvider, HoldPackets, NewRun, Parts, PhaseExecutor,
    PurgedCheckpoint, Repository, RunObservers, Settings, StopSwitch,
};
use windlass_journal::{Observer, ObserverError, Origin, RunFilter, Runs, Step};
use windlass_kernel::run::plan::Plan;
use windlass_kernel::run::{Event, PhaseStatus, Run, RunEvent};
use windlass_kernel::{Code, Digest, Machine, State, TraceId};
use windlass_runtime::{Clock, Gateway, Settings as GatewaySettings};
use windlass_store::{Shared, Store};
use windlass_testkit::engine::{FakeRepository, OneGateway};
use windlass_testkit::gateway::{self, Meddled, TestSupervisor};
use windlass_testkit::recorded_events;
use windlass_views::RunSummary;
use windlass_views::checkpoints::Checkpoints;

use crate::crash::{Life, Mortal, MortalConnect};
use crate::phase_executor::{FakeExecutor, Oracle, Piece, SharedLog, except};

/// A world; its clones are the same world.
#[derive(Clone)]
pub struct World {
    pub base: gateway::World,
    pub log: SharedLog,
    pub folder: Arc<TempDir>,
    pub repository: Arc<FakeRepository>,
    pub shown: Shown,
    pub policy: Digest,
}

/// Files that are not written, only counted.
#[derive(Clone, Default)]
pub struct Shown {
    pub kinds: Arc<Mutex<Vec<&'static str>>>,
    pub bad_packet: Arc<AtomicBool>,
    pub unwritable: Arc<AtomicBool>,
}

/// The observer of one run: it counts what has become durable.
struct Showing {
    shown: Shown,
    kinds: Vec<&'static str>,
}

impl RunObservers for Shown {
    fn observe(&self, _: TraceId) -> Box<dyn Observer<Run>> {
        Box::new(Showing { shown: self.clone(), kinds: Vec::new() })
    }
}

impl Observer<Run> for Showing {
    fn before(&mut self, _: &Run, _: &RunEvent) {}

    fn after(&mut self, step: &Step<'_, Run>) {
        if step.origin == Origin::Appended {
            self.kinds.push(step.artifact.event.kind());
        }
    }

    fn durable(&mut self, _: &Run) -> Result<(), ObserverError> {
        if self.shown.unwritable.load(Ordering::SeqCst) {
            let source = std::io::Error::other("the disk is full");
            let error = EngineError::Unwritable { path: "packet".to_owned(), source };
            return Err(error.into_observer_error());
        }
        self.shown.kinds.lock().unwrap().append(&mut self.kinds);
        Ok(())
    }
}

impl HoldPackets for Shown {
    fn remove_checkpoints(&self, _: &[PurgedCheckpoint], _: bool) -> Result<u64, EngineError> {
        Ok(0)
    }

    fn remove(&self, _: &Run, _: bool) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }

    fn check(&self, _: &Run) -> Result<(), EngineError> {
        if !self.bad_packet.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(EngineError::Packet {
            code: Code::StateChecksumMismatch,
            path: "CP.yaml".to_owned(),
            what: "was edited by hand".to_owned(),
        })
    }
}

/// What a process of a world is made of.
pub struct Process {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub gateways: Arc<dyn GatewayProvider>,
}

impl World {
    pub fn new() -> Self {
        Self {
            base: gateway::World::default(),
            log: SharedLog::default(),
            folder: Arc::new(tempfile::tempdir().unwrap()),
            repository: Arc::default(),
            shown: Shown::default(),
            policy: Digest::of(b"policy"),
        }
    }

    /// A world of its own that goes on where this one stands.
    pub fn fork(&self) -> Self {
        let log = self.log.lock().unwrap().clone();
        Self {
            base: self.base.fork(),
            log: Arc::new(Mutex::new(log)),
            shown: Shown::default(),
            repository: Arc::default(),
            ..self.clone()
        }
    }

    pub fn shared(&self) -> &Shared {
        &self.base.shared
    }

    /// Lets time pass.
    pub fn pass_ms(&self, ms: u64) {
        self.base.clock.pass(Duration::from_millis(ms));
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn stop_folder(&self) -> PathBuf {
        self.root().join("stop")
    }

    pub fn stop(&self) -> StopSwitch {
        StopSwitch::new(self.stop_folder())
    }

    /// Begins a process.
    pub fn process(&self, life: &Arc<Life>) -> Process {
        let store: Arc<dyn Store> =
            Arc::new(Meddled::new(Arc::new(self.base.store()), Mortal(Arc::clone(life))));
        let clock: Arc<dyn Clock> = Arc::clone(&self.base.clock) as Arc<_>;
        let connect = MortalConnect { tools: SharedTools(self.clone()), life: Arc::clone(life) };
        let gateway = Gateway::new(
            Arc::clone(&store),
            Arc::new(TestSupervisor::default()),
            Arc::new(connect),
            Arc::clone(&clock),
            GatewaySettings { key_wait: Duration::ZERO, ..GatewaySettings::default() },
            ".",
        );
        let gateways = Arc::new(OneGateway(Arc::new(gateway)));
        Process { store, clock, gateways }
    }

    /// An engine of a process with this executor and this repository.
    pub fn engine_of(
        &self,
        process: &Process,
        executor: Arc<dyn PhaseExecutor>,
        repository: Arc<dyn Repository>,
    ) -> Engine {
        let parts = Parts {
            store: Arc::clone(&process.store),
            clock: Arc::clone(&process.clock),
            executor,
            observers: vec![Arc::new(self.shown.clone())],
            packets: Arc::new(self.shown.clone()),
            repository,
            gateways: Arc::clone(&process.gateways),
            people: Arc::new(windlass_testkit::people::Everybody),
            stop: self.stop(),
        };
        let settings = Settings {
            root: self.root().to_owned(),
            policy_hash: self.policy,
            by: "the engine".to_owned(),
            locks: self.root().join("locks"),
            state: self.root().join(".windlass"),
        };
        Engine::new(parts, settings)
    }

    /// An engine with the fake executor.
    pub fn fake(&self, life: &Arc<Life>, oracle: Arc<Oracle>) -> Engine {
        self.fake_with(life, oracle, Arc::new(|_: &Piece| {}))
    }

    pub fn fake_with(
        &self,
        life: &Arc<Life>,
        oracle: Arc<Oracle>,
        during: Arc<dyn Fn(&Piece) + Send + Sync>,
    ) -> Engine {
        let executor = FakeExecutor { world: self.clone(), life: Arc::clone(life), oracle, during };
        let repository = Arc::clone(&self.repository) as Arc<_>;
        self.engine_of(&self.process(life), Arc::new(executor), repository)
    }

    /// An engine that lives on and whose executor does well, but for these.
    pub fn engine(&self, list: &[(&str, u32, crate::phase_executor::Act)]) -> Engine {
        self.fake(&Life::until(None), except(list))
    }

    /// The traces of runs, oldest first.
    pub fn runs(&self) -> Vec<(TraceId, State)> {
        let mut runs = Vec::new();
        self.shared().tamper(|tables| {
            runs = tables
                .traces
                .values()
                .filter_map(|trace| Some((trace.head.trace_id, trace.head.state?)))
                .filter(|(_, state)| state.machine() == Machine::Run)
                .collect();
        });
        runs
    }

    /// The events of a run as they are durable.
    pub fn events(&self, trace_id: TraceId) -> Vec<Event> {
        recorded_events(self.shared(), trace_id, 0)
    }

    /// The events of the only run but its first, which is the largest.
    pub fn later_events(&self) -> Vec<Event> {
        let run = self.runs().first().map(|(trace_id, _)| *trace_id);
        run.map(|trace_id| recorded_events(self.shared(), trace_id, 1)).unwrap_or_default()
    }

    /// The events of the only run.
    pub fn only_events(&self) -> Vec<Event> {
        self.runs().first().map(|(trace_id, _)| self.events(*trace_id)).unwrap_or_default()
    }

    /// The journal's kinds, of the only run.
    pub fn kinds(&self) -> Vec<&'static str> {
        self.only_events().iter().map(Event::kind).collect()
    }

    /// What was done outside, as `phase`, `phase/check` and try.
    pub fn deeds(&self) -> Vec<String> {
        let log = self.log.lock().unwrap();
        assert_eq!(log.faults, Vec::<String>::new());
        let name = |piece: &Piece| match &piece.1 {
            Some(check) => format!("{}/{check} {}", piece.0, piece.2),
            None => format!("{} {}", piece.0, piece.2),
        };
        log.deeds.iter().map(|deed| name(&deed.piece)).collect()
    }

    /// The checkpoints of the runs.
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(Arc::new(self.base.store()))
    }

    /// Every trace of the store is intact.
    pub fn verify(&self) {
        let store = self.base.store();
        let verification = windlass_journal::verify_store(&store, &mut |_| {}).unwrap();
        assert_eq!(verification.problems, Vec::new());
        let runs = Runs::new(Arc::new(store));
        let all = RunFilter { open_only: false, state: None, limit: usize::MAX };
        for found in runs.list(&all).unwrap() {
            let whole = runs.read(found.trace.head.trace_id).unwrap();
            assert_summary(&RunSummary::read(runs.store(), &found.trace.head).unwrap(), &whole);
        }
    }
}

/// What a list shows of a run, from its ends, is what all of it tells.
pub fn assert_summary(summary: &RunSummary, run: &Run) {
    let at_work: Vec<&str> = run
        .all_phases()
        .filter(|(_, state)| state.status == PhaseStatus::Running)
        .map(|(phase, _)| phase.id.as_str())
        .collect();
    let expected = RunSummary::of(run);
    // Of several that are at work it is the last to begin; when none is, the last that was.
    let phase = summary.phase.as_deref();
    if run.head.state == Some(State::Running) && !at_work.is_empty() {
        assert!(phase.is_some_and(|phase| at_work.contains(&phase)), "{phase:?} of {at_work:?}");
    }
    assert_eq!(RunSummary { phase: expected.phase.clone(), ..summary.clone() }, expected);
}

/// The testkit's tools.
struct SharedTools(World);

impl Connect for SharedTools {
    fn perform(&self, job: &windlass_connect::Job<'_>) -> windlass_connect::Reply {
        self.0.base.tools.perform(job)
    }

    fn foresee(
        &self,
        target: &windlass_connect::Target,
        tool: &str,
        args: &serde_json::Value,
    ) -> Option<windlass_kernel::artifact::FileChange> {
        self.0.base.tools.foresee(target, tool, args)
    }
}

/// A new run of a plan.
pub fn new_run(plan: Plan) -> NewRun {
    NewRun::new(plan, Digest::of(b"loop"), json!({"task": "change something"}))
}

/// The trace of a run.
pub const fn trace(run: &Run) -> TraceId {
    run.head.trace_id
}

/// How a run ended, and why.
pub fn end(run: &Run) -> (&'static str, &str) {
    let ended = run.ended.as_ref().unwrap();
    (ended.outcome.as_str(), ended.reason.as_str())
}
