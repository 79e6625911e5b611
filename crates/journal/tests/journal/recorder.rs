//! What a recorder writes, and when it refuses to go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_journal::{Check, JournalError, Reader, Recorder, replay, verify_store, verify_trace};
use windlass_kernel::run::{Event, Run};
use windlass_kernel::{
    ChainError, Code, PlanId, ReplayPoint, ReplayPointState, Timestamp, TraceId, Uuid7,
};
use windlass_store::{
    After, Append, AppendError, Appended, KeyAction, Store, StoreError, TraceState,
};
use windlass_testkit::gateway::{Meddle, Meddled};

use crate::world::World;

/// A store whose appends fail while the switch is on.
struct FailingAppend(Arc<AtomicBool>);

impl Meddle for FailingAppend {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        if self.0.load(Ordering::SeqCst) {
            return Err(StoreError::Full { operation: "append" }.into());
        }
        inner.append(append)
    }
}

fn trace_of(recorder: &Recorder<Run>) -> TraceId {
    recorder.state().head.trace_id
}

fn is_stale<T>(result: Result<T, JournalError>) -> bool {
    matches!(result, Err(JournalError::Stale { .. }))
}

/// A stale recorder does nothing more, and what it holds in memory is not durable.
fn assert_refuses(world: &World, recorder: &mut Recorder<Run>, durable: &str) {
    let trace_id = trace_of(recorder);
    assert!(is_stale(recorder.add(&world.note(trace_id, 99))));
    assert!(is_stale(recorder.commit(KeyAction::None, After::Keep)));
    assert_eq!(
        recorder.commit(KeyAction::None, After::Release).unwrap_err().code(),
        Code::StateConcurrentExecution
    );
    assert_eq!(world.durable(), durable);
}

#[test]
fn after_a_failed_commit_nothing_is_half_written_and_the_trace_is_read_again() {
    let world = World::new();
    let fail = Arc::new(AtomicBool::new(false));
    let failing = FailingAppend(Arc::clone(&fail));
    let store: Arc<dyn Store> = Arc::new(Meddled::new(Arc::clone(&world.store), failing));
    let mut recorder = world.begin(&store, Vec::new());
    let (trace_id, durable) = (trace_of(&recorder), world.durable());
    fail.store(true, Ordering::SeqCst);
    let error = world.add_notes(&mut recorder, 2).unwrap_err();
    assert!(matches!(error, JournalError::Store(StoreError::Full { .. })), "{error:?}");
    // The state is ahead of the journal, and stays refused when the store works again.
    assert_eq!(recorder.state().head.sequence_number, 4);
    fail.store(false, Ordering::SeqCst);
    assert_refuses(&world, &mut recorder, &durable);
    drop(recorder);
    let mut again = Recorder::<Run>::open(&world.process(), trace_id, Vec::new()).unwrap();
    assert_eq!(again.state().head.sequence_number, 2);
    world.add_notes(&mut again, 1).unwrap();
    drop(again);
    let run: Run = Reader::state_of(world.store.as_ref(), trace_id, Check::Verified).unwrap();
    assert_eq!((run.head.sequence_number, run.notes.len()), (3, 1));
}

#[test]
fn a_new_trace_whose_first_commit_failed_does_not_exist() {
    let world = World::new();
    let failing = FailingAppend(Arc::new(AtomicBool::new(true)));
    let store: Arc<dyn Store> = Arc::new(Meddled::new(Arc::clone(&world.store), failing));
    let trace_id = world.new_id();
    let mut recorder = Recorder::<Run>::begin(&store, trace_id, PlanId(trace_id.0), Vec::new());
    recorder.add(&world.started(trace_id)).unwrap();
    recorder.commit(KeyAction::None, After::Keep).unwrap_err();
    drop(recorder);
    let state = world.store.load_state(trace_id);
    assert!(matches!(state, Err(StoreError::NotFound { .. })), "{state:?}");
}

#[test]
fn an_event_that_cannot_follow_is_not_written() {
    let world = World::new();
    let mut recorder = world.begin(&world.store, Vec::new());
    let (trace_id, durable) = (trace_of(&recorder), world.durable());
    let impossible = Event::PhaseStarted { phase: "unknown".into(), attempt: 1 };
    let error = recorder.add(&world.event(trace_id, impossible)).unwrap_err();
    assert!(matches!(error, JournalError::Rejected { .. }), "{error:?}");
    assert_refuses(&world, &mut recorder, &durable);
}

#[test]
fn entries_are_durable_only_with_their_commit() {
    let world = World::new();
    let mut recorder = world.begin(&world.store, Vec::new());
    let trace_id = trace_of(&recorder);
    let durable = world.durable();
    recorder.add(&world.note(trace_id, 0)).unwrap();
    let snapshot = recorder.snapshot();
    recorder.add(&world.note(trace_id, 1)).unwrap();
    assert_eq!(world.durable(), durable);
    recorder.commit(KeyAction::None, After::Release).unwrap();
    assert_eq!((snapshot.notes.len(), recorder.state().notes.len()), (1, 2));
    let TraceState { head, holder, plan_id, .. } = world.store.load_state(trace_id).unwrap();
    assert_eq!((head, holder), (recorder.state().head, None));
    assert_eq!((plan_id, recorder.plan_id()), (PlanId(trace_id.0), PlanId(trace_id.0)));
    assert_eq!(recorder.into_state().head.sequence_number, 4);
}

