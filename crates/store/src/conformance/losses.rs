//! Leases when a process dies: its traces are free, and its old leases are worthless.

use super::Harness;
use super::fixture::{Ending, Fixture, Trace};
use super::leases::{assert_held, take};
use super::watch::{Refusal, Watch, assert_reads_back, hold};
use crate::store::Store;
use crate::types::{After, Append, Lease};

/// Kills a process that holds a trace of three entries, and lets another one acquire the trace. Returns
/// the lost lease and the new one.
fn taken_over(harness: &dyn Harness, heir: &dyn Store, trace: &Trace) -> (Lease, Lease) {
    let dying = harness.open();
    let lost = hold(&*dying, trace, 3);
    harness.kill(dying);
    (lost, take(heir, trace))
}

pub(super) fn a_killed_holders_traces_are_free_at_once(harness: &dyn Harness) {
    let make = Fixture::new();
    let (dying, heir) = (harness.open(), harness.open());
    let traces: Vec<Trace> = (0..5).map(|_| make.run_long(3)).collect();
    for trace in &traces {
        hold(&*dying, trace, 1);
    }
    harness.kill(dying);
    for trace in &traces {
        let lease = take(&*heir, trace);
        heir.append(trace.append(&lease, 1, 2)).unwrap();
        assert_reads_back(&*heir, trace, 3);
    }
}

pub(super) fn a_takeover_raises_the_fence(harness: &dyn Harness) {
    let make = Fixture::new();
    let trace = make.run_long(3);
    let first = harness.open();
    let mut fence = hold(&*first, &trace, 1).fence();
    let mut holders = vec![first];
    for _ in 0..5 {
        harness.kill(holders.pop().unwrap());
        let heir = harness.open();
        let lease = take(&*heir, &trace);
        assert!(lease.fence() > fence, "{} after {fence}", lease.fence());
        fence = lease.fence();
        holders.push(heir);
    }
}

pub(super) fn a_lost_lease_cannot_append(harness: &dyn Harness) {
    let make = Fixture::new();
    let (heir, third) = (harness.open(), harness.open());
    let trace = make.call(Ending::Completed);
    let (lost, lease) = taken_over(harness, &*heir, &trace);
    let watch = Watch::new(&*third, &[trace.slot()]);
    for handle in [&heir, &third] {
        for after in [After::Keep, After::Release] {
            let append = Append { after, key: trace.reserve(), ..trace.append(&lost, 3, 1) };
            let refusal = watch.refused(|| handle.append(append));
            assert_eq!(refusal, Refusal::Fenced(trace.trace_id));
        }
    }
    assert_held(&*third, &lease);
    heir.append(trace.append(&lease, 3, 1)).expect("the heir may append");
}

pub(super) fn a_lost_lease_cannot_write_a_replay_point(harness: &dyn Harness) {
    let make = Fixture::new();
    let (heir, third) = (harness.open(), harness.open());
    let trace = make.call(Ending::Completed);
    let (lost, lease) = taken_over(harness, &*heir, &trace);
    let point = make.replay_point(&trace, 3);
    for handle in [&heir, &third] {
        let refusal = Watch::new(&*third, &[]).refused(|| handle.write_replay_point(&lost, &point));
        assert_eq!(refusal, Refusal::Fenced(trace.trace_id));
    }
    heir.write_replay_point(&lease, &point).expect("the heir may");
}

pub(super) fn a_lost_lease_cannot_record_a_redispatch(harness: &dyn Harness) {
    let make = Fixture::new();
    let (heir, third) = (harness.open(), harness.open());
    let trace = make.call(Ending::Completed);
    let (lost, lease) = taken_over(harness, &*heir, &trace);
    let redispatch = make.redispatch(2);
    for handle in [&heir, &third] {
        let refusal =
            Watch::new(&*third, &[]).refused(|| handle.record_redispatch(&lost, &redispatch));
        assert_eq!(refusal, Refusal::Fenced(trace.trace_id));
    }
    heir.record_redispatch(&lease, &redispatch).expect("the heir may");
}

pub(super) fn releasing_a_lost_lease_leaves_the_new_holders(harness: &dyn Harness) {
    let make = Fixture::new();
    let (heir, third) = (harness.open(), harness.open());
    let trace = make.call(Ending::Completed);
    let (lost, lease) = taken_over(harness, &*heir, &trace);
    let before = Watch::new(&*third, &[]).picture();
    third.release(lost).unwrap();
    assert_eq!(Watch::new(&*third, &[]).picture(), before);
    assert_held(&*third, &lease);
    assert_held(&*heir, &lease);
    heir.append(trace.append(&lease, 3, 1)).expect("the heir still holds it");
}

pub(super) fn a_killed_process_loses_nothing_it_was_told_is_durable(harness: &dyn Harness) {
    let make = Fixture::new();
    let dying = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*dying, &trace, 2);
    let append = Append { key: trace.reserve(), ..trace.append(&lease, 2, 1) };
    dying.append(append).unwrap();
    let (point, redispatch) = (make.replay_point(&trace, 3), make.redispatch(2));
    dying.write_replay_point(&lease, &point).unwrap();
    dying.record_redispatch(&lease, &redispatch).unwrap();
    harness.kill(dying);
    let heir = harness.open();
    assert_reads_back(&*heir, &trace, 3);
    assert_eq!(heir.load_latest_replay_point(trace.trace_id).unwrap(), Some(point));
    assert_eq!(heir.list_redispatches(trace.trace_id).unwrap(), [redispatch]);
    let record = heir.load_idempotency(&trace.slot()).unwrap().expect("the reservation");
    assert_eq!((record.trace_id, record.effect_digest), (trace.trace_id, None));
}

pub(super) fn the_death_of_one_holder_leaves_the_others_their_leases(harness: &dyn Harness) {
    let make = Fixture::new();
    let (dying, store, third) = (harness.open(), harness.open(), harness.open());
    let (lost, kept) = (make.run_long(3), make.run_long(3));
    hold(&*dying, &lost, 1);
    let lease = hold(&*store, &kept, 1);
    harness.kill(dying);
    assert_held(&*third, &lease);
    take(&*third, &lost);
    assert_held(&*third, &lease);
    store.append(kept.append(&lease, 1, 2)).expect("the living still holds its trace");
}
