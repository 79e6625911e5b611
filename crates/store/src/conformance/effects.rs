//! Effects: the effect of a key is the last entry of its trace, and is stored nowhere else.

use windlass_kernel::{Digest, State};

use super::Harness;
use super::fixture::{Ending, Fixture, Trace, holding};
use super::keys::{call_under, record_of, start};
use super::watch::{Refusal, Watch, hold};
use crate::types::{After, Append, KeyAction, NewEntry};

/// The digest of the last entry's artifact.
fn end_of(trace: &Trace) -> Option<Digest> {
    Some(trace.entry(trace.len()).entry.artifact_digest)
}

/// A run with a key. It can be long, and is open after every entry except the last.
pub(super) fn run_with_key(make: &Fixture, states: &[State]) -> Trace {
    let like = make.call(Ending::Completed);
    Trace { reservation: like.reservation, ..make.run(states) }
}

pub(super) fn a_key_has_no_effect_while_its_trace_is_open(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let path = [State::Running, State::Checkpoint, State::Resumed, State::Running, State::Terminal];
    let trace = run_with_key(&make, &path);
    let append = Append { key: trace.reserve(), ..trace.create(1, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    for skip in 1..trace.len() {
        for handle in [&store, &other] {
            let record = handle.load_idempotency(&trace.slot()).unwrap();
            assert_eq!(record, Some(record_of(&trace, None)), "after {skip} entries");
        }
        store.append(trace.append(&lease, skip, 1)).unwrap();
    }
    let record = other.load_idempotency(&trace.slot()).unwrap();
    assert_eq!(record, Some(record_of(&trace, end_of(&trace))), "once it has ended");
}

pub(super) fn the_end_of_a_trace_is_its_keys_effect(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let mut traces = Vec::new();
    for (ending, after) in [(Ending::Completed, After::Keep), (Ending::Failed, After::Release)] {
        let trace = make.call(ending);
        let lease = start(&*store, &trace);
        assert_eq!(other.load_idempotency(&trace.slot()).unwrap(), Some(record_of(&trace, None)));
        store.append(Append { after, ..trace.append(&lease, 3, 1) }).unwrap();
        traces.push(trace);
    }
    let shown = |store: &dyn crate::Store| {
        for trace in &traces {
            let record = store.load_idempotency(&trace.slot()).unwrap();
            assert_eq!(record, Some(record_of(trace, end_of(trace))));
        }
    };
    shown(&*store);
    shown(&*other);
    drop((store, other));
    shown(&*harness.open());
}

pub(super) fn an_effect_is_the_last_of_several_entries(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = run_with_key(&make, &[State::Running, State::Running, State::Terminal]);
    let append = Append { key: trace.reserve(), ..trace.create(1, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    store.append(trace.append(&lease, 1, 3)).unwrap();
    let record = store.load_idempotency(&trace.slot()).unwrap();
    assert_eq!(record, Some(record_of(&trace, end_of(&trace))));
}

pub(super) fn a_key_reserved_with_the_end_has_its_effect_at_once(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    for ending in [Ending::Completed, Ending::Failed, Ending::Denied] {
        let trace = make.call(ending);
        let whole = trace.create(trace.len(), After::Release);
        store.append(Append { key: trace.reserve(), ..whole }).unwrap();
        let record = store.load_idempotency(&trace.slot()).unwrap();
        assert_eq!(record, Some(record_of(&trace, end_of(&trace))), "{ending:?}");
    }
}

pub(super) fn a_key_with_an_effect_stays_taken(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let first = make.call(Ending::Completed);
    let lease = start(&*store, &first);
    store.append(Append { after: After::Release, ..first.append(&lease, 3, 1) }).unwrap();
    let second = call_under(&make, &first.slot());
    let lease = hold(&*other, &second, 2);
    let append = Append { key: second.reserve(), ..second.append(&lease, 2, 1) };
    let refusal = Watch::new(&*store, &[first.slot()]).refused(|| other.append(append));
    assert_eq!(refusal, Refusal::KeyTaken(record_of(&first, end_of(&first))));
    let third = call_under(&make, &first.slot());
    let append = Append { key: third.reserve(), ..third.create(4, After::Release) };
    let refusal = Watch::new(&*store, &[first.slot()]).refused(|| other.append(append));
    assert_eq!(refusal, Refusal::KeyTaken(record_of(&first, end_of(&first))), "a new trace");
}

pub(super) fn the_end_of_one_trace_is_no_effect_of_anothers_key(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let (open, ended) = (make.call(Ending::Completed), make.call(Ending::Completed));
    start(&*store, &open);
    let lease = start(&*store, &ended);
    store.append(ended.append(&lease, 3, 1)).unwrap();
    let record = store.load_idempotency(&open.slot()).unwrap();
    assert_eq!(record, Some(record_of(&open, None)));
    let record = store.load_idempotency(&ended.slot()).unwrap();
    assert_eq!(record, Some(record_of(&ended, end_of(&ended))));
}

pub(super) fn all_keys_of_a_trace_have_its_effect(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let run = run_with_key(&make, &[State::Running, State::Terminal]);
    let alias = Trace { reservation: make.call(Ending::Pending).reservation, ..run.clone() };
    let append = Append { key: run.reserve(), ..run.create(1, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    store.append(Append { key: alias.reserve(), ..run.append(&lease, 1, 1) }).unwrap();
    for end in [None, end_of(&run)] {
        for trace in [&run, &alias] {
            let record = store.load_idempotency(&trace.slot()).unwrap();
            assert_eq!(record, Some(record_of(trace, end)));
        }
        if end.is_none() {
            store.append(run.append(&lease, 2, 1)).unwrap();
        }
    }
}

pub(super) fn a_refused_end_is_no_effect(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = start(&*store, &trace);
    let bad = NewEntry::new(trace.entry(4).into_parts().entry, b"another".to_vec());
    let append = Append { key: KeyAction::None, ..holding(&lease, vec![bad]) };
    let refusal = Watch::new(&*store, &[trace.slot()]).refused(|| store.append(append));
    assert!(matches!(refusal, Refusal::Chain(..)), "{refusal:?}");
    let record = store.load_idempotency(&trace.slot()).unwrap();
    assert_eq!(record, Some(record_of(&trace, None)));
}
