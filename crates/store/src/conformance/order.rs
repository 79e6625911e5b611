//! The order of the checks of an append: of two errors, the one that is checked first is reported.

use windlass_kernel::{
    ArtifactType, ChainError, Code, Digest, State, StateOrEmpty, ToolCallId, TraceId,
};

use super::Harness;
use super::fixture::{Ending, Fixture, Trace, forged, holding};
use super::watch::{Refusal, Watch, hold};
use crate::store::Store;
use crate::types::{Append, Claim, KeyAction, Lease, NewEntry};

/// The possible errors of an append, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Wrong {
    Fence,
    Sequence,
    Trace,
    Previous,
    State,
    Transition,
    Own,
    Artifact,
    Key,
}

impl Wrong {
    const ALL: &'static [Self] = &[
        Self::Fence,
        Self::Sequence,
        Self::Trace,
        Self::Previous,
        Self::State,
        Self::Transition,
        Self::Own,
        Self::Artifact,
        Self::Key,
    ];

    /// Makes this error in the second entry of a call, except for its digests.
    fn spoil(self, new: &mut NewEntry, make: &Fixture) {
        let entry = &mut new.entry;
        match self {
            Self::Fence | Self::Own | Self::Key => {}
            Self::Sequence => entry.sequence_number += 1,
            Self::Trace => entry.trace_id = TraceId(make.uuid()),
            Self::Previous => entry.prev_entry_digest = Digest::of(b"another"),
            // A valid transition, but not from the current state.
            Self::State => {
                (entry.from_state, entry.to_state) = (State::Authorized, State::Executing);
                entry.artifact_type = ArtifactType::ToolCall;
                entry.tool_call_id = Some(ToolCallId(make.uuid()));
            }
            Self::Transition => entry.to_state = State::Completed,
            Self::Artifact => new.body.push(b'\n'),
        }
    }

    /// The error that the store must return if this is the first one.
    fn refusal(self, trace: &Trace, new: &NewEntry, taken: &Refusal) -> Refusal {
        let sequence_number = 2;
        let entry = &new.entry;
        let source = match self {
            Self::Fence => return Refusal::Fenced(trace.trace_id),
            Self::Key => match taken {
                Refusal::KeyTaken(record) => return Refusal::KeyTaken(record.clone()),
                Refusal::Fenced(_) | Refusal::Chain(..) | Refusal::Store(_) => panic!("{taken:?}"),
            },
            Self::Sequence => ChainError::SequenceGap { expected: 2, found: entry.sequence_number },
            Self::Trace => ChainError::ForeignTrace { sequence_number, found: entry.trace_id },
            Self::Previous => ChainError::PreviousDigest { sequence_number },
            Self::State | Self::Transition => ChainError::Transition {
                sequence_number,
                from: entry.from_state,
                to: entry.to_state,
                after: StateOrEmpty(Some(State::Pending)),
            },
            Self::Own => ChainError::OwnDigest { sequence_number },
            Self::Artifact => {
                ChainError::Artifact { sequence_number, artifact: entry.artifact_type.as_str() }
            }
        };
        Refusal::Chain(trace.trace_id, source)
    }
}

/// A held call with one entry, and a key that another trace has reserved.
struct Scene<'a> {
    store: &'a dyn Store,
    make: &'a Fixture,
    trace: Trace,
    lease: Lease,
    key: KeyAction,
    taken: Refusal,
}

impl<'a> Scene<'a> {
    fn new(store: &'a dyn Store, make: &'a Fixture) -> Self {
        let other = make.call(Ending::Completed);
        let lease = hold(store, &other, 2);
        let key = other.reserve();
        store.append(Append { key: key.clone(), ..other.append(&lease, 2, 1) }).unwrap();
        let record = store.load_idempotency(&other.slot()).unwrap().expect("a reservation");
        let trace = make.call(Ending::Completed);
        let lease = hold(store, &trace, 1);
        Self { store, make, trace, lease, key, taken: Refusal::KeyTaken(record) }
    }

