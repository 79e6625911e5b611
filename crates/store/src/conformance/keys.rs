//! Idempotency keys: one reservation for each slot, made with an append or not at all.

use windlass_kernel::artifact::ToolEffect;
use windlass_kernel::{Code, Digest};

use super::Harness;
use super::fixture::{CallSpec, Ending, Fixture, Trace, holding};
use super::watch::{Refusal, Watch, assert_reads_back, hold};
use crate::error::AppendError;
use crate::store::Store;
use crate::types::{
    After, Append, IdempotencyRecord, KeyAction, Lease, NewEntry, Reservation, Slot,
};

/// The record of a call's reservation.
pub(super) fn record_of(trace: &Trace, effect_digest: Option<Digest>) -> IdempotencyRecord {
    let reservation = trace.reservation.clone().expect("a call with a key");
    let trace_id = trace.trace_id;
    let body = trace.entries.last().map(|last| &last.body[..]).unwrap_or_default();
    let did_not_run = effect_digest.is_some() && ToolEffect::says_it_did_not_run(body);
    IdempotencyRecord { reservation, trace_id, effect_digest, did_not_run }
}

/// Brings a call to EXECUTING with its key reserved, and keeps its lease.
pub(super) fn start(store: &dyn Store, trace: &Trace) -> Lease {
    let lease = hold(store, trace, 2);
    let append = Append { key: trace.reserve(), ..trace.append(&lease, 2, 1) };
    store.append(append).expect("a free key");
    lease
}

/// A call under this key.
pub(super) fn call_under(make: &Fixture, slot: &Slot) -> Trace {
    make.call_of(&CallSpec {
        server: slot.server_id.clone(),
        tool: slot.tool_name.clone(),
        key: Some(slot.idempotency_key.clone()),
        ..CallSpec::read(Ending::Completed)
    })
}

pub(super) fn a_reservation_is_kept_with_its_entry(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 2);
    assert_eq!(other.load_idempotency(&trace.slot()).unwrap(), None);
    store.append(Append { key: trace.reserve(), ..trace.append(&lease, 2, 1) }).unwrap();
    assert_eq!(other.load_idempotency(&trace.slot()).unwrap(), Some(record_of(&trace, None)));
    drop((store, other));
    let record = harness.open().load_idempotency(&trace.slot()).unwrap();
    assert_eq!(record, Some(record_of(&trace, None)), "after a restart");
}

pub(super) fn an_unknown_key_has_no_record(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let unknown = make.call(Ending::Completed).slot();
    assert_eq!(store.load_idempotency(&unknown).unwrap(), None);
    start(&*store, &make.call(Ending::Completed));
    assert_eq!(store.load_idempotency(&unknown).unwrap(), None);
}

/// Tries to reserve the key of the first call for a second one, through `handle`.
fn refuses_second(harness: &dyn Harness, same_handle: bool) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let first = make.call(Ending::Completed);
    start(&*store, &first);
    let second = call_under(&make, &first.slot());
    let handle = if same_handle { &store } else { &other };
    let lease = hold(&**handle, &second, 2);
    let watch = Watch::new(&*store, &[first.slot()]);
    let attempt = || Append { key: second.reserve(), ..second.append(&lease, 2, 1) };
    let taken = Refusal::KeyTaken(record_of(&first, None));
    assert_eq!(watch.refused(|| handle.append(attempt())), taken);
    let error = handle.append(attempt()).unwrap_err();
    assert_eq!(error.code(), Code::IdempotencyConflict);
    assert_reads_back(&*store, &second, 2);
    handle.append(second.append(&lease, 2, 2)).expect("the loser keeps its lease");
}

/// A call that certainly did not run gives its key up to the next one that wants it, and to no more.
pub(super) fn a_key_whose_call_did_not_run_can_be_taken_again(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let failed = make.call(Ending::Failed);
    let lease = start(&*store, &failed);
    let slot = failed.slot();
    let retake = |trace: &Trace| KeyAction::Retake(trace.reservation.clone().expect("a key"));
    let second = call_under(&make, &slot);
    let held = hold(&*other, &second, 2);
    let again = || Append { key: retake(&second), ..second.append(&held, 2, 1) };
    // As long as the first has no effect, the key is its own.
    let watch = Watch::new(&*store, std::slice::from_ref(&slot));
    let taken = Refusal::KeyTaken(record_of(&failed, None));
    assert_eq!(watch.refused(|| other.append(again())), taken);
    store.append(failed.append(&lease, 3, 1)).unwrap();
    let ended = record_of(&failed, Some(failed.entry(4).entry.artifact_digest));
    assert!(ended.did_not_run);
    assert_eq!(store.load_idempotency(&slot).unwrap(), Some(ended.clone()));
    // Who asks for a free key does not get it.
    let strict = Append { key: second.reserve(), ..second.append(&held, 2, 1) };
    assert!(matches!(other.append(strict), Err(AppendError::KeyTaken(_))));
    other.append(again()).expect("the key of a call that did not run");
    assert_eq!(store.load_idempotency(&slot).unwrap(), Some(record_of(&second, None)));
    // Now it is taken again, also after a restart.
    other.append(second.append(&held, 3, 1)).unwrap();
    drop((store, other));
    let store = harness.open();
    let third = call_under(&make, &slot);
    let held = hold(&*store, &third, 2);
    let third = Append { key: retake(&third), ..third.append(&held, 2, 1) };
    let effect = second.entry(4).entry.artifact_digest;
    match store.append(third) {
        Err(AppendError::KeyTaken(record)) => assert_eq!(*record, record_of(&second, Some(effect))),
        other => panic!("{other:?}"),
    }
}

