//! Which appends are accepted, and that an append is atomic.

use windlass_kernel::{
    ArtifactType, ChainError, Code, Digest, KEY_CHARS_MAX, PlanId, State, StateOrEmpty, ToolCallId,
};

use super::Harness;
use super::fixture::{CallSpec, Ending, Fixture, Trace, forged, holding};
use super::watch::{ALL, Refusal, Watch, assert_reads_back, hold, put};
use crate::store::{Appended, Store};
use crate::types::{After, Append, Claim, KeyAction, Lease, NewEntry};

/// One trace of every kind and ending.
fn every_kind(make: &Fixture) -> Vec<Trace> {
    let mut traces: Vec<Trace> = Ending::ALL.iter().map(|ending| make.call(*ending)).collect();
    traces.push(make.call_of(&CallSpec::read(Ending::Completed)));
    traces.push(make.run(&[]));
    let path = [State::Running, State::Checkpoint, State::Resumed, State::Running, State::Terminal];
    traces.push(make.run(&path));
    traces
}

pub(super) fn what_is_appended_reads_back_whole_through_another_handle(harness: &dyn Harness) {
    let make = Fixture::new();
    let (writer, reader) = (harness.open(), harness.open());
    for trace in every_kind(&make) {
        let Appended { state, lease } = writer.append(trace.create(1, After::Keep)).unwrap();
        let lease = lease.expect("a lease on a trace that is kept");
        assert_eq!((state.head, state.plan_id), (trace.head_after(1), trace.plan_id));
        assert_eq!((state.holder, state.fence), (Some(lease.holder()), lease.fence()));
        assert_eq!(reader.load_state(trace.trace_id).unwrap(), state);
        for count in 2..=trace.len() {
            assert_reads_back(&*reader, &trace, count - 1);
            let appended = writer.append(trace.append(&lease, count - 1, 1)).unwrap();
            assert_eq!(appended.lease, None, "only a new trace comes with a lease");
            assert_eq!(reader.load_state(trace.trace_id).unwrap(), appended.state);
        }
        assert_reads_back(&*reader, &trace, trace.len());
    }
}

pub(super) fn what_is_appended_survives_a_restart(harness: &dyn Harness) {
    let make = Fixture::new();
    let traces = every_kind(&make);
    let writer = harness.open();
    for trace in &traces {
        put(&*writer, trace);
    }
    let before = Watch::new(&*writer, &[]).picture();
    drop(writer);
    let reader = harness.open();
    for trace in &traces {
        assert_reads_back(&*reader, trace, trace.len());
    }
    assert_eq!(Watch::new(&*reader, &[]).picture(), before);
}

pub(super) fn an_unknown_trace_is_not_found(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let unknown = make.call(Ending::Pending);
    let error = store.load_state(unknown.trace_id).unwrap_err();
    assert_eq!(error.code(), Code::TraceNotFound);
    put(&*store, &make.call(Ending::Completed));
    let error = store.load_state(unknown.trace_id).unwrap_err();
    assert_eq!(error.code(), Code::TraceNotFound);
}

pub(super) fn a_new_trace_that_exists_is_fenced_and_writes_nothing(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let watch = Watch::new(&*other, &[]);
    let (held, free) = (make.call(Ending::Completed), make.call(Ending::Completed));
    let lease = hold(&*store, &held, 2);
    put(&*store, &free);
    for handle in [&store, &other] {
        for trace in [&held, &free] {
            for (skip, count) in [(0, 1), (0, 3), (2, 2)] {
                let entries = trace.part(skip, count);
                let claim = Claim::New { trace_id: trace.trace_id, plan_id: PlanId(make.uuid()) };
                let again = Append { claim, entries, key: KeyAction::None, after: After::Keep };
                let refusal = watch.refused(|| handle.append(again));
                assert_eq!(refusal, Refusal::Fenced(trace.trace_id));
            }
        }
    }
    store.append(held.append(&lease, 2, 2)).expect("the first maker still holds its trace");
}

pub(super) fn a_lease_on_a_trace_that_does_not_exist_is_fenced(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let watch = Watch::new(&*store, &[]);
    let known = make.call(Ending::Completed);
    let holder = hold(&*store, &known, 1).holder();
    let unknown = make.call(Ending::Completed);
    let lease = Lease::grant(unknown.trace_id, holder, 1);
    let fenced = Refusal::Fenced(unknown.trace_id);
    assert_eq!(watch.refused(|| store.append(unknown.append(&lease, 0, 1))), fenced);
    let point = make.replay_point(&unknown, 1);
    assert_eq!(watch.refused(|| store.write_replay_point(&lease, &point)), fenced);
    let redispatch = make.redispatch(2);
    assert_eq!(watch.refused(|| store.record_redispatch(&lease, &redispatch)), fenced);
}

