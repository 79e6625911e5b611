//! `windlass recover`, and what a new process says about the calls of a dead one.

use crate::e2e::snapshot::check;
use crate::harness::Place;

#[test]
fn nothing_to_recover_is_said() {
    let place = Place::with_project();
    place.completed();
    let outcomes = [
        place.run(&["recover"]).exit(0).quiet(),
        place.run(&["recover", "--json"]).exit(0).quiet(),
    ];
    check("recover_nothing", &place, &outcomes);
}

#[test]
fn interrupted_calls_are_taken_up_by_their_rule() {
    let place = Place::with_server();
    let done = place.completed();
    let held = place.held();
    let hold = place.interrupted("count/add", "{}");
    let again = place.interrupted("count/again", "{}");
    let undone = place.interrupted("count/undoable", "{}");
    let command = place.interrupted("shell/run", r#"{"line":"echo x >> note"}"#);
    let doctor = place.run(&["doctor"]).exit(0).says("`windlass recover`");
    let all = place.run(&["recover"]).exit(4).quiet();
    for id in [&held, &hold, &again, &undone, &command] {
        assert!(all.text().contains(id.as_str()), "{all}");
    }
    assert!(!all.text().contains(&done), "{all}");
    let outcomes = [
        all,
        place.run(&["recover"]).exit(4).quiet(),
        place.run(&["recover", &held]).exit(4).quiet(),
        place.run(&["recover", &hold]).exit(4).quiet(),
        place.run(&["recover", &again]).exit(0).quiet(),
        place.run(&["recover", &undone]).exit(1).quiet(),
        place.run(&["call", "show", &again]).exit(0).quiet(),
        place.run(&["call", "list", "--held"]).exit(0).quiet(),
    ];
    assert_eq!(place.read("note"), "x\n", "a command is not run twice by itself");
    check("recover", &place, &outcomes);
    drop(doctor);
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_new_call_takes_up_what_is_interrupted_and_says_so_beside_its_data() {
    let place = Place::with_server();
    let again = place.interrupted("count/again", "{}");
    let hold = place.interrupted("count/add", "{}");
    let outcome = place.shell("shell/read", "ls", &["--json"]).exit(0);
    assert_eq!(outcome.json()["state"], "COMPLETED");
    let outcome = outcome.warns(&format!("recovered {again}: COMPLETED, dispatched again"));
    assert!(!outcome.stderr.contains(&hold), "what waits for a person is left alone: {outcome}");
    place.shell("shell/read", "ls", &[]).exit(0).quiet();
    assert_eq!(place.executed(), 3);
}

#[test]
fn an_uncertain_call_is_decided_by_a_person() {
    let place = Place::with_server();
    let voice = ["--by", "ada", "--reason", "checked by hand"];
    let one = place.interrupted("count/add", "{}");
    let two = place.interrupted("count/add", "{}");
    let three = place.interrupted("count/add", "{}");
    let outcomes = [
        place.run(&["call", "show", &one]).exit(0),
        place.run(&[&["call", "approve", &one][..], &voice].concat()).exit(2),
        place.run(&[&["call", "settle", "--not-run", &one][..], &voice].concat()).exit(0),
        place.run(&[&["call", "settle", "--failed", &two][..], &voice].concat()).exit(0),
        place.run(&[&["call", "settle", "--ran", &three][..], &voice].concat()).exit(0),
        place.run(&["recover", &two]).exit(1).says("[TOOL_OUTCOME_UNKNOWN]"),
    ];
    assert_eq!(place.executed(), 4);
    check("recover_decided", &place, &outcomes);
}

#[test]
fn a_corrupt_trace_stops_itself_and_no_other() {
    let place = Place::with_server();
    let bad = place.interrupted("count/again", "{}");
    let good = place.interrupted("count/again", "{}");
    let change = "UPDATE entries SET ts = ts + 1 \
                  WHERE id % 16777216 = 2 AND lower(hex(trace_id)) = ?1";
    let changed = place.meddle(change, [bad.replace('-', "")]);
    assert_eq!(changed, 1);
    let before = place.run(&["trace", "log", &bad, "--json"]);
    let all = place.run(&["recover"]).exit(5).quiet();
    let all = all.says(&good).says("COMPLETED, dispatched again").says(&bad);
    let all = all.says("[STATE_CHECKSUM_MISMATCH]");
    let json = place.run(&["recover", "--json"]).exit(5).json();
    assert_eq!(json[0]["trace_id"], bad);
    assert_eq!(json[0]["error"]["code"], "STATE_CHECKSUM_MISMATCH");
    place.run(&["recover", &bad]).fails_with(5, "STATE_CHECKSUM_MISMATCH");
    place.run(&["recover", &good]).exit(0);
    let after = place.run(&["trace", "log", &bad, "--json"]);
    assert_eq!(before.stdout, after.stdout, "nothing is repaired");
    // A new call is told about it and made all the same.
    place.shell("shell/read", "ls", &[]).exit(0).warns(&bad).warns("STATE_CHECKSUM_MISMATCH");
    assert_eq!(place.executed(), 3);
    check("recover_corrupt", &place, &[all]);
}