pub(super) fn a_taken_key_returns_its_record_and_writes_nothing(harness: &dyn Harness) {
    refuses_second(harness, true);
}

pub(super) fn a_taken_key_is_taken_for_other_handles_too(harness: &dyn Harness) {
    refuses_second(harness, false);
}

pub(super) fn a_taken_key_is_taken_for_its_own_trace_too(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = start(&*store, &trace);
    let again = Append { key: trace.reserve(), ..trace.append(&lease, 3, 1) };
    let refusal = Watch::new(&*store, &[trace.slot()]).refused(|| store.append(again));
    assert_eq!(refusal, Refusal::KeyTaken(record_of(&trace, None)));
}

pub(super) fn a_taken_key_keeps_a_new_trace_from_being(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let first = make.call(Ending::Completed);
    start(&*store, &first);
    let second = call_under(&make, &first.slot());
    for after in [After::Keep, After::Release] {
        let whole = Append { key: second.reserve(), ..second.create(4, after) };
        let refusal = Watch::new(&*store, &[first.slot()]).refused(|| other.append(whole));
        assert_eq!(refusal, Refusal::KeyTaken(record_of(&first, None)));
        let error = store.load_state(second.trace_id).unwrap_err();
        assert_eq!(error.code(), Code::TraceNotFound);
    }
}

pub(super) fn a_key_is_free_under_another_server_or_tool(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let slot = |server: &str, tool: &str, key: &str| Slot {
        server_id: server.into(),
        tool_name: tool.into(),
        idempotency_key: key.into(),
    };
    let slots = [
        slot("files", "write", "one"),
        slot("mail", "write", "one"),
        slot("files", "send", "one"),
        slot("files", "write", "two"),
        // The same text, divided differently.
        slot("file", "swrite", "one"),
        slot("files", "writeone", "one"),
        slot("files", "write", "oneone"),
    ];
    let traces = slots.each_ref().map(|slot| call_under(&make, slot));
    for trace in &traces {
        start(&*store, trace);
    }
    for (slot, trace) in slots.iter().zip(&traces) {
        let record = store.load_idempotency(slot).unwrap();
        assert_eq!(record, Some(record_of(trace, None)), "{slot:?}");
    }
}

pub(super) fn a_refused_append_reserves_nothing(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 2);
    let good = trace.entry(3);
    let bad = NewEntry::new(good.into_parts().entry, b"another".to_vec());
    let append = Append { key: trace.reserve(), ..holding(&lease, vec![bad]) };
    let refusal = Watch::new(&*store, &[trace.slot()]).refused(|| store.append(append));
    assert!(matches!(refusal, Refusal::Chain(..)), "{refusal:?}");
    assert_eq!(store.load_idempotency(&trace.slot()).unwrap(), None);
    let lost = Lease::grant(trace.trace_id, lease.holder(), lease.fence() + 1);
    let append = Append { key: trace.reserve(), ..trace.append(&lost, 2, 1) };
    let refusal = Watch::new(&*store, &[trace.slot()]).refused(|| store.append(append));
    assert_eq!(refusal, Refusal::Fenced(trace.trace_id));
    let append = Append { key: trace.reserve(), ..trace.append(&lease, 2, 1) };
    store.append(append).expect("the key is still free");
}

pub(super) fn keys_that_look_alike_are_different_keys(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let alike = [
        "key",
        "KEY",
        "key ",
        " key",
        "key\0",
        "key\0more",
        "\0",
        "k\u{e9}y",
        "ke\u{301}y",
        "1",
        "01",
        "1.0",
        "null",
        "%",
        "_",
        "'",
        "\"",
        "\\",
        "\u{fffd}",
        "\u{1f9f5}",
        "\u{1f9f6}",
    ];
    let calls: Vec<(Trace, Lease)> = alike
        .iter()
        .map(|key| {
            let call = make.call(Ending::Completed);
            let lease = hold(&*store, &call, 2);
            let mut reservation = call.reservation.clone().unwrap();
            reservation.slot.idempotency_key = (*key).to_owned();
            let key = KeyAction::Reserve(reservation.clone());
            let append = Append { key, ..call.append(&lease, 2, 1) };
            store.append(append).unwrap_or_else(|error| panic!("key {reservation:?}: {error}"));
            (Trace { reservation: Some(reservation), ..call }, lease)
        })
        .collect();
    for (call, _) in &calls {
        let Reservation { slot, .. } = call.reservation.clone().unwrap();
        let record = store.load_idempotency(&slot).unwrap();
        assert_eq!(record, Some(record_of(call, None)), "{slot:?}");
    }
}