#[test]
fn a_recorder_holds_its_trace_until_it_is_dropped() {
    let world = World::new();
    let recorder = world.begin(&world.store, Vec::new());
    let (trace_id, other) = (trace_of(&recorder), world.process());
    let held = Recorder::<Run>::open(&other, trace_id, Vec::new()).err().unwrap();
    assert!(matches!(held, JournalError::Held(_)), "{held:?}");
    drop(recorder);
    drop(Recorder::<Run>::open(&other, trace_id, Vec::new()).unwrap());
    let lease = world.store.acquire(trace_id).unwrap();
    let resumed = Recorder::<Run>::resume(&world.store, lease, Vec::new()).unwrap();
    assert_eq!(resumed.state().head.sequence_number, 2);
}

#[test]
fn a_holder_whose_lease_was_taken_over_writes_nothing() {
    let world = World::new();
    let mut old = world.begin(&world.store, Vec::new());
    let trace_id = trace_of(&old);
    // As if the first process were dead.
    world.shared.tamper(|tables| tables.traces.get_mut(&trace_id).unwrap().holder = None);
    let process = world.process();
    let mut new = Recorder::<Run>::open(&process, trace_id, Vec::new()).unwrap();
    let durable = world.durable();
    let error = world.add_notes(&mut old, 1).unwrap_err();
    assert!(matches!(error, JournalError::Append(AppendError::Fenced { .. })), "{error:?}");
    assert_refuses(&world, &mut old, &durable);
    let redispatch = windlass_store::conformance::fixture::Fixture::new().redispatch(1);
    old.record_redispatch(&redispatch).unwrap_err();
    // To drop the old recorder does not release the lease of the new one.
    drop(old);
    assert_eq!(world.durable(), durable);
    world.add_notes(&mut new, 1).unwrap();
    assert_eq!(new.state().head.sequence_number, 3);
}

#[test]
fn a_replay_point_is_written_once_and_replay_starts_there() {
    let world = World::new();
    let mut recorder = world.begin(&world.store, Vec::new());
    let (trace_id, ts) = (trace_of(&recorder), Timestamp::EPOCH);
    world.add_notes(&mut recorder, 3).unwrap();
    // Entries that are not committed are not part of it.
    recorder.add(&world.note(trace_id, 9)).unwrap();
    recorder.write_replay_point(ts).unwrap();
    recorder.commit(KeyAction::None, After::Keep).unwrap();
    drop(recorder);
    let points = || world.shared.tables().replay_points[&trace_id].clone();
    assert_eq!(
        points().iter().map(|point| point.checkpoint_sequence_number).collect::<Vec<_>>(),
        [5]
    );
    let replayed = replay(world.store.as_ref(), trace_id).unwrap();
    // The entry at the replay point, and one after it.
    assert_eq!((replayed.head.sequence_number, replayed.entries_read), (6, 2));
    let opened = Recorder::<Run>::open(&world.store, trace_id, Vec::new()).unwrap();
    opened.write_replay_point(ts).unwrap();
    drop(opened);
    let opened = Recorder::<Run>::open(&world.store, trace_id, Vec::new()).unwrap();
    opened.write_replay_point(ts).unwrap();
    assert_eq!(points().len(), 2);
}

#[test]
fn a_replay_point_that_does_not_match_its_entry_is_found() {
    fn errors(change: impl Fn(&mut ReplayPointState)) -> [Option<ChainError>; 4] {
        let world = World::new();
        let trace_id = world.run(6);
        let recorder = Recorder::<Run>::open(&world.store, trace_id, Vec::new()).unwrap();
        recorder.write_replay_point(Timestamp::EPOCH).unwrap();
        drop(recorder);
        world.shared.tamper(|tables| {
            let point = &mut tables.replay_points.get_mut(&trace_id).unwrap()[0];
            let mut state = point.checkpoint_state;
            change(&mut state);
            *point = ReplayPoint::new(state, point.ts);
        });
        let corrupt = |error| {
            let JournalError::Corrupt { source, .. } = error else { panic!("{error:?}") };
            source
        };
        let store = world.store.as_ref();
        let read = |check| Reader::<Run>::state_of(store, trace_id, check).err().map(corrupt);
        let found = verify_trace(store, trace_id).unwrap().error;
        let report = verify_store(store, &mut |_| {}).unwrap();
        assert_eq!(report.broken, u64::from(found.is_some()));
        let replayed = replay(store, trace_id).err().map(corrupt);
        [read(Check::Verified), read(Check::Prefix), replayed, found]
    }
    let point = |what| Some(ChainError::ReplayPoint { sequence_number: 6, what });
    assert_eq!(errors(|_| {}), [None, None, None, None]);
    let [verified, prefix, replayed, found] =
        errors(|state| state.last_entry_digest = windlass_kernel::Digest::of(b"another"));
    assert!(matches!(verified, Some(ChainError::ReplayPoint { sequence_number: 6, .. })));
    assert_eq!((&replayed, &found, prefix), (&verified, &verified, None));
    let past = ChainError::Truncated { expected: 7, found: 6 };
    let [verified, prefix, replayed, found] = errors(|state| state.last_sequence_number = 7);
    assert_eq!((verified, prefix), (Some(past), None));
    assert!(replayed.is_some() && found.is_some());
    let [_, prefix, replayed, _] = errors(|state| state.plan_id.0 = Uuid7::from_parts(1, [9; 10]));
    assert_eq!((prefix, replayed), (None, point("its trace's plan")));
}
