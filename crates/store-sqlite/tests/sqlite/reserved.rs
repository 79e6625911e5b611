//! A key that is not on record as the entries say is told: a call under it could run twice.

use std::collections::BTreeSet;

use windlass_kernel::{
    ArtifactChain, ArtifactHeader, ChainError, Code, Entry, ReservedKey, State, TraceId,
};
use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store::{After, Append, Store, StoreError, TraceState, Unreserved, Visitor};

use crate::support::{Place, fixture, meddle};

/// Says what the artifacts of each call say, and hears what the store has to answer.
#[derive(Default)]
struct Keys {
    links: ArtifactChain,
    reserves: bool,
    unreserved: BTreeSet<(TraceId, u64, &'static str)>,
}

impl Visitor for Keys {
    fn trace(&mut self, _: TraceId, _: Option<&TraceState>) {
        self.links = ArtifactChain::default();
    }

    fn entry(&mut self, entry: Result<Entry, ChainError>, body: Option<&[u8]>) {
        let entry = entry.unwrap();
        let link = ArtifactHeader::read(entry.artifact_type, body.unwrap()).unwrap();
        self.links.follow(&entry, link).unwrap();
        self.reserves = entry.to_state == State::Executing;
    }

    fn reserved(&self) -> Option<ReservedKey<'_>> {
        self.links.reserved().filter(|_| self.reserves)
    }

    fn unreserved(&mut self, what: Unreserved) {
        self.unreserved.insert((what.trace_id, what.sequence_number, what.reason));
    }
}

/// What a scan tells of keys.
pub fn told(store: &dyn Store) -> Result<BTreeSet<(TraceId, u64, &'static str)>, StoreError> {
    let mut keys = Keys::default();
    store.scan(&mut keys)?;
    Ok(keys.unreserved)
}

/// Two calls whose keys are filed by their numbers, and one that waited for its approval until it was
/// filed itself, so that its key has a record in full.
fn calls(place: &Place) -> [Trace; 3] {
    let make = fixture(0);
    let calls = [(); 3].map(|()| make.call(Ending::Completed));
    let store = place.open();
    let [one, two, waiting] = &calls;
    for call in [one, two] {
        let key = call.reserve();
        store.append(Append { key, ..call.create(4, After::Release) }).unwrap();
    }
    store.append(waiting.create(2, After::Release)).unwrap();
    drop(store);
    let store = place.open();
    let lease = store.acquire(waiting.trace_id).unwrap();
    let key = waiting.reserve();
    store.append(Append { key, ..waiting.append(&lease, 2, 2) }).unwrap();
    store.release(lease).unwrap();
    assert_eq!(told(&store).unwrap(), BTreeSet::new());
    calls
}

#[test]
fn a_key_that_is_not_on_record_as_the_entries_say_is_told() {
    const LOST: (u64, &str) = (3, Unreserved::LOST);
    const EXTRA: (u64, &str) = (1, Unreserved::EXTRA);
    for (sql, expected) in [
        ("DELETE FROM keys WHERE trace_number = 2", vec![(1, LOST)]),
        ("UPDATE keys SET hash = hash + 1 WHERE trace_number = 2", vec![(1, LOST), (1, EXTRA)]),
        ("UPDATE keys SET trace_number = 1 WHERE trace_number = 2", vec![(1, LOST), (0, EXTRA)]),
        (
            "UPDATE keys SET trace_number = 3 - trace_number",
            vec![(0, LOST), (0, EXTRA), (1, LOST), (1, EXTRA)],
        ),
        ("INSERT INTO keys VALUES (7, 2)", vec![(1, EXTRA)]),
        ("DELETE FROM keys", vec![(0, LOST), (1, LOST)]),
        ("DELETE FROM idempotency", vec![(2, LOST)]),
        (
            "UPDATE idempotency SET trace_id = (SELECT trace_id FROM traces WHERE trace_number = 1)",
            vec![(2, LOST)],
        ),
        ("UPDATE idempotency SET idempotency_key = 'another'", vec![(2, LOST)]),
        // What an entry has for the record of its key is not in its digest.
        (
            "UPDATE entries SET server_id = 'another' WHERE id = (2 << 24) + 3",
            vec![(1, LOST), (1, EXTRA)],
        ),
        (
            "UPDATE entries SET tool_name = NULL WHERE id = (2 << 24) + 3",
            vec![(1, LOST), (1, EXTRA)],
        ),
        (
            "UPDATE entries SET request_digest = zeroblob(32) WHERE id = (2 << 24) + 3",
            vec![(1, LOST)],
        ),
    ] {
        let place = Place::new();
        let traces = calls(&place);
        assert!(meddle(&place.tamper(), sql) > 0, "{sql}");
        let expected = expected
            .into_iter()
            .map(|(at, (sequence_number, reason))| (traces[at].trace_id, sequence_number, reason))
            .collect();
        assert_eq!(told(&place.open()).unwrap(), expected, "{sql}");
    }
}

#[test]
fn a_key_of_a_trace_of_which_nothing_is_left_is_an_error() {
    let place = Place::new();
    calls(&place);
    meddle(&place.tamper(), "INSERT INTO keys VALUES (7, 99)");
    let error = told(&place.open()).unwrap_err();
    assert_eq!(error.code(), Code::StoreCorrupt);
    assert!(error.to_string().contains("nothing is left"), "{error}");
}

#[test]
fn a_key_of_a_trace_that_is_not_filed_is_told_too() {
    let place = Place::new();
    let call = fixture(0).call(Ending::Completed);
    let store = place.open();
    store.append(Append { key: call.reserve(), ..call.create(3, After::Keep) }).unwrap();
    assert_eq!(told(&store).unwrap(), BTreeSet::new());
    let sql = "UPDATE entries SET tool_name = 'another' WHERE id = (1 << 24) + 3";
    assert_eq!(meddle(&place.tamper(), sql), 1);
    let expected = BTreeSet::from([(call.trace_id, 3, Unreserved::LOST)]);
    assert_eq!(told(&store).unwrap(), expected);
}
