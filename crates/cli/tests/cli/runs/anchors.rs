//! Anchors: whole traces that are gone, cut or replaced behind the journal's back.

use serde_json::Value;

use crate::harness::{Outcome, Place, text_of};
use crate::states::copy;
use crate::world::VOICE;

#[track_caller]
fn anchor(place: &Place) -> Value {
    place.run(&["anchor", "../monday.anchor", "--json"]).exit(0).quiet().json()
}

fn compare(place: &Place) -> Outcome {
    place.run(&["verify", "--anchor", "../monday.anchor", "--json"]).quiet()
}

/// What was named, as pairs of a trace and what became of it, sorted.
#[track_caller]
fn named(found: &Value) -> Vec<(String, String)> {
    let all = found["changed"].as_array().expect("a list");
    let mut all: Vec<_> =
        all.iter().map(|one| (text_of(one, "trace_id"), text_of(one, "change"))).collect();
    all.sort();
    all
}

fn pair(id: &str, change: &str) -> (String, String) {
    (id.to_owned(), change.to_owned())
}

/// Counts of a report, in one order.
fn counts(found: &Value) -> [u64; 6] {
    ["traces", "intact", "grown", "missing", "shortened", "rewritten"]
        .map(|name| found[name].as_u64().expect("a count"))
}

fn decide(place: &Place, word: &str, id: &str) {
    place.run(&[&["call", word, id][..], &VOICE].concat());
}

#[test]
fn an_anchor_holds_while_traces_only_grow() {
    let place = Place::with_project();
    let said = anchor(&place);
    assert_eq!(said["traces"], 0);
    assert_eq!(counts(&compare(&place).exit(0).json()), [0; 6]);
    place.run(&["anchor", "../monday.anchor"]).fails_with(1, "FILE_UNWRITABLE").warns("--force");
    place.completed();
    let held = place.held();
    place.completed();
    let line = ["anchor", "../monday.anchor", "--force"];
    place.run(&line).exit(0).quiet().says("3 traces").says("signed by ");
    let found = compare(&place).exit(0).json();
    assert_eq!((counts(&found), &found["result"]), ([3, 3, 0, 0, 0, 0], &"holds".into()));
    assert_eq!(found["signer"], said["key_id"]);
    decide(&place, "deny", &held);
    place.completed();
    assert_eq!(counts(&compare(&place).exit(0).json()), [3, 2, 1, 0, 0, 0]);
    place
        .run(&["verify", "--anchor", "../monday.anchor"])
        .exit(0)
        .quiet()
        .says("intact: 3 traces, anchored 2")
        .says("2 unchanged, 1 grown");
    // Rotating does not end trust in what was signed before.
    place.run(&["keys", "rotate"]).exit(0);
    compare(&place).exit(0);
}

#[test]
fn a_journal_that_was_put_back_is_found_though_it_is_whole() {
    let place = Place::with_project();
    let untouched = place.completed();
    let held = place.held();
    let (folder, backup) = (place.state(), place.base().join("backup"));
    copy(&folder, &backup);
    decide(&place, "deny", &held);
    let gone = place.completed();
    anchor(&place);
    // The keys stay: only history is put back.
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path.file_name().unwrap().to_str().unwrap().starts_with("windlass.db")
        {
            std::fs::remove_file(path).unwrap();
        }
    }
    copy(&backup, &folder);
    // Whoever puts history back can put its witness back, too.
    place.run(&["verify"]).fails_with(5, "STORE_TRUNCATED");
    std::fs::remove_dir_all(place.state_root().join(".heads")).unwrap();
    place.run(&["verify"]).exit(0);
    let found = compare(&place).exit(5).json();
    let mut expected = vec![pair(&held, "shortened"), pair(&gone, "missing")];
    expected.sort();
    assert_eq!((named(&found), counts(&found)), (expected, [3, 1, 0, 1, 1, 0]));
    assert_eq!(
        (&found["result"], &found["error_code"]),
        (&"changed".into(), &"ANCHOR_INVALID".into())
    );
    let short =
        found["changed"].as_array().unwrap().iter().find(|one| one["change"] == "shortened");
    let short = short.unwrap();
    assert!(short["entries_has"].as_u64() < short["entries_had"].as_u64(), "{short}");
    // Another history, as long as the first.
    decide(&place, "approve", &held);
    place.run(&["verify"]).exit(0);
    let found = compare(&place).exit(5).json();
    let mut expected = vec![pair(&held, "rewritten"), pair(&gone, "missing")];
    expected.sort();
    assert_eq!(named(&found), expected);
    place
        .run(&["verify", "--anchor", "../monday.anchor"])
        .exit(5)
        .says(&format!("trace `{gone}` is missing"))
        .says(&format!("of trace `{held}` was rewritten"))
        .says("[ANCHOR_INVALID]");
    assert!(!compare(&place).text().contains(&untouched));
}

