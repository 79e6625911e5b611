//! `windlass grant`: what runs without a question, how often, and what never does.

use serde_json::Value;

use crate::harness::{Outcome, Place, text_of};

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const PUSH: &str = "git push origin main";

fn add(place: &Place, words: &[&str]) -> Outcome {
    place.run(&[&["grant", "add"], words, &["--reason", "the release", "--json"]].concat())
}

fn given(place: &Place, words: &[&str]) -> String {
    text_of(&add(place, words).exit(0).json(), "trace_id")
}

fn show(place: &Place, id: &str) -> Value {
    place.run(&["grant", "show", id, "--json"]).exit(0).json()
}

/// Makes a call under a new key; its state.
fn state(place: &Place, line: &str) -> String {
    let outcome = place.shell("shell/run", line, &["--new-key", "--json"]);
    text_of(&outcome.json(), "state")
}

#[test]
fn a_grant_is_given_used_listed_and_used_up() {
    let place = Place::with_project();
    place.run(&["grant", "list"]).exit(0).says("no grants");
    let line = "echo x > CLAUDE.md";
    assert_eq!(state(&place, line), "PENDING");
    let id = given(&place, &["shell/run", "--path", "CLAUDE.md", "--times", "2"]);
    place.run(&["grant", "list"]).exit(0).says(&id).says("CLAUDE.md").says("0 of 2").says("open");
    let made = place.shell("shell/run", line, &["--key", "one", "--json"]).exit(0).json();
    let call = text_of(&made, "trace_id");
    place
        .run(&["call", "show", &call])
        .exit(0)
        .says(&format!("APPROVE by owner, by the grant {id}"));
    place
        .run(&["trace", "log", &call, "--artifacts"])
        .exit(0)
        .says(&format!("\"grant\": \"{id}\""));
    let shown = show(&place, &id);
    assert_eq!((&shown["used"], &shown["uses"][0]["call"]), (&1.into(), &call.clone().into()));
    // The same key is answered from the record, and counts once.
    place.shell("shell/run", line, &["--key", "one"]).exit(0);
    assert_eq!(state(&place, line), "COMPLETED");
    assert_eq!(state(&place, line), "PENDING");
    assert_eq!(show(&place, &id)["status"], "used_up");
    place.run(&["grant", "list", "--json"]).exit(0).says("[]");
    place.run(&["grant", "list", "--all"]).exit(0).says("2 of 2").says("used up");
    place.run(&["grant", "list", "--all", "--ids"]).exit(0).says(&id);
    place.run(&["grant", "show", &id]).exit(0).says(&format!("by call {call}"));
    let words = ["grant", "revoke", &id, "--reason", "late"];
    place.run(&words).fails_with(3, "GRANT_ENDED").warns("used up").warns("grant show");
    place.run(&["trace", "show", &id]).exit(0).says("WITHDRAWN grant");
    place.run(&["trace", "list"]).exit(0).says("WITHDRAWN");
    place.run(&["verify"]).exit(0);
    place.run(&["verify", &id]).exit(0);
    place.run(&["verify", &call]).exit(0);
}

