//! Leases while all processes live: one holder at a time, whose lease nobody can take.

use windlass_kernel::Code;

use super::Harness;
use super::fixture::{Ending, Fixture, Trace, holding};
use super::watch::{Refusal, Watch, assert_reads_back, hold, put};
use crate::error::AcquireError;
use crate::store::Store;
use crate::types::{After, Append, Lease, NewEntry};

/// Checks that `store` cannot acquire a trace, and that the attempt changes nothing.
pub(super) fn assert_held(store: &dyn Store, lease: &Lease) {
    let watch = Watch::new(store, &[]);
    let before = watch.picture();
    let error = store.acquire(lease.trace_id()).expect_err("a live holder refuses");
    assert_eq!(error.code(), Code::StateLockAcquireFailed);
    let AcquireError::Held { trace_id, holder } = error else { panic!("not held: {error}") };
    assert_eq!((trace_id, holder), (lease.trace_id(), lease.holder()));
    assert_eq!(watch.picture(), before, "asking for a lease changed something");
    assert!(store.is_held(&store.load_state(trace_id).unwrap()).unwrap());
}

/// Acquires a trace, and checks its state.
pub(super) fn take(store: &dyn Store, trace: &Trace) -> Lease {
    let before = store.load_state(trace.trace_id).unwrap();
    let lease = store.acquire(trace.trace_id).expect("a free trace");
    assert_eq!(lease.trace_id(), trace.trace_id);
    assert!(lease.fence() > before.fence, "each lease raises the fence");
    let state = store.load_state(trace.trace_id).unwrap();
    assert_eq!((state.holder, state.fence), (Some(lease.holder()), lease.fence()));
    assert_eq!((state.head, state.plan_id), (before.head, before.plan_id));
    lease
}

pub(super) fn a_free_trace_can_be_acquired(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    for handle in [&store, &other] {
        let trace = make.run_long(4);
        store.append(trace.create(1, After::Release)).unwrap();
        let lease = take(&**handle, &trace);
        handle.append(trace.append(&lease, 1, 3)).expect("the holder may append");
        assert_reads_back(&*store, &trace, 4);
    }
}

pub(super) fn acquiring_an_unknown_trace_is_not_found(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let error = store.acquire(make.run_long(1).trace_id).unwrap_err();
    assert_eq!(error.code(), Code::TraceNotFound);
}

pub(super) fn a_live_holder_refuses_another_handle(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let (made, taken) = (make.run_long(3), make.run_long(3));
    let lease = hold(&*store, &made, 1);
    assert_held(&*other, &lease);
    put(&*other, &taken);
    let lease = take(&*store, &taken);
    assert_held(&*other, &lease);
}

pub(super) fn a_live_holder_refuses_its_own_handle_too(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let (made, taken) = (make.run_long(3), make.run_long(3));
    let lease = hold(&*store, &made, 1);
    assert_held(&*store, &lease);
    put(&*store, &taken);
    let lease = take(&*store, &taken);
    assert_held(&*store, &lease);
}

pub(super) fn a_losers_failure_leaves_the_holder_its_lease(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other, third) = (harness.open(), harness.open(), harness.open());
    let trace = make.run_long(4);
    let lease = hold(&*store, &trace, 1);
    for loser in [&other, &store, &other] {
        assert_held(&**loser, &lease);
        assert_held(&*third, &lease);
    }
    store.append(trace.append(&lease, 1, 3)).expect("the holder still holds it");
    assert_reads_back(&*third, &trace, 4);
}

pub(super) fn a_losers_end_leaves_the_holder_its_lease(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, third) = (harness.open(), harness.open());
    let trace = make.run_long(4);
    let lease = hold(&*store, &trace, 1);
    let loser = harness.open();
    assert_held(&*loser, &lease);
    drop(loser);
    assert_held(&*third, &lease);
    let loser = harness.open();
    assert_held(&*loser, &lease);
    harness.kill(loser);
    assert_held(&*third, &lease);
    store.append(trace.append(&lease, 1, 3)).expect("the holder still holds it");
}

