//! A store in memory with runs in it.

use std::sync::Arc;

use serde_json::json;
use windlass_journal::{JournalError, Observer, Recorder};
use windlass_kernel::run::{Event, NoteKind, Run, RunEvent};
use windlass_kernel::{ArtifactId, HolderId, PlanId, TraceId};
use windlass_runtime::Clock;
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::{After, KeyAction, MemoryStore, Shared, Store, Tables};
use windlass_testkit::gateway::TestClock;
use windlass_testkit::plans::{builtin, phase, plan, started};

pub struct World {
    pub shared: Shared,
    clock: TestClock,
    pub store: Arc<dyn Store>,
}

impl World {
    pub fn new() -> Self {
        let (shared, clock) = (Shared::default(), TestClock::default());
        let store = Arc::new(MemoryStore::open(&shared, HolderId(clock.new_id())));
        Self { shared, clock, store }
    }

    /// The handle of another process.
    pub fn process(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::open(&self.shared, HolderId(self.clock.new_id())))
    }

    pub fn new_id(&self) -> TraceId {
        TraceId(self.clock.new_id())
    }

    /// The next event of a run.
    pub fn event(&self, trace_id: TraceId, event: Event) -> RunEvent {
        RunEvent::new(trace_id, ArtifactId(self.clock.new_id()), self.clock.now(), event)
    }

    pub fn started(&self, trace_id: TraceId) -> RunEvent {
        let started = started(plan(vec![phase("a", &[], builtin())]));
        self.event(trace_id, Event::Started(Box::new(started)))
    }

    pub fn note(&self, trace_id: TraceId, number: usize) -> RunEvent {
        let body = json!({ "number": number });
        self.event(trace_id, Event::Noted { what: NoteKind::Telemetry, body })
    }

    /// A recorder of a new run, with its first two entries committed.
    pub fn begin(
        &self,
        store: &Arc<dyn Store>,
        observers: Vec<Box<dyn Observer<Run>>>,
    ) -> Recorder<Run> {
        let trace_id = self.new_id();
        let mut recorder = Recorder::begin(store, trace_id, PlanId(trace_id.0), observers);
        recorder.add(&self.started(trace_id)).unwrap();
        recorder.add(&self.event(trace_id, Event::Begun {})).unwrap();
        recorder.commit(KeyAction::None, After::Keep).unwrap();
        recorder
    }

    /// Adds notes and commits them.
    pub fn add_notes(
        &self,
        recorder: &mut Recorder<Run>,
        count: usize,
    ) -> Result<(), JournalError> {
        let trace_id = recorder.state().head.trace_id;
        for number in 0..count {
            recorder.add(&self.note(trace_id, number))?;
        }
        recorder.commit(KeyAction::None, After::Keep)
    }

    /// A run of so many entries, which nobody holds.
    pub fn run(&self, entries: usize) -> TraceId {
        let mut recorder = self.begin(&self.store, Vec::new());
        self.add_notes(&mut recorder, entries - 2).unwrap();
        recorder.state().head.trace_id
    }

    /// The trace of a completed call.
    pub fn call(&self) -> TraceId {
        let call = Fixture::new().call(Ending::Completed);
        self.store.append(call.create(call.len(), After::Release)).unwrap();
        call.trace_id
    }

    /// The durable data, in a form that can be compared.
    pub fn durable(&self) -> String {
        let Tables { traces, entries, replay_points, .. } = self.shared.tables();
        format!("{traces:#?}{entries:#?}{replay_points:#?}")
    }
}