/// The entries of a trace, with the body of the third one changed.
fn third_bad(trace: &Trace, skip: usize) -> (Vec<NewEntry>, ChainError) {
    let mut entries = trace.part(skip, 4);
    let third = entries.get_mut(2).unwrap();
    third.body.push(b' ');
    let error = ChainError::Artifact {
        sequence_number: third.entry.sequence_number,
        artifact: third.entry.artifact_type.as_str(),
    };
    (entries, error)
}

pub(super) fn a_new_trace_with_a_bad_entry_does_not_come_to_be(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.call(Ending::Completed);
    let (entries, error) = third_bad(&trace, 0);
    let append =
        Append { claim: trace.new_claim(), entries, key: KeyAction::None, after: After::Keep };
    let refusal = Watch::new(&*other, &[]).refused(|| store.append(append));
    assert_eq!(refusal, Refusal::Chain(trace.trace_id, error));
    assert_eq!(other.load_state(trace.trace_id).unwrap_err().code(), Code::TraceNotFound);
    assert_eq!(other.list_log_entries(trace.trace_id, 0, 10).unwrap(), []);
    assert_eq!(other.list_traces(&ALL).unwrap(), []);
    put(&*other, &trace);
    assert_reads_back(&*store, &trace, trace.len());
}

pub(super) fn several_entries_are_appended_all_or_none(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.run_long(6);
    let lease = hold(&*store, &trace, 2);
    let (entries, error) = third_bad(&trace, 2);
    let refusal = Watch::new(&*other, &[]).refused(|| store.append(holding(&lease, entries)));
    assert_eq!(refusal, Refusal::Chain(trace.trace_id, error));
    assert_reads_back(&*other, &trace, 2);
    let appended = store.append(trace.append(&lease, 2, 4)).unwrap();
    assert_eq!(appended.state.head, trace.head_after(6));
    assert_reads_back(&*other, &trace, 6);
}

/// Appends entries with wrong numbers to a trace of three entries.
fn refuses_numbers(harness: &dyn Harness, make: &Fixture, numbers: &[u64]) {
    let (store, other) = (harness.open(), harness.open());
    let watch = Watch::new(&*other, &[]);
    let trace = make.run_long(5);
    let lease = hold(&*store, &trace, 3);
    for number in numbers {
        let off = forged(trace.entry(4), |new| new.entry.sequence_number = *number);
        let source = ChainError::SequenceGap { expected: 4, found: *number };
        assert_eq!(source.code(), Code::StateSequenceGap);
        let refusal = watch.refused(|| store.append(holding(&lease, vec![off])));
        assert_eq!(refusal, Refusal::Chain(trace.trace_id, source));
    }
    store.append(trace.append(&lease, 3, 2)).expect("the right number");
}

pub(super) fn a_repeated_sequence_number_is_refused(harness: &dyn Harness) {
    let make = Fixture::new();
    refuses_numbers(harness, &make, &[3, 2, 1, 0]);
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 2);
    for (skip, found) in [(1, 2), (0, 1)] {
        let refusal =
            Watch::new(&*store, &[]).refused(|| store.append(trace.append(&lease, skip, 2)));
        let source = ChainError::SequenceGap { expected: 3, found };
        assert_eq!(refusal, Refusal::Chain(trace.trace_id, source), "the same entry once more");
    }
}

pub(super) fn a_skipped_sequence_number_is_refused(harness: &dyn Harness) {
    let make = Fixture::new();
    refuses_numbers(harness, &make, &[5, 6, 1 << 40, u64::MAX]);
    let store = harness.open();
    let trace = make.run_long(4);
    let lease = hold(&*store, &trace, 1);
    let entries = vec![trace.entry(2), trace.entry(4)];
    let refusal = Watch::new(&*store, &[]).refused(|| store.append(holding(&lease, entries)));
    let source = ChainError::SequenceGap { expected: 3, found: 4 };
    assert_eq!(refusal, Refusal::Chain(trace.trace_id, source), "a gap inside one append");
}

