//! `windlass verify` on the journal, whole and tampered with.

use crate::e2e::snapshot::check;
use crate::harness::Place;

#[test]
fn a_whole_journal_is_said_to_be_whole() {
    let place = Place::with_project();
    let id = place.completed();
    place.held();
    let outcomes = [
        place.run(&["verify"]).exit(0).quiet(),
        place.run(&["verify", "--all"]).exit(0).quiet(),
        place.run(&["verify", "--json"]).exit(0).quiet(),
        place.run(&["verify", &id]).exit(0).quiet(),
        place.run(&["verify", &id, "--json"]).exit(0).quiet(),
    ];
    check("verify", &place, &outcomes);
}

/// A name, what is done to the only trace, the code it is found by, and at which entry.
const TAMPERINGS: &[(&str, &str, &str, u64)] = &[
    (
        "an entry in the middle is gone",
        "DELETE FROM entries WHERE id % 16777216 = 2",
        "STATE_SEQUENCE_GAP",
        2,
    ),
    (
        "the last entry is gone",
        "DELETE FROM entries WHERE id % 16777216 = 4",
        "STATE_SEQUENCE_GAP",
        4,
    ),
    ("all entries are gone", "DELETE FROM entries", "STATE_SEQUENCE_GAP", 1),
    (
        "two entries have changed places",
        "UPDATE entries SET id = id + 100 WHERE id % 16777216 = 2;
         UPDATE entries SET id = id - 1 WHERE id % 16777216 = 3;
         UPDATE entries SET id = id - 99 WHERE id % 16777216 = 102",
        "STATE_CHECKSUM_MISMATCH",
        2,
    ),
    (
        "a time is changed",
        "UPDATE entries SET ts = ts + 1 WHERE id % 16777216 = 3",
        "STATE_CHECKSUM_MISMATCH",
        3,
    ),
    (
        "a key is changed",
        "UPDATE entries SET idempotency_key = 'other' WHERE id % 16777216 = 3",
        "STATE_CHECKSUM_MISMATCH",
        3,
    ),
    (
        "a state is changed",
        "UPDATE entries SET to_state = 'FAILED' WHERE id % 16777216 = 4",
        "STATE_CHECKSUM_MISMATCH",
        4,
    ),
    (
        "a step is changed",
        "UPDATE entries SET from_state = 'PENDING' WHERE id % 16777216 = 3",
        "STATE_INVALID_TRANSITION",
        3,
    ),
    (
        "a state is none",
        "UPDATE entries SET to_state = 'NONSENSE' WHERE id % 16777216 = 2",
        "STATE_CHECKSUM_MISMATCH",
        2,
    ),
    (
        "a link is changed",
        "UPDATE entries SET prev_entry_digest = zeroblob(32) WHERE id % 16777216 = 2",
        "STATE_CHECKSUM_MISMATCH",
        2,
    ),
    (
        "a digest is changed",
        "UPDATE entries SET entry_digest = zeroblob(32) WHERE id % 16777216 = 4",
        "STATE_CHECKSUM_MISMATCH",
        4,
    ),
    (
        "a digest is cut",
        "UPDATE entries SET artifact_digest = zeroblob(31) WHERE id % 16777216 = 2",
        "STATE_CHECKSUM_MISMATCH",
        2,
    ),
    (
        "an artifact is changed",
        "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), 'one', 'two') AS BLOB)
         WHERE id % 16777216 = 1",
        "STATE_CHECKSUM_MISMATCH",
        1,
    ),
    (
        "an artifact is empty",
        "UPDATE entries SET body = x'' WHERE id % 16777216 = 4",
        "STATE_CHECKSUM_MISMATCH",
        4,
    ),
    (
        "the recorded head is another",
        "UPDATE traces SET last_entry_digest = zeroblob(32)",
        "STATE_CHECKSUM_MISMATCH",
        4,
    ),
    (
        "the recorded head is behind",
        "UPDATE traces SET last_sequence_number = 3",
        "STATE_SEQUENCE_GAP",
        4,
    ),
    (
        "the recorded state is another",
        "UPDATE traces SET state = 'FAILED'",
        "STATE_CHECKSUM_MISMATCH",
        4,
    ),
];