#[test]
fn what_is_denied_hidden_or_not_covered_is_not_let_through() {
    let place = Place::with_project();
    let id = given(&place, &["shell/run", "--command", "git push *", "--times", "9"]);
    for (line, expected) in [
        ("git push --force origin main", "DENIED"),
        ("git push origin main && git push --force", "DENIED"),
        ("git push $(cat x)", "PENDING"),
        ("git push origin main && cargo add serde", "PENDING"),
        ("git push origin main && echo x > CLAUDE.md", "PENDING"),
    ] {
        let found = state(&place, line);
        assert_ne!(found, "COMPLETED", "{line}");
        assert_ne!(found, "FAILED", "{line}");
        assert!(found == expected || expected == "PENDING" && found == "DENIED", "{line}: {found}");
    }
    assert_eq!(show(&place, &id)["used"], 0);
    // It ran, and failed because there is no repository to push to.
    assert_eq!(state(&place, PUSH), "FAILED");
    assert_eq!(show(&place, &id)["used"], 1);
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_revoked_or_expired_grant_is_over() {
    let place = Place::with_project();
    let id = given(&place, &["shell/run", "--command", "git push *", "--times", "9"]);
    place.run(&["grant", "revoke", &id, "--reason", "enough"]).exit(0).says("revoked");
    assert_eq!(state(&place, PUSH), "PENDING");
    place.run(&["grant", "show", &id]).exit(0).says("enough").says("revoked");
    place.run(&["grant", "revoke", &id, "--reason", "x"]).fails_with(3, "GRANT_ENDED");
    // A grant of a person whose key was revoked counts no more.
    place.run(&["people", "add", "bob"]).exit(0);
    let id = given(&place, &["shell/run", "--command", "git push *", "--by", "bob"]);
    place.run(&["people", "revoke", "bob"]).exit(0);
    assert_eq!(state(&place, PUSH), "PENDING");
    assert_eq!(show(&place, &id)["used"], 0);
    place.run(&["verify"]).exit(0);
}

#[test]
fn bad_grants_are_refused() {
    let place = Place::with_project();
    for (words, exit, code) in [
        (&[""][..], 2, "REQUEST_INVALID"),
        (&["shell/run", "--command", ""], 2, "REQUEST_INVALID"),
        (&["shell/run", "--command", "{"], 2, "REQUEST_INVALID"),
        (&["nothing/here"], 2, "REQUEST_INVALID"),
        (&["shell/run", "--command", "ls x", "--times", "0"], 2, "REQUEST_INVALID"),
        (&["shell/run", "--command", "ls x", "--times", "1001"], 2, "REQUEST_INVALID"),
        (&["shell/run", "--command", "ls x", "--for", "31d"], 2, "REQUEST_INVALID"),
        (&["shell/run", "--command", "ls x", "--for", "0h"], 2, "REQUEST_INVALID"),
        (&["shell/run", "--command", "ls x", "--for", "soon"], 2, "REQUEST_INVALID"),
        (
            &["shell/run", "--command", "ls x", "--until", "2020-01-01T00:00:00Z"],
            2,
            "REQUEST_INVALID",
        ),
        (&["shell/run", "--command", "ls x", "--until", "tomorrow"], 2, "REQUEST_INVALID"),
        (&["shell/run", "--run", "nowhere"], 2, "RUN_NOT_FOUND"),
        (&["*"], 3, "GRANT_TOO_WIDE"),
        (&["*", "--command", "*"], 3, "GRANT_TOO_WIDE"),
        (&["shell/run"], 3, "GRANT_TOO_WIDE"),
        (&["shell/run", "--command", "git push --force *"], 3, "POLICY_DENIED"),
        (&["shell/run", "--command", "ls x", "--by=nobody"], 3, "PERSON_UNKNOWN"),
    ] {
        let error = add(&place, words).exit(exit).error();
        assert_eq!(error["code"], code, "{words:?}: {error}");
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{words:?}: {error}");
    }
    place.run(&["grant", "list", "--all", "--json"]).exit(0).says("[]");
    // What a person wanted and was refused is on record.
    let calls = place.run(&["call", "list", "--json"]).exit(0).json();
    assert_eq!(calls[0]["tool"], "windlass/grant", "{calls}");
    let call = place.completed();
    for id in [UNKNOWN, &call] {
        place.run(&["grant", "show", id]).fails_with(2, "GRANT_NOT_FOUND");
        place.run(&["grant", "revoke", id, "--reason", "x"]).fails_with(2, "GRANT_NOT_FOUND");
    }
    place.run(&["grant", "show", "x"]).fails_with(2, "ID_INVALID");
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_key_with_a_passphrase_signs_a_grant() {
    let place = Place::with_project();
    let by = place.protect("ann");
    let words = [&["shell/run", "--command", "git push *"][..], &by].concat();
    let id = given(&place, &words);
    let shown = show(&place, &id);
    assert_eq!(shown["granted"]["by"], "ann");
    assert_eq!(shown["terms"]["times"], 1);
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_forged_grant_is_found_and_lets_nothing_run() {
    let place = Place::with_project();
    let id = given(&place, &["shell/run", "--command", "git push *"]);
    let change = "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), '\"times\":1,', '\"times\":9,') AS BLOB) \
                  WHERE CAST(body AS TEXT) LIKE '%\"times\":1,%'";
    assert_eq!(place.meddle(change, []), 1);
    place.run(&["verify"]).exit(5).says(&id);
    place.run(&["grant", "show", &id]).exit(5);
    assert_eq!(state(&place, PUSH), "PENDING");
}

#[test]
fn a_process_in_a_cell_cannot_grant() {
    let place = Place::with_project();
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let line = format!("{windlass} grant add shell/run --command 'git push *' --reason mine");
    let made = place.shell("shell/run", &line, &["--new-key", "--json"]);
    let report = made.json();
    // Policy asks about a program that it does not know; a person who lets it run grants nothing by that.
    if report["state"] == "PENDING" {
        let id = text_of(&report, "trace_id");
        place.run(&["call", "approve", &id, "--reason", "try"]);
    }
    place.run(&["grant", "list", "--all", "--json"]).exit(0).says("[]");
}