pub(super) fn an_entry_of_another_trace_is_refused(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let (trace, foreign) = (make.call(Ending::Completed), make.call(Ending::Completed));
    let lease = hold(&*store, &trace, 1);
    put(&*store, &foreign);
    let refusal =
        Watch::new(&*store, &[]).refused(|| store.append(holding(&lease, vec![foreign.entry(2)])));
    let source = ChainError::ForeignTrace { sequence_number: 2, found: foreign.trace_id };
    assert_eq!(refusal, Refusal::Chain(trace.trace_id, source));
}

pub(super) fn nothing_but_a_rollback_follows_a_terminal_state(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let watch = Watch::new(&*store, &[]);
    let ended = [
        make.call(Ending::Completed),
        make.call(Ending::Failed),
        make.call(Ending::Denied),
        make.run(&[State::Running, State::Terminal]),
        make.run(&[State::Terminal]),
    ];
    for trace in ended {
        let lease = hold(&*store, &trace, trace.len());
        let head = trace.head_after(trace.len());
        let last = head.state.unwrap();
        let was = trace.entry(trace.len()).entry.from_state;
        // Only a rollback leads out of the end of a run, which stays ended when its branch is merged; nothing
        // follows the end of a call.
        let further = [State::Init, State::Checkpoint, State::Resumed, State::Pending];
        let more = further.into_iter().chain((last != State::Terminal).then_some(State::Running));
        let claims = [(was, last), (last, last), (was, State::Failed)];
        let merge = (State::Terminal, State::Terminal);
        let claims = claims.into_iter().filter(|claim| *claim != merge);
        for (from, to) in claims.chain(more.map(|to| (last, to))) {
            let more = forged(trace.entry(trace.len()), |new| {
                new.entry.sequence_number = head.sequence_number + 1;
                new.entry.prev_entry_digest = head.entry_digest;
                (new.entry.from_state, new.entry.to_state) = (from, to);
            });
            let sequence_number = head.sequence_number + 1;
            let after = StateOrEmpty(Some(last));
            let source = ChainError::Transition { sequence_number, from, to, after };
            assert_eq!(source.code(), Code::StateInvalidTransition);
            let refusal = watch.refused(|| store.append(holding(&lease, vec![more])));
            assert_eq!(refusal, Refusal::Chain(trace.trace_id, source));
        }
    }
}

pub(super) fn a_call_must_keep_its_id_from_hand_over_to_end(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let watch = Watch::new(&*store, &[]);
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 2);
    let refuses = |number: usize, id: Option<ToolCallId>| {
        let bad = forged(trace.entry(number), |new| new.entry.tool_call_id = id);
        let sequence_number = bad.entry.sequence_number;
        let source = match id {
            None => ChainError::MissingToolCall { sequence_number },
            Some(_) => ChainError::ToolCall { sequence_number },
        };
        let refusal = watch.refused(|| store.append(holding(&lease, vec![bad])));
        assert_eq!(refusal, Refusal::Chain(trace.trace_id, source));
    };
    refuses(3, None);
    store.append(trace.append(&lease, 2, 1)).unwrap();
    // The id must be found by a process that did not dispatch the call.
    refuses(4, None);
    refuses(4, Some(ToolCallId(make.uuid())));
    store.append(trace.append(&lease, 3, 1)).unwrap();
}

pub(super) fn a_body_that_is_not_its_digests_is_refused(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let watch = Watch::new(&*store, &[]);
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 1);
    let good = trace.entry(2);
    let bodies = [Vec::new(), b"{}".to_vec(), [&good.body[..], b"\n"].concat()];
    for body in bodies {
        let bad = NewEntry::new(good.entry.clone(), body);
        let refusal = watch.refused(|| store.append(holding(&lease, vec![bad])));
        let artifact = ArtifactType::SupervisorDecision.as_str();
        let source = ChainError::Artifact { sequence_number: 2, artifact };
        assert_eq!(refusal, Refusal::Chain(trace.trace_id, source));
    }
    let bad = forged(good, |new| new.entry.artifact_digest = Digest::of(b"another"));
    let refusal = watch.refused(|| store.append(holding(&lease, vec![bad])));
    assert!(matches!(refusal, Refusal::Chain(_, ChainError::Artifact { .. })), "{refusal:?}");
}

