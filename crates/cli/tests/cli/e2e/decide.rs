//! `windlass call show`, `list`, `approve` and `deny`.

use crate::e2e::snapshot::check;
use crate::harness::{Place, text_of};

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const VOICE: [&str; 4] = ["--by", "ada", "--reason", "looked at it"];

fn decide(place: &Place, word: &str, id: &str, more: &[&str]) -> crate::harness::Outcome {
    place.run(&[&["call", word, id][..], &VOICE, more].concat())
}

#[test]
fn a_held_call_is_listed_shown_and_decided_once() {
    let place = Place::with_project();
    place.completed();
    let id = place.held();
    let outcomes = [
        place.run(&["call", "list"]).exit(0).quiet(),
        place.run(&["call", "list", "--held"]).exit(0).quiet(),
        place.run(&["call", "show", &id]).exit(0).quiet(),
        decide(&place, "approve", &id, &[]).exit(0).quiet(),
        decide(&place, "approve", &id, &[]).fails_with(1, "DECISION_ALREADY_MADE"),
        decide(&place, "deny", &id, &[]).fails_with(1, "DECISION_ALREADY_MADE"),
        place.run(&["call", "list", "--held"]).exit(0),
    ];
    let outcomes = outcomes.map(|mut outcome| {
        // What the shell's environment is differs between machines.
        let text = outcome.text().to_owned();
        let lines = text.lines().filter(|line| !line.starts_with("  stdout"));
        outcome.stdout = lines.map(|line| format!("{line}\n")).collect::<String>().into_bytes();
        outcome
    });
    check("decide", &place, &outcomes);
}

#[test]
fn a_denied_call_stays_denied() {
    let place = Place::with_project();
    let id = place.held();
    let denied = decide(&place, "deny", &id, &["--json"]).exit(0).quiet().json();
    assert_eq!(denied["state"], "DENIED");
    assert_eq!(denied["refusal"]["code"], "DENIED_BY_PERSON");
    assert_eq!(denied["refusal"]["reason"], "looked at it");
    decide(&place, "approve", &id, &[]).fails_with(1, "DECISION_ALREADY_MADE");
    place.run(&["call", "show", &id]).exit(0).says("looked at it [DENIED_BY_PERSON]");
    place.run(&["recover", &id]).exit(3);
    place.run(&["trace", "log", &id, "--artifacts"]).exit(0).says(r#""name": "ada""#);
}

#[test]
fn an_ended_call_cannot_be_decided() {
    let place = Place::with_project();
    let id = place.completed();
    let error = decide(&place, "approve", &id, &["--json"]).exit(1).error();
    assert_eq!(error["code"], "DECISION_ALREADY_MADE");
    assert!(error["hint"].as_str().unwrap().contains("call show"));
}

#[test]
fn a_person_cannot_approve_what_policy_denies_meanwhile() {
    let place = Place::with_project();
    let id = place.held();
    place.replace(
        ".windlass/policy/default.toml",
        "id = \"ask-before-showing-the-environment\"\nverdict = \"ask\"",
        "id = \"ask-before-showing-the-environment\"\nverdict = \"deny\"",
    );
    decide(&place, "approve", &id, &[]).fails_with(3, "POLICY_DENIED");
    place.run(&["call", "list", "--held"]).exit(0).says(&id);
    decide(&place, "deny", &id, &[]).exit(0);
}

#[test]
fn ids_are_ids_and_nothing_else() {
    let place = Place::with_project();
    let paths =
        ["../../etc/passwd", "", "x", "01890A5D-AC96-774B-BCCE-B302099A8057", "%2e%2e", "a\u{1b}b"];
    for id in paths {
        for words in [vec!["call", "show"], vec!["trace", "show"], vec!["trace", "log"]] {
            let words = [&words[..], &[id]].concat();
            let outcome = place.run(&words).fails_with(2, "ID_INVALID").warns("trace list");
            assert!(!outcome.stderr.contains('\u{1b}'), "{outcome}");
        }
        decide(&place, "approve", id, &[]).fails_with(2, "ID_INVALID");
        decide(&place, "deny", id, &[]).fails_with(2, "ID_INVALID");
        place.run(&["recover", id]).fails_with(2, "ID_INVALID");
        place.run(&["verify", id]).fails_with(2, "ID_INVALID");
        place.run(&["trace", "list", "--before", id]).fails_with(2, "ID_INVALID");
    }
}

#[test]
fn an_id_that_nothing_has_is_told() {
    let place = Place::with_project();
    for words in [
        vec!["call", "show", UNKNOWN],
        vec!["trace", "show", UNKNOWN],
        vec!["trace", "log", UNKNOWN],
        vec!["recover", UNKNOWN],
        vec!["verify", UNKNOWN],
    ] {
        place.run(&words).fails_with(2, "TRACE_NOT_FOUND").warns(UNKNOWN).warns("trace list");
    }
    decide(&place, "approve", UNKNOWN, &[]).fails_with(2, "TRACE_NOT_FOUND");
    decide(&place, "deny", UNKNOWN, &[]).fails_with(2, "TRACE_NOT_FOUND");
}

#[test]
fn who_decides_and_why_must_be_said() {
    let place = Place::with_project();
    let id = place.held();
    place.run(&["people", "add", "bob"]).exit(0);
    place.run(&["people", "revoke", "owner"]).exit(0);
    place.run(&["people", "add", "cid"]).exit(0);
    let nobody = ["call", "approve", &id, "--reason", "x"];
    place.run(&nobody).fails_with(2, "REQUEST_INVALID").warns("say who decides").warns("--by NAME");
    place.run(&["call", "approve", &id, "--by", "ada"]).exit(2).warns("--reason <TEXT>");
    let empty = ["call", "approve", &id, "--by", " ", "--reason", "x"];
    place.run(&empty).fails_with(2, "REQUEST_INVALID");
    let long = "x".repeat(5000);
    let long = ["call", "deny", &id, "--by", "ada", "--reason", &long];
    place.run(&long).fails_with(2, "REQUEST_INVALID");
    place.run(&["call", "list", "--held"]).exit(0).says(&id);
}

#[test]
fn lists_are_filtered() {
    let place = Place::with_project();
    let done = place.completed();
    let held = place.held();
    let ids = |words: &[&str]| -> Vec<String> {
        let list = place.run(&[&["call", "list", "--json"], words].concat()).exit(0).json();
        list.as_array().unwrap().iter().map(|row| text_of(row, "trace_id")).collect()
    };
    assert_eq!(ids(&[]), [held.clone(), done.clone()]);
    assert_eq!(ids(&["--open"]), [held.as_str()]);
    assert_eq!(ids(&["--held"]), [held.as_str()]);
    assert_eq!(ids(&["--state", "completed"]), [done.as_str()]);
    assert_eq!(ids(&["--state", "FAILED"]), [""; 0]);
    assert_eq!(ids(&["--before", &held]), [done]);
    assert_eq!(ids(&["--limit", "1"]), [held]);
    assert_eq!(ids(&["--limit", "0"]), [""; 0]);
    let plain = place.run(&["call", "list", "--ids"]).exit(0).stdout;
    let plain = String::from_utf8(plain).unwrap();
    assert_eq!(plain.lines().map(str::to_owned).collect::<Vec<_>>(), ids(&[]));
    let unknown = place.run(&["call", "list", "--state", "gone"]);
    unknown.fails_with(2, "REQUEST_INVALID").warns("`gone`").warns("COMPLETED");
}