#[test]
fn every_tampering_with_a_trace_is_named() {
    let of = |id: &str, at: &str| {
        format!(
            "id >> 24 = (SELECT trace_number FROM traces WHERE lower(hex(trace_id)) = '{}') \
             AND id % 16777216 {at}",
            id.replace('-', "")
        )
    };
    let place = Place::with_project();
    let ids: Vec<String> = (0..7).map(|_| place.completed()).collect();
    anchor(&place);
    let change = |sql: &str| {
        assert!(place.meddle(sql, []) > 0, "{sql}");
    };
    change(&format!("DELETE FROM entries WHERE {}", of(&ids[0], "> 0")));
    change(&format!(
        "DELETE FROM traces WHERE lower(hex(trace_id)) = '{}'",
        ids[0].replace('-', "")
    ));
    change(&format!("DELETE FROM entries WHERE {}", of(&ids[1], "> 2")));
    change(&format!("UPDATE entries SET ts = ts + 1 WHERE {}", of(&ids[2], "= 4")));
    change(&format!("UPDATE entries SET to_state = 'NONSENSE' WHERE {}", of(&ids[3], "= 4")));
    change(&format!("DELETE FROM entries WHERE {}", of(&ids[4], "> 0")));
    let body = "UPDATE entries SET artifact_digest = zeroblob(32) WHERE";
    change(&format!("{body} {}", of(&ids[5], "= 4")));
    let found = compare(&place).exit(5).json();
    let mut expected = vec![
        pair(&ids[0], "missing"),
        pair(&ids[1], "shortened"),
        pair(&ids[2], "rewritten"),
        pair(&ids[3], "rewritten"),
        pair(&ids[4], "shortened"),
        pair(&ids[5], "rewritten"),
    ];
    expected.sort();
    assert_eq!((named(&found), counts(&found)), (expected, [7, 1, 0, 1, 2, 3]));
    let cut = found["changed"].as_array().unwrap().iter().find(|one| one["trace_id"] == *ids[1]);
    assert_eq!(
        (&cut.unwrap()["entries_had"], &cut.unwrap()["entries_has"]),
        (&4.into(), &2.into())
    );
}

#[test]
fn an_anchor_that_was_changed_or_is_a_strangers_compares_nothing() {
    let place = Place::with_project();
    place.completed();
    place.completed();
    anchor(&place);
    let path = place.base().join("monday.anchor");
    let whole = std::fs::read(&path).unwrap();
    for at in (0..12).map(|part| part * (whole.len() - 1) / 11) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let found = place.run(&["verify", "--anchor", "../monday.anchor"]).exit(5);
        let shown = found.text().to_owned() + &found.stderr;
        assert!(shown.contains("[ANCHOR_INVALID]"), "byte {at}: {found}");
    }
    for bytes in [&whole[..whole.len() / 2], &[][..], &[&whole[..], b"\n"].concat()] {
        std::fs::write(&path, bytes).unwrap();
        place.run(&["verify", "--anchor", "../monday.anchor"]).fails_with(5, "ANCHOR_INVALID");
    }
    std::fs::write(&path, &whole).unwrap();
    compare(&place).exit(0);
    // Somebody who replaces the keys too cannot sign for the ones that were.
    std::fs::rename(place.state().join("keys"), place.base().join("keys")).unwrap();
    let found = compare(&place).exit(3).json();
    assert_eq!(
        (&found["result"], &found["error_code"]),
        (&"not_checked".into(), &"BUNDLE_UNTRUSTED".into())
    );
    assert_eq!(found["intact"], 0);
    place.run(&["anchor", "../other.anchor"]).exit(0).warns("a signing key was created");
    let line = ["verify", "--anchor", "../monday.anchor"];
    place.run(&line).exit(3).says("not checked: ").says("[BUNDLE_UNTRUSTED]").warns("--key PUB");
    let key = std::fs::read_dir(place.base().join("keys")).unwrap();
    let key = key
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "pub"));
    let key = key.unwrap().display().to_string();
    place.run(&[&line[..], &["--key", &key]].concat()).exit(0);
    place.run(&["verify", "--anchor", "../no.anchor"]).fails_with(1, "FILE_UNREADABLE");
}
