//! A scan reports keys whose records do not match the entries: their calls could run twice.

use std::collections::BTreeSet;

use windlass_kernel::{
    ArtifactChain, ArtifactHeader, ChainError, Code, Entry, ReservedKey, State, TraceId,
};
use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store::{After, Append, KeyMismatch, Store, StoreError, TraceState, Visitor};

use crate::support::{Place, fixture, meddle};

/// Expects the key that the artifacts of each call name, and collects the mismatches.
#[derive(Default)]
struct Keys {
    links: ArtifactChain,
    mismatches: BTreeSet<(TraceId, u64, &'static str)>,
}

impl Visitor for Keys {
    fn trace(&mut self, _: TraceId, _: Option<&TraceState>) {
        self.links = ArtifactChain::default();
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>> {
        let entry = entry.unwrap();
        let link = ArtifactHeader::read(entry.artifact_type, body.unwrap()).unwrap();
        self.links.follow(&entry, link).unwrap();
        self.links.reserved().filter(|_| entry.to_state == State::Executing)
    }

    fn key_mismatch(&mut self, mismatch: KeyMismatch) {
        let KeyMismatch { trace_id, sequence_number, reason } = mismatch;
        self.mismatches.insert((trace_id, sequence_number, reason));
    }
}

/// The mismatches that a scan reports.
pub fn mismatches(store: &dyn Store) -> Result<BTreeSet<(TraceId, u64, &'static str)>, StoreError> {
    let mut keys = Keys::default();
    store.scan(&mut keys)?;
    Ok(keys.mismatches)
}

/// Two calls whose keys were indexed with their traces, and one that reserved its key after its trace was
/// indexed.
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
    assert_eq!(mismatches(&store).unwrap(), BTreeSet::new());
    calls
}

#[test]
fn a_key_whose_record_does_not_match_the_entries_is_reported() {
    const MISSING: (u64, &str) = (3, KeyMismatch::MISSING);
    const UNEXPECTED: (u64, &str) = (1, KeyMismatch::UNEXPECTED);
    for (sql, expected) in [
        ("DELETE FROM keys WHERE trace_number = 2", vec![(1, MISSING)]),
        (
            "UPDATE keys SET hash = hash + 1 WHERE trace_number = 2",
            vec![(1, MISSING), (1, UNEXPECTED)],
        ),
        (
            "UPDATE keys SET trace_number = 1 WHERE trace_number = 2",
            vec![(1, MISSING), (0, UNEXPECTED)],
        ),
        (
            "UPDATE keys SET trace_number = 3 - trace_number WHERE trace_number < 3",
            vec![(0, MISSING), (0, UNEXPECTED), (1, MISSING), (1, UNEXPECTED)],
        ),
        ("INSERT INTO keys VALUES (7, 2)", vec![(1, UNEXPECTED)]),
        ("DELETE FROM keys", vec![(0, MISSING), (1, MISSING), (2, MISSING)]),
        ("DELETE FROM keys WHERE trace_number = 3", vec![(2, MISSING)]),
        (
            "UPDATE keys SET trace_number = 1 WHERE trace_number = 3",
            vec![(2, MISSING), (0, UNEXPECTED)],
        ),
        (
            "UPDATE keys SET hash = hash + 1 WHERE trace_number = 3",
            vec![(2, MISSING), (2, UNEXPECTED)],
        ),
        // The digest of an entry does not cover the reservation.
        (
            "UPDATE entries SET server_id = 'another' WHERE id = (2 << 24) + 3",
            vec![(1, MISSING), (1, UNEXPECTED)],
        ),
        (
            "UPDATE entries SET tool_name = NULL WHERE id = (2 << 24) + 3",
            vec![(1, MISSING), (1, UNEXPECTED)],
        ),
        (
            "UPDATE entries SET request_digest = zeroblob(32) WHERE id = (2 << 24) + 3",
            vec![(1, MISSING)],
        ),
    ] {
        let place = Place::new();
        let traces = calls(&place);
        assert!(meddle(&place.tamper(), sql) > 0, "{sql}");
        let expected = expected
            .into_iter()
            .map(|(at, (sequence_number, reason))| (traces[at].trace_id, sequence_number, reason))
            .collect();
        assert_eq!(mismatches(&place.open()).unwrap(), expected, "{sql}");
    }
}

#[test]
fn a_key_of_a_trace_of_which_nothing_is_left_is_an_error() {
    let place = Place::new();
    calls(&place);
    meddle(&place.tamper(), "INSERT INTO keys VALUES (7, 99)");
    let error = mismatches(&place.open()).unwrap_err();
    assert_eq!(error.code(), Code::StoreCorrupt);
    assert!(error.to_string().contains("nothing is left"), "{error}");
}

#[test]
fn a_key_of_an_unindexed_trace_is_reported_too() {
    let place = Place::new();
    let call = fixture(0).call(Ending::Completed);
    let store = place.open();
    store.append(Append { key: call.reserve(), ..call.create(3, After::Keep) }).unwrap();
    assert_eq!(mismatches(&store).unwrap(), BTreeSet::new());
    let sql = "UPDATE entries SET tool_name = 'another' WHERE id = (1 << 24) + 3";
    assert_eq!(meddle(&place.tamper(), sql), 1);
    let expected = BTreeSet::from([(call.trace_id, 3, KeyMismatch::MISSING)]);
    assert_eq!(mismatches(&store).unwrap(), expected);
}

/// The record is found and matches, before and after the trace is indexed.
#[test]
fn a_key_that_no_entry_names_is_reserved_like_any_other() {
    let place = Place::new();
    let store = place.open();
    let call = fixture(0).call(Ending::Completed);
    let append = Append { key: call.reserve(), ..call.create(2, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    store.append(call.append(&lease, 2, 2)).unwrap();
    let check = |store: &dyn Store| {
        assert_eq!(mismatches(store).unwrap(), BTreeSet::new());
        let record = store.load_idempotency(&call.slot()).unwrap().unwrap();
        assert_eq!(Some(record.reservation), call.reservation);
        assert_eq!(record.trace_id, call.trace_id);
        assert_eq!(record.effect_digest, Some(call.entry(4).entry.artifact_digest));
    };
    check(&store);
    drop(store);
    check(&place.open());
}
