//! Replay points: the newest one is loaded; only the holder can write one, and it must match the trace.

use windlass_kernel::{Code, Digest, PlanId, ReplayPoint, ReplayPointState, State};

use super::Harness;
use super::fixture::{Ending, Fixture};
use super::watch::{Refusal, Watch, hold};
use crate::types::Lease;

pub(super) fn a_trace_without_replay_points_has_none(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.run_long(2);
    assert_eq!(store.load_latest_replay_point(trace.trace_id).unwrap(), None);
    hold(&*store, &trace, 2);
    assert_eq!(store.load_latest_replay_point(trace.trace_id).unwrap(), None);
}

pub(super) fn the_latest_replay_point_is_loaded(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    // With two digits the greatest number is not the greatest text.
    let trace = make.run_long(12);
    let lease = hold(&*store, &trace, 1);
    for count in 1..=12 {
        if count > 1 {
            store.append(trace.append(&lease, count - 1, 1)).unwrap();
        }
        if count % 3 != 0 {
            let point = make.replay_point(&trace, count);
            store.write_replay_point(&lease, &point).unwrap();
            assert_eq!(other.load_latest_replay_point(trace.trace_id).unwrap(), Some(point));
        }
    }
    let latest = other.load_latest_replay_point(trace.trace_id).unwrap().unwrap();
    assert_eq!(latest.checkpoint_sequence_number, 11);
}

pub(super) fn a_later_replay_point_of_the_same_entry_wins(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.run_long(2);
    let lease = hold(&*store, &trace, 2);
    for _ in 0..3 {
        let point = make.replay_point(&trace, 2);
        store.write_replay_point(&lease, &point).unwrap();
        assert_eq!(store.load_latest_replay_point(trace.trace_id).unwrap(), Some(point));
    }
}

pub(super) fn replay_points_of_one_trace_are_not_anothers(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let (one, two) = (make.run_long(2), make.run_long(3));
    let (lease, _) = (hold(&*store, &one, 2), hold(&*store, &two, 3));
    let point = make.replay_point(&one, 2);
    store.write_replay_point(&lease, &point).unwrap();
    assert_eq!(store.load_latest_replay_point(one.trace_id).unwrap(), Some(point));
    assert_eq!(store.load_latest_replay_point(two.trace_id).unwrap(), None);
    let foreign = make.replay_point(&two, 3);
    let refusal = Watch::new(&*store, &[]).refused(|| store.write_replay_point(&lease, &foreign));
    assert!(matches!(refusal, Refusal::Chain(id, _) if id == one.trace_id), "{refusal:?}");
}

pub(super) fn a_replay_point_must_agree_with_the_head(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    let honest = ReplayPointState::of(&trace.head_after(3), trace.plan_id).unwrap();
    let told = |state| ReplayPoint::new(state, make.ts());
    let liars = [
        make.replay_point(&trace, 2),
        make.replay_point(&trace, 4),
        told(ReplayPointState { current_state: State::Completed, ..honest }),
        told(ReplayPointState { last_sequence_number: 4, ..honest }),
        told(ReplayPointState { last_entry_digest: Digest::of(b"another"), ..honest }),
    ];
    for liar in liars {
        let source = liar.agrees_with(&trace.head_after(3)).unwrap_err();
        assert_eq!(source.code(), Code::StateChecksumMismatch);
        let refusal = Watch::new(&*store, &[]).refused(|| store.write_replay_point(&lease, &liar));
        assert_eq!(refusal, Refusal::Chain(trace.trace_id, source));
    }
    store.write_replay_point(&lease, &told(honest)).expect("the truth");
}

pub(super) fn a_replay_point_with_a_wrong_digest_is_refused(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    let good = make.replay_point(&trace, 3);
    let mut digest = good.clone();
    digest.checkpoint_digest = Digest::of(b"another");
    let mut number = good;
    number.checkpoint_sequence_number = 2;
    for bad in [digest, number] {
        let source = bad.validate().unwrap_err();
        let refusal = Watch::new(&*store, &[]).refused(|| store.write_replay_point(&lease, &bad));
        assert_eq!(refusal, Refusal::Chain(trace.trace_id, source));
    }
}

pub(super) fn a_replay_point_without_the_lease_is_refused(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    let (good, mut bad) = (make.replay_point(&trace, 3), make.replay_point(&trace, 2));
    bad.checkpoint_digest = Digest::of(b"another");
    let stale = Lease::grant(trace.trace_id, lease.holder(), lease.fence() + 1);
    let fenced = Refusal::Fenced(trace.trace_id);
    for point in [&good, &bad] {
        let refusal = Watch::new(&*store, &[]).refused(|| store.write_replay_point(&stale, point));
        assert_eq!(refusal, fenced, "the fence comes first");
    }
    let copy = Lease::grant(trace.trace_id, lease.holder(), lease.fence());
    store.release(lease).unwrap();
    let refusal = Watch::new(&*store, &[]).refused(|| store.write_replay_point(&copy, &good));
    assert_eq!(refusal, fenced, "a released lease");
}

pub(super) fn replay_points_survive_a_restart(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.run_long(5);
    let lease = hold(&*store, &trace, 4);
    store.write_replay_point(&lease, &make.replay_point(&trace, 4)).unwrap();
    store.append(trace.append(&lease, 4, 1)).unwrap();
    let point = make.replay_point(&trace, 5);
    store.write_replay_point(&lease, &point).unwrap();
    drop(store);
    let latest = harness.open().load_latest_replay_point(trace.trace_id).unwrap();
    assert_eq!(latest, Some(point));
}

pub(super) fn a_replay_point_must_name_its_traces_plan(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    let state = ReplayPointState::of(&trace.head_after(3), PlanId(make.uuid())).unwrap();
    let liar = ReplayPoint::new(state, make.ts());
    let refusal = Watch::new(&*store, &[]).refused(|| store.write_replay_point(&lease, &liar));
    let Refusal::Chain(id, source) = refusal else { panic!("refused otherwise: {refusal:?}") };
    assert_eq!((id, source.code()), (trace.trace_id, Code::StateChecksumMismatch), "{source}");
}