#[test]
fn every_tampering_is_found_and_nothing_is_repaired() {
    for (name, sql, code, at) in TAMPERINGS {
        let place = Place::with_project();
        let id = place.completed();
        place.tamper().execute_batch(sql).unwrap();
        {
            let all = place.run(&["verify", "--json"]).exit(5).quiet().json();
            assert_eq!(all["chain_valid"], false, "{name}");
            assert_eq!(all["broken"], 1, "{name}: {all}");
            let problem = &all["problems"][0];
            assert_eq!(problem["trace_id"], id, "{name}: {all}");
            assert_eq!(problem["error_code"], *code, "{name}: {all}");
            assert_eq!(problem["divergence_point"], *at, "{name}: {all}");
            place.run(&["verify"]).exit(5).quiet().says(&format!("[{code}]"));
        }
        let one = place.run(&["verify", &id, "--json"]).exit(5).quiet().json();
        assert_eq!(one["error_code"], *code, "{name}: {one}");
        assert_eq!(one["divergence_point"], *at, "{name}: {one}");
        place.run(&["verify", &id]).exit(5).quiet().says(&format!("[{code}]"));
        // It can still be looked at, and the others still work.
        place.run(&["trace", "show", &id]).exit(0);
        place.completed();
    }
}

/// With its key's record gone, the same call would run again.
#[test]
fn a_key_that_is_not_on_record_is_found() {
    for sql in [
        "DELETE FROM keys",
        "UPDATE keys SET hash = hash + 1",
        "UPDATE keys SET trace_number = trace_number + 1",
        "UPDATE entries SET server_id = 'other' WHERE id % 16777216 = 3",
        "UPDATE entries SET request_digest = zeroblob(32) WHERE id % 16777216 = 3",
    ] {
        let place = Place::with_project();
        let outcome = place.shell("shell/read", "echo one", &["--key", "k-1", "--json"]).exit(0);
        let id = outcome.json()["trace_id"].as_str().unwrap().to_owned();
        place.completed();
        place.run(&["verify"]).exit(0);
        place.tamper().execute_batch(sql).unwrap();
        for words in [&["verify"][..], &["verify", &id]] {
            let verified = place.run(words).exit(5).quiet();
            let verified = verified.says(&id).says("its idempotency key is not reserved");
            verified.says("[STATE_CHECKSUM_MISMATCH]");
        }
    }
}

#[test]
fn a_trace_without_its_head_is_found() {
    let place = Place::with_project();
    let id = place.completed();
    place.tamper().execute("DELETE FROM traces", []).unwrap();
    let all = place.run(&["verify", "--json"]).exit(5).json();
    assert_eq!(all["problems"][0]["trace_id"], id);
    assert_eq!(all["problems"][0]["error_code"], "STATE_SEQUENCE_GAP");
    place.run(&["verify", &id]).fails_with(2, "TRACE_NOT_FOUND");
}

#[test]
fn a_changed_checkpoint_is_found() {
    let place = Place::with_project();
    let id = place.held();
    let change = "UPDATE replay_points SET document = CAST(replace(CAST(document AS TEXT), \
                  'PENDING', 'EXECUTING') AS BLOB)";
    assert_eq!(place.tamper().execute(change, []).unwrap(), 1);
    let all = place.run(&["verify"]).exit(5);
    all.says(&id).says("[STATE_CHECKSUM_MISMATCH]");
    place.run(&["verify", &id]).exit(5);
    place.run(&["recover"]).exit(5);
}

/// An artifact replaced together with every digest from there on, as someone would who knows how.
#[test]
fn a_chain_that_was_written_anew_does_not_match_its_links() {
    let place = Place::with_project();
    let (one, two) = (place.completed(), place.completed());
    // The effect of one call is put under the other: both chains hold, the links do not.
    let number = |id: &str| -> i64 {
        let select = "SELECT trace_number FROM traces WHERE lower(hex(trace_id)) = ?1";
        place.tamper().query_row(select, [id.replace('-', "")], |row| row.get(0)).unwrap()
    };
    let swap = format!(
        "UPDATE entries SET body = (SELECT body FROM entries WHERE id = ({two} << 24) + 4),
                artifact_digest = (SELECT artifact_digest FROM entries WHERE id = ({two} << 24) + 4)
         WHERE id = ({one} << 24) + 4",
        one = number(&one),
        two = number(&two),
    );
    place.tamper().execute_batch(&swap).unwrap();
    place.run(&["verify"]).exit(5).says(&one);
    place.run(&["verify", &one]).exit(5);
    place.run(&["verify", &two]).exit(0);
    place.run(&["call", "show", &one]).exit(5).warns("[STATE_CHECKSUM_MISMATCH]");
}

#[test]
fn broken_traces_are_listed_for_people() {
    let place = Place::with_project();
    place.completed();
    place.completed();
    place.held();
    let change = "UPDATE entries SET ts = ts + 1 WHERE id % 16777216 = 2";
    assert_eq!(place.meddle(change, []), 2);
    let outcome = place.run(&["verify"]).exit(5).quiet();
    let id = place.ids().pop().unwrap();
    let one = place.run(&["verify", &id]).exit(5).quiet();
    let show = place.run(&["call", "show", &id]).exit(5);
    check("verify_broken", &place, &[outcome, one, show]);
}