pub(super) fn a_released_trace_can_be_acquired_again(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.run_long(7);
    let mut lease = hold(&*store, &trace, 1);
    let mut holder = &store;
    for (count, next) in [&store, &other, &other, &store].into_iter().enumerate() {
        holder.append(trace.append(&lease, count + 1, 1)).unwrap();
        holder.release(lease).unwrap();
        assert_eq!(store.load_state(trace.trace_id).unwrap().holder, None);
        lease = take(&**next, &trace);
        holder = next;
    }
    assert_reads_back(&*store, &trace, 5);
}

pub(super) fn a_released_lease_is_worth_nothing(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.run_long(4);
    let lease = hold(&*store, &trace, 1);
    let copy = Lease::grant(lease.trace_id(), lease.holder(), lease.fence());
    store.release(lease).unwrap();
    let fenced = Refusal::Fenced(trace.trace_id);
    let watch = Watch::new(&*other, &[]);
    assert_eq!(watch.refused(|| store.append(trace.append(&copy, 1, 1))), fenced);
    let mine = take(&*store, &trace);
    assert_eq!(watch.refused(|| store.append(trace.append(&copy, 1, 1))), fenced);
    store.append(trace.append(&mine, 1, 3)).expect("the new lease counts");
}

pub(super) fn a_new_trace_that_is_kept_is_held(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.call(Ending::Completed);
    let appended = store.append(trace.create(1, After::Keep)).unwrap();
    let lease = appended.lease.expect("a lease");
    assert_eq!(lease.trace_id(), trace.trace_id);
    assert_eq!(appended.state.holder, Some(lease.holder()));
    assert_eq!(appended.state.fence, lease.fence());
    assert_held(&*other, &lease);
    assert_held(&*store, &lease);
}

pub(super) fn a_new_trace_that_is_released_is_free(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    for handle in [&store, &other] {
        let trace = make.call(Ending::Completed);
        let appended = store.append(trace.create(1, After::Release)).unwrap();
        assert_eq!((appended.lease, appended.state.holder), (None, None));
        assert_eq!(other.load_state(trace.trace_id).unwrap(), appended.state);
        take(&**handle, &trace);
    }
}

pub(super) fn an_append_that_releases_frees_the_trace_with_its_entries(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    for handle in [&store, &other] {
        let trace = make.run_long(6);
        let lease = hold(&*store, &trace, 1);
        let last = Append { after: After::Release, ..trace.append(&lease, 1, 2) };
        let appended = store.append(last).unwrap();
        assert_eq!((appended.state.head, appended.state.holder), (trace.head_after(3), None));
        assert_eq!(other.load_state(trace.trace_id).unwrap(), appended.state);
        let refusal = Watch::new(&*other, &[]).refused(|| store.append(trace.append(&lease, 3, 1)));
        assert_eq!(refusal, Refusal::Fenced(trace.trace_id), "the lease is spent");
        let next = take(&**handle, &trace);
        handle.append(trace.append(&next, 3, 3)).unwrap();
    }
}

pub(super) fn an_append_that_keeps_leaves_the_lease_as_it_is(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.run_long(6);
    let lease = hold(&*store, &trace, 1);
    for skip in 1..6 {
        let state = store.append(trace.append(&lease, skip, 1)).unwrap().state;
        assert_eq!((state.holder, state.fence), (Some(lease.holder()), lease.fence()));
        assert_held(&*other, &lease);
    }
}

pub(super) fn a_refused_append_that_would_release_keeps_the_lease(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.run_long(3);
    let lease = hold(&*store, &trace, 1);
    let bad = NewEntry::new(trace.entry(2).into_parts().entry, b"another".to_vec());
    let append = Append { after: After::Release, ..holding(&lease, vec![bad]) };
    let refusal = Watch::new(&*other, &[]).refused(|| store.append(append));
    assert!(matches!(refusal, Refusal::Chain(..)), "{refusal:?}");
    assert_held(&*other, &lease);
    assert_held(&*store, &lease);
    store.append(trace.append(&lease, 1, 2)).expect("the lease still counts");
}