    /// Appends a second entry with these errors; the store must report the first of them.
    fn refuses(&self, wrongs: &[Wrong]) {
        let mut bad = forged(self.trace.entry(2), |new| {
            for wrong in wrongs {
                wrong.spoil(new, self.make);
            }
        });
        if wrongs.contains(&Wrong::Own) {
            bad.entry.entry_digest = Digest::of(b"forged");
        }
        let expected = wrongs.first().unwrap().refusal(&self.trace, &bad, &self.taken);
        let fence = self.lease.fence() + u64::from(wrongs.contains(&Wrong::Fence));
        let lease = Lease::grant(self.trace.trace_id, self.lease.holder(), fence);
        let key = if wrongs.contains(&Wrong::Key) { self.key.clone() } else { KeyAction::None };
        let append = Append { claim: Claim::Held(&lease), key, ..holding(&lease, vec![bad]) };
        let slots = [self.trace.slot()];
        let refusal = Watch::new(self.store, &slots).refused(|| self.store.append(append));
        assert_eq!(refusal, expected, "wrong: {wrongs:?}");
    }
}

/// Checks one error alone and together with each error that is checked later.
fn comes_before_the_rest(harness: &dyn Harness, first: Wrong) {
    let make = Fixture::new();
    let store = harness.open();
    let scene = Scene::new(&*store, &make);
    scene.refuses(&[first]);
    for later in Wrong::ALL.iter().filter(|later| **later > first) {
        scene.refuses(&[first, *later]);
    }
    let good = scene.trace.append(&scene.lease, 1, 1);
    store.append(good).expect("nothing wrong");
}

pub(super) fn the_fence_is_checked_before_all_else(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let scene = Scene::new(&*store, &make);
    scene.refuses(Wrong::ALL);
    for later in Wrong::ALL.iter().skip(1) {
        scene.refuses(&[Wrong::Fence, *later]);
    }
    let fenced = Refusal::Fenced(scene.trace.trace_id);
    let mut bad = forged(scene.trace.entry(2), |new| Wrong::Sequence.spoil(new, &make));
    bad.entry.entry_digest = Digest::of(b"forged");
    let again = Append {
        claim: scene.trace.new_claim(),
        key: scene.key.clone(),
        ..holding(&scene.lease, vec![bad])
    };
    assert_eq!(Watch::new(&*store, &[]).refused(|| store.append(again)), fenced);
}

pub(super) fn the_sequence_is_checked_right_after_the_fence(harness: &dyn Harness) {
    comes_before_the_rest(harness, Wrong::Sequence);
}

pub(super) fn the_trace_is_checked_right_after_the_sequence(harness: &dyn Harness) {
    comes_before_the_rest(harness, Wrong::Trace);
}

pub(super) fn the_previous_digest_is_checked_right_after_the_trace(harness: &dyn Harness) {
    comes_before_the_rest(harness, Wrong::Previous);
}

pub(super) fn the_current_state_is_checked_right_after_the_previous_digest(harness: &dyn Harness) {
    comes_before_the_rest(harness, Wrong::State);
}

pub(super) fn the_transition_is_checked_right_after_the_current_state(harness: &dyn Harness) {
    comes_before_the_rest(harness, Wrong::Transition);
}

pub(super) fn the_own_digest_is_checked_right_after_the_transition(harness: &dyn Harness) {
    comes_before_the_rest(harness, Wrong::Own);
}

pub(super) fn the_artifact_is_checked_right_after_the_own_digest(harness: &dyn Harness) {
    comes_before_the_rest(harness, Wrong::Artifact);
}

pub(super) fn the_key_is_checked_last(harness: &dyn Harness) {
    comes_before_the_rest(harness, Wrong::Key);
}

pub(super) fn an_earlier_entry_is_judged_whole_before_a_later_one(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.run_long(4);
    let lease = hold(&*store, &trace, 1);
    let mut second = trace.entry(2);
    second.body.push(b'\n');
    let third = forged(trace.entry(3), |new| new.entry.sequence_number += 1);
    let refusal =
        Watch::new(&*store, &[]).refused(|| store.append(holding(&lease, vec![second, third])));
    let artifact = ArtifactType::RunEvent.as_str();
    let source = ChainError::Artifact { sequence_number: 2, artifact };
    assert_eq!(source.code(), Code::StateChecksumMismatch);
    assert_eq!(refusal, Refusal::Chain(trace.trace_id, source));
}
