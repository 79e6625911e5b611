//! Settling: a key gets the digest of its effect, once, from its own trace.

use windlass_kernel::Digest;

use super::Harness;
use super::fixture::{Ending, Fixture, Trace, holding};
use super::keys::{call_under, record_of, start};
use super::watch::{Refusal, Watch, assert_reads_back, hold};
use crate::types::{After, Append, KeyAction, NewEntry, Reservation};

/// The digest of an entry's artifact.
fn digest(trace: &Trace, number: usize) -> Option<Digest> {
    Some(trace.entry(number).entry.artifact_digest)
}

/// A run with a key; unlike a call it can go on after its key is settled.
fn run_with_key(make: &Fixture) -> Trace {
    let like = make.call(Ending::Completed);
    Trace { reservation: like.reservation, ..make.run_long(8) }
}

pub(super) fn an_effect_settles_its_key(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    for ending in [Ending::Completed, Ending::Failed] {
        let trace = make.call(ending);
        let lease = start(&*store, &trace);
        assert_eq!(other.load_idempotency(&trace.slot()).unwrap(), Some(record_of(&trace, None)));
        let key = KeyAction::Settle(trace.slot());
        store.append(Append { key, ..trace.append(&lease, 3, 1) }).unwrap();
        let settled = Some(record_of(&trace, digest(&trace, 4)));
        assert_eq!(other.load_idempotency(&trace.slot()).unwrap(), settled);
    }
}

pub(super) fn a_key_is_settled_by_the_last_of_several_entries(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = run_with_key(&make);
    let append = Append { key: trace.reserve(), ..trace.create(2, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    let key = KeyAction::Settle(trace.slot());
    store.append(Append { key, ..trace.append(&lease, 2, 3) }).unwrap();
    let settled = Some(record_of(&trace, digest(&trace, 5)));
    assert_eq!(store.load_idempotency(&trace.slot()).unwrap(), settled);
}

pub(super) fn a_settled_key_stays_taken(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let first = make.call(Ending::Completed);
    let lease = start(&*store, &first);
    let key = KeyAction::Settle(first.slot());
    store.append(Append { key, after: After::Release, ..first.append(&lease, 3, 1) }).unwrap();
    let second = call_under(&make, &first.slot());
    let lease = hold(&*other, &second, 2);
    let append = Append { key: second.reserve(), ..second.append(&lease, 2, 1) };
    let refusal = Watch::new(&*store, &[first.slot()]).refused(|| other.append(append));
    assert_eq!(refusal, Refusal::KeyTaken(record_of(&first, digest(&first, 4))));
}

pub(super) fn a_key_is_settled_once(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = run_with_key(&make);
    let append = Append { key: trace.reserve(), ..trace.create(1, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    for skip in 1..=3 {
        let key = KeyAction::Settle(trace.slot());
        store.append(Append { key, ..trace.append(&lease, skip, 1) }).unwrap();
        let settled = Some(record_of(&trace, digest(&trace, 2)));
        assert_eq!(store.load_idempotency(&trace.slot()).unwrap(), settled);
    }
    assert_reads_back(&*store, &trace, 4);
}

pub(super) fn a_key_is_settled_by_its_own_trace_only(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let (owner, stranger) = (make.call(Ending::Completed), make.call(Ending::Completed));
    let owners = start(&*store, &owner);
    let strangers = start(&*store, &stranger);
    let key = KeyAction::Settle(owner.slot());
    store.append(Append { key, ..stranger.append(&strangers, 3, 1) }).unwrap();
    for trace in [&owner, &stranger] {
        let record = store.load_idempotency(&trace.slot()).unwrap();
        assert_eq!(record, Some(record_of(trace, None)), "a stranger settles nothing");
    }
    let key = KeyAction::Settle(owner.slot());
    store.append(Append { key, ..owner.append(&owners, 3, 1) }).unwrap();
    let settled = Some(record_of(&owner, digest(&owner, 4)));
    assert_eq!(store.load_idempotency(&owner.slot()).unwrap(), settled);
}

pub(super) fn settling_a_key_that_does_not_exist_makes_none(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    let key = KeyAction::Settle(trace.slot());
    store.append(Append { key, ..trace.append(&lease, 3, 1) }).unwrap();
    assert_eq!(store.load_idempotency(&trace.slot()).unwrap(), None);
}

pub(super) fn a_refused_append_settles_nothing(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = start(&*store, &trace);
    let Reservation { slot, .. } = trace.reservation.clone().unwrap();
    let bad = NewEntry { body: b"another".to_vec(), ..trace.entry(4) };
    let key = KeyAction::Settle(slot.clone());
    let append = Append { key, ..holding(&lease, vec![bad]) };
    let refusal = Watch::new(&*store, std::slice::from_ref(&slot)).refused(|| store.append(append));
    assert!(matches!(refusal, Refusal::Chain(..)), "{refusal:?}");
    assert_eq!(store.load_idempotency(&slot).unwrap(), Some(record_of(&trace, None)));
}