pub(super) fn a_handle_that_ends_in_order_frees_its_traces(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let (made, taken) = (make.run_long(3), make.run_long(3));
    put(&*other, &taken);
    hold(&*store, &made, 1);
    take(&*store, &taken);
    drop(store);
    for trace in [&made, &taken] {
        let state = other.load_state(trace.trace_id).unwrap();
        assert!(!other.is_held(&state).unwrap(), "its holder has ended");
        take(&*other, trace);
    }
}

pub(super) fn is_held_tells_a_live_holder_from_a_dead_one(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.run_long(4);
    let seen =
        |handle: &dyn Store| handle.is_held(&handle.load_state(trace.trace_id).unwrap()).unwrap();
    store.append(trace.create(1, After::Release)).unwrap();
    assert_eq!((seen(&*store), seen(&*other)), (false, false), "never held");
    let lease = take(&*store, &trace);
    assert_eq!((seen(&*store), seen(&*other)), (true, true), "held by a live process");
    store.release(lease).unwrap();
    assert_eq!((seen(&*store), seen(&*other)), (false, false), "released");
    take(&*store, &trace);
    harness.kill(store);
    assert!(!seen(&*other), "held by a dead process");
    let third = harness.open();
    assert!(!seen(&*third), "held by a process that died before this one came");
    take(&*third, &trace);
    assert_eq!((seen(&*third), seen(&*other)), (true, true), "taken over");
    drop(third);
    assert!(!seen(&*other), "held by a process that ended");
}

/// A lease that an append has released must not release a later lease of the same handle.
pub(super) fn a_spent_lease_cannot_free_a_later_one_of_the_same_handle(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.run_long(4);
    let spent = hold(&*store, &trace, 1);
    let last = Append { after: After::Release, ..trace.append(&spent, 1, 1) };
    store.append(last).unwrap();
    let lease = take(&*store, &trace);
    store.release(spent).unwrap();
    assert_held(&*other, &lease);
    assert_held(&*store, &lease);
    store.append(trace.append(&lease, 2, 2)).expect("the later lease still counts");
}

pub(super) fn a_lease_counts_only_in_the_hands_of_its_holder(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    let watch = Watch::new(&*store, &[]);
    let fenced = Refusal::Fenced(trace.trace_id);
    for after in [After::Keep, After::Release] {
        let append = Append { after, ..trace.append(&lease, 3, 1) };
        assert_eq!(watch.refused(|| other.append(append)), fenced);
    }
    let (point, redispatch) = (make.replay_point(&trace, 3), make.redispatch(2));
    assert_eq!(watch.refused(|| other.write_replay_point(&lease, &point)), fenced);
    assert_eq!(watch.refused(|| other.record_redispatch(&lease, &redispatch)), fenced);
    store.write_replay_point(&lease, &point).expect("its holder may");
    store.record_redispatch(&lease, &redispatch).expect("its holder may");
    store.append(trace.append(&lease, 3, 1)).expect("its holder may");
}

/// For a lease that came with the trace, and for one that was acquired later.
pub(super) fn a_refused_creation_leaves_the_holder_its_lease(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let (made, taken) = (make.run_long(3), make.run_long(3));
    store.append(taken.create(1, After::Release)).unwrap();
    let leases = [hold(&*store, &made, 1), take(&*store, &taken)];
    for (trace, lease) in [&made, &taken].into_iter().zip(&leases) {
        for handle in [&store, &other] {
            for after in [After::Keep, After::Release] {
                let again = trace.create(1, after);
                let refusal = Watch::new(&*other, &[]).refused(|| handle.append(again));
                assert_eq!(refusal, Refusal::Fenced(trace.trace_id));
                assert_held(&*other, lease);
                assert_held(&*store, lease);
            }
        }
        store.append(trace.append(lease, 1, 2)).expect("the lease still counts");
    }
}
