//! Runs that have ended and are rolled back: they are open again, until they end again.

use windlass_kernel::State;

use super::Harness;
use super::effects::run_with_key;
use super::fixture::{Fixture, Trace};
use super::watch::{ALL, assert_reads_back, scan};
use crate::store::Store;
use crate::types::{After, Append, Claim, Counts, KeyAction, TraceFilter};

/// A run that ends and is rolled back several times.
const PATH: [State; 10] = [
    State::Running,
    State::Terminal,
    State::Running,
    State::Checkpoint,
    State::Running,
    State::Terminal,
    State::Running,
    State::Running,
    State::Running,
    State::Terminal,
];

/// Checks the state of a trace after so many of its entries, through every handle.
fn assert_stands(store: &dyn Store, trace: &Trace, count: usize, held: bool) {
    let head = trace.head_after(count);
    let state = store.load_state(trace.trace_id).unwrap();
    assert_eq!((state.head, state.plan_id), (head, trace.plan_id));
    assert_eq!(store.is_held(&state).unwrap(), held);
    assert_reads_back(store, trace, count);
    let all = store.list_traces(&ALL).unwrap();
    let open = |one: &crate::types::TraceState| !one.head.state.unwrap().is_terminal();
    let wanted: Vec<_> = all.iter().filter(|one| open(one)).copied().collect();
    assert_eq!(store.list_traces(&TraceFilter { open_only: true, ..ALL }).unwrap(), wanted);
    assert_eq!(wanted.contains(&state), !head.state.unwrap().is_terminal());
    for wanted in [State::Running, State::Checkpoint, State::Terminal] {
        let listed = store.list_traces(&TraceFilter { state: Some(wanted), ..ALL }).unwrap();
        assert_eq!(listed.contains(&state), head.state == Some(wanted), "{wanted}");
    }
    let mut counts = Counts::default();
    for trace in &all {
        counts.add(trace.head.state, 1, trace.head.sequence_number);
    }
    assert_eq!(store.count().unwrap(), counts);
    let scanned = scan(store);
    let found = scanned.iter().find(|one| one.trace_id == trace.trace_id).unwrap();
    assert_eq!(found.verdict(), Ok(()));
    assert_eq!(found.recorded, Some(state));
}

/// Other traces, ended and open, around the one that is tested.
fn crowd(store: &dyn Store, make: &Fixture) {
    for path in [&[State::Running, State::Terminal][..], &[State::Running], &[State::Terminal]] {
        let trace = make.run(path);
        store.append(trace.create(trace.len(), After::Release)).unwrap();
    }
}

pub(super) fn a_run_that_has_ended_goes_on_and_ends_again(harness: &dyn Harness) {
    let make = Fixture::new();
    // With a restart after no step, after each step, and after some steps.
    for restarts in [0, 1, 3] {
        let mut store = harness.open();
        crowd(&*store, &make);
        let trace = make.run(&PATH);
        crowd(&*store, &make);
        store.append(trace.create(3, After::Release)).unwrap();
        assert_stands(&*store, &trace, 3, false);
        for count in 4..=trace.len() {
            if restarts > 0 && count % restarts == 0 {
                drop(store);
                store = harness.open();
                assert_stands(&*store, &trace, count - 1, false);
            }
            let lease = store.acquire(trace.trace_id).unwrap();
            store.append(trace.append(&lease, count - 1, 1)).unwrap();
            assert_stands(&*store, &trace, count, true);
            store.release(lease).unwrap();
            assert_stands(&*harness.open(), &trace, count, false);
        }
        drop(store);
        assert_stands(&*harness.open(), &trace, trace.len(), false);
    }
}

pub(super) fn a_run_that_goes_on_is_found_after_a_crash(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.run(&PATH);
    store.append(trace.create(3, After::Release)).unwrap();
    let lease = store.acquire(trace.trace_id).unwrap();
    store.append(trace.append(&lease, 3, 1)).unwrap();
    harness.kill(store);
    let next = harness.open();
    assert_stands(&*next, &trace, 4, false);
    let lease = next.acquire(trace.trace_id).unwrap();
    let rest = trace.part(4, trace.len() - 4);
    let (claim, key) = (Claim::Held(&lease), KeyAction::None);
    next.append(Append { claim, entries: rest, key, after: After::Release }).unwrap();
    assert_stands(&*next, &trace, trace.len(), false);
}

pub(super) fn an_end_and_what_follows_it_are_one_append(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    // The first append contains an end, and the later ones two more.
    let trace = make.run(&PATH);
    store.append(trace.create(5, After::Keep)).unwrap();
    assert_stands(&*store, &trace, 5, true);
    drop(store);
    let store = harness.open();
    assert_stands(&*store, &trace, 5, false);
    let lease = store.acquire(trace.trace_id).unwrap();
    store.append(trace.append(&lease, 5, 3)).unwrap();
    assert_stands(&*store, &trace, 8, true);
    store.append(trace.append(&lease, 8, 3)).unwrap();
    assert_stands(&*harness.open(), &trace, trace.len(), true);
}

/// A run that is rolled back has no effect until it ends again.
pub(super) fn a_run_that_goes_on_takes_its_end_back_from_its_key(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = run_with_key(&make, &PATH);
    let append = Append { key: trace.reserve(), ..trace.create(1, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    let effect =
        |store: &dyn Store| store.load_idempotency(&trace.slot()).unwrap().unwrap().effect_digest;
    for count in 2..=trace.len() {
        store.append(trace.append(&lease, count - 1, 1)).unwrap();
        let entry = &trace.entry(count).entry;
        let ended = entry.to_state.is_terminal().then_some(entry.artifact_digest);
        assert_eq!(effect(&*store), ended, "after {count}");
        assert_eq!(effect(&*harness.open()), ended, "after {count}");
    }
}