/// Tries to append one malformed second entry.
pub(super) fn refuses_malformed(store: &dyn Store, change: impl FnOnce(&mut NewEntry)) {
    let make = Fixture::new();
    let trace = make.call(Ending::Completed);
    let lease = hold(store, &trace, 1);
    let bad = forged(trace.entry(2), change);
    let refusal = Watch::new(store, &[]).refused(|| store.append(holding(&lease, vec![bad])));
    let Refusal::Chain(_, source) = refusal else { panic!("refused otherwise: {refusal:?}") };
    assert!(matches!(source, ChainError::Malformed { sequence_number: 2, .. }), "{source}");
    assert_eq!(source.code(), Code::StateChecksumMismatch);
}

pub(super) fn an_unknown_schema_version_is_refused(harness: &dyn Harness) {
    let store = harness.open();
    refuses_malformed(&*store, |new| new.entry.schema_version = "v2".into());
}

pub(super) fn an_idempotency_key_has_1_to_255_characters(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    for (letter, length) in [("a", KEY_CHARS_MAX), ("é", KEY_CHARS_MAX), ("🪝", KEY_CHARS_MAX)] {
        let key = Some(letter.repeat(length));
        let trace = make.call_of(&CallSpec { key, ..CallSpec::read(Ending::Completed) });
        put(&*store, &trace);
        assert_reads_back(&*store, &trace, trace.len());
    }
    let trace = make.call(Ending::Pending);
    for key in [String::new(), "a".repeat(KEY_CHARS_MAX + 1), "🪝".repeat(KEY_CHARS_MAX + 1)] {
        let bad = forged(trace.entry(1), |new| new.entry.idempotency_key = Some(key));
        let append = Append { entries: vec![bad], ..trace.create(1, After::Keep) };
        let refusal = Watch::new(&*store, &[]).refused(|| store.append(append));
        let Refusal::Chain(_, source) = refusal else { panic!("refused otherwise: {refusal:?}") };
        assert!(matches!(source, ChainError::Malformed { sequence_number: 1, .. }), "{source}");
    }
}

pub(super) fn an_unknown_schema_id_is_refused(harness: &dyn Harness) {
    let store = harness.open();
    refuses_malformed(&*store, |new| new.entry.schema_id = "another.log_entry".into());
    let make = Fixture::new();
    let (call, run) = (make.call(Ending::Pending).entry(1), make.run_long(1));
    // The schema of the other kind of trace is wrong too.
    for id in [call.entry.schema_id.clone(), "".into()] {
        let bad = forged(run.entry(1), |new| new.entry.schema_id = id);
        let append = Append { entries: vec![bad], ..run.create(1, After::Keep) };
        let refusal = Watch::new(&*store, &[]).refused(|| store.append(append));
        assert!(matches!(refusal, Refusal::Chain(_, ChainError::Malformed { .. })), "{refusal:?}");
    }
}

pub(super) fn an_append_without_entries_is_refused(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let watch = Watch::new(&*other, &[]);
    let trace = make.call(Ending::Completed);
    let malformed = |refusal: &Refusal, number: u64| {
        let Refusal::Chain(id, ChainError::Malformed { sequence_number, .. }) = refusal else {
            panic!("refused otherwise: {refusal:?}")
        };
        assert_eq!((*id, *sequence_number), (trace.trace_id, number));
    };
    for after in [After::Keep, After::Release] {
        let empty = trace.create(0, after);
        malformed(&watch.refused(|| store.append(empty)), 1);
        let error = other.load_state(trace.trace_id).unwrap_err();
        assert_eq!(error.code(), Code::TraceNotFound, "no trace without entries");
    }
    let lease = hold(&*store, &trace, 2);
    for (after, key) in [(After::Keep, KeyAction::None), (After::Release, trace.reserve())] {
        let empty = Append { after, key, ..holding(&lease, Vec::new()) };
        malformed(&watch.refused(|| store.append(empty)), 3);
    }
    assert_eq!(other.load_idempotency(&trace.slot()).unwrap(), None);
    let lost = Lease::grant(trace.trace_id, lease.holder(), lease.fence() + 1);
    let refusal = watch.refused(|| store.append(holding(&lost, Vec::new())));
    assert_eq!(refusal, Refusal::Fenced(trace.trace_id), "the fence comes first");
    let refusal = watch.refused(|| store.append(trace.create(0, After::Keep)));
    assert_eq!(refusal, Refusal::Fenced(trace.trace_id), "the trace exists");
    store.append(trace.append(&lease, 2, 2)).expect("the lease still counts");
}
