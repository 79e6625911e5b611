//! Redispatches: numbered without gaps after the first dispatch, which an entry records.

use windlass_kernel::{ChainError, Code, State, StateOrEmpty};

use super::Harness;
use super::fixture::{Ending, Fixture};
use super::watch::{Refusal, Watch, hold};
use crate::types::Lease;

pub(super) fn redispatches_are_numbered_from_2_and_listed_in_order(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.call(Ending::Completed);
    assert_eq!(store.list_redispatches(trace.trace_id).unwrap(), []);
    let lease = hold(&*store, &trace, 3);
    assert_eq!(other.list_redispatches(trace.trace_id).unwrap(), []);
    let mut all = Vec::new();
    for attempt in 2..=13 {
        all.push(make.redispatch(attempt));
        store.record_redispatch(&lease, all.last().unwrap()).unwrap();
        assert_eq!(other.list_redispatches(trace.trace_id).unwrap(), all);
    }
    drop((store, other));
    let store = harness.open();
    assert_eq!(store.list_redispatches(trace.trace_id).unwrap(), all, "after a restart");
    let lease = store.acquire(trace.trace_id).unwrap();
    store.record_redispatch(&lease, &make.redispatch(14)).expect("the count goes on");
}

pub(super) fn a_redispatch_with_a_wrong_number_is_refused(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    for expected in 2..5 {
        for found in [0, 1, 2, 3, 4, 5, 6, u32::MAX] {
            if found == expected {
                continue;
            }
            let redispatch = make.redispatch(found);
            let refusal =
                Watch::new(&*store, &[]).refused(|| store.record_redispatch(&lease, &redispatch));
            let source = ChainError::SequenceGap { expected: expected.into(), found: found.into() };
            assert_eq!(source.code(), Code::StateSequenceGap);
            assert_eq!(refusal, Refusal::Chain(trace.trace_id, source));
        }
        store.record_redispatch(&lease, &make.redispatch(expected)).unwrap();
    }
}

pub(super) fn redispatches_of_one_trace_do_not_count_for_another(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let (one, two) = (make.call(Ending::Completed), make.call(Ending::Completed));
    let leases = [hold(&*store, &one, 3), hold(&*store, &two, 3)];
    for attempt in 2..5 {
        for lease in &leases {
            store.record_redispatch(lease, &make.redispatch(attempt)).unwrap();
        }
    }
    for trace in [&one, &two] {
        assert_eq!(store.list_redispatches(trace.trace_id).unwrap().len(), 3);
    }
}

pub(super) fn a_redispatch_without_the_lease_is_refused(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    let stale = Lease::grant(trace.trace_id, lease.holder(), lease.fence() + 1);
    let fenced = Refusal::Fenced(trace.trace_id);
    for attempt in [2, 7] {
        let redispatch = make.redispatch(attempt);
        let refusal =
            Watch::new(&*store, &[]).refused(|| store.record_redispatch(&stale, &redispatch));
        assert_eq!(refusal, fenced, "the fence comes first");
    }
    let copy = Lease::grant(trace.trace_id, lease.holder(), lease.fence());
    store.release(lease).unwrap();
    let redispatch = make.redispatch(2);
    let refusal = Watch::new(&*store, &[]).refused(|| store.record_redispatch(&copy, &redispatch));
    assert_eq!(refusal, fenced, "a released lease");
}

pub(super) fn only_a_call_that_executes_is_redispatched(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let traces = [
        make.call(Ending::Pending),
        make.call(Ending::Authorized),
        make.call(Ending::Denied),
        make.call(Ending::Completed),
        make.call(Ending::Failed),
        make.run_long(3),
    ];
    for trace in traces {
        let lease = hold(&*store, &trace, trace.len());
        let head = trace.head_after(trace.len());
        let redispatch = make.redispatch(2);
        let refusal =
            Watch::new(&*store, &[]).refused(|| store.record_redispatch(&lease, &redispatch));
        let source = ChainError::Transition {
            sequence_number: head.sequence_number + 1,
            from: State::Executing,
            to: State::Executing,
            after: StateOrEmpty(head.state),
        };
        assert_eq!(refusal, Refusal::Chain(trace.trace_id, source));
    }
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    store.record_redispatch(&lease, &make.redispatch(2)).expect("it executes");
    store.append(trace.append(&lease, 3, 1)).unwrap();
    let late = make.redispatch(3);
    let refusal = Watch::new(&*store, &[]).refused(|| store.record_redispatch(&lease, &late));
    assert!(matches!(refusal, Refusal::Chain(..)), "{refusal:?}");
}
