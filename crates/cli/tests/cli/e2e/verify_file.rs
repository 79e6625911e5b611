//! `windlass verify --file`: the forms a chain may have, and what is none.

use serde_json::{Value, json};

use crate::e2e::snapshot::check;
use crate::harness::{Outcome, Place, vectors};

/// The entries of a chain that holds.
fn entries(name: &str) -> Vec<Value> {
    let vectors = vectors("tga/state_transition_vectors.json");
    let chains = vectors["valid_chains"].as_array().unwrap();
    let chain = chains.iter().find(|chain| chain["name"] == name).unwrap();
    chain["entries"].as_array().unwrap().clone()
}

fn lines(entries: &[Value]) -> String {
    entries.iter().map(|entry| format!("{entry}\n")).collect()
}

fn verify(place: &Place, bytes: impl AsRef<[u8]>) -> Outcome {
    place.write("chain", bytes);
    place.run(&["verify", "--file", "chain"])
}

#[test]
fn every_form_of_a_chain_gives_the_same_finding() {
    let place = Place::new();
    let entries = entries("completed");
    let whole = json!({ "entries": entries });
    let last = lines(&entries);
    let wrapper_in_lines = format!("{{\"entries\":[{}]}}", last.trim_end().replace('\n', ",\n"));
    let forms = [
        ("array", json!(entries).to_string()),
        ("pretty array", serde_json::to_string_pretty(&entries).unwrap()),
        ("array after blank lines", format!("\r\n \n{}\n\n", json!(entries))),
        ("wrapper", whole.to_string()),
        ("pretty wrapper", serde_json::to_string_pretty(&whole).unwrap()),
        ("wrapper with an entry a line", wrapper_in_lines.clone()),
        ("wrapper with more", json!({ "a_digest": "x", "entries": entries, "n": 1 }).to_string()),
        (
            "wrapper whose list comes later",
            wrapper_in_lines.replacen('{', "{\"latest_entry_digest\":\"x\",\n", 1),
        ),
        ("lines", last.clone()),
        ("lines without an end", last.trim_end().to_owned()),
        ("lines with blank ones", last.replace('\n', "\n\n  \n")),
        ("lines that end as on Windows", last.replace('\n', "\r\n")),
        ("lines after blank ones", format!("\n\r\n{last}")),
    ];
    let expected = verify(&place, &forms[0].1).exit(0).quiet().json();
    assert_eq!(expected["chain_valid"], true);
    assert_eq!(expected["entry_count"], 4);
    assert_eq!(expected["final_state"], "COMPLETED");
    assert_eq!(expected["message"], Value::Null);
    for (name, form) in forms {
        let found = verify(&place, &form).exit(0).quiet().json();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_chain_of_one_entry_holds() {
    let place = Place::new();
    let entries = entries("pending");
    for one in [entries[0].to_string(), serde_json::to_string_pretty(&entries[0]).unwrap()] {
        let found = verify(&place, one).exit(0).json();
        assert_eq!(found["entry_count"], 1);
        assert_eq!(found["final_state"], "PENDING");
    }
}

#[test]
fn a_torn_chain_is_broken_where_it_is_torn() {
    let place = Place::new();
    let text = lines(&entries("completed"));
    let torn = |text: &str, at: u64, count: u64| {
        let found = verify(&place, text).exit(5).quiet().json();
        assert_eq!(found["chain_valid"], false, "{found}");
        assert_eq!(found["error_code"], "STATE_CHECKSUM_MISMATCH", "{found}");
        assert_eq!(found["divergence_point"], at, "{found}");
        assert_eq!(found["entry_count"], count, "{found}");
        assert!(found["message"].is_string(), "{found}");
    };
    torn(&text[..text.len() - 20], 4, 4);
    torn(&text[..20], 1, 1);
    let first_end = text.find('\n').unwrap();
    torn(&format!("{}{}", &text[..first_end - 20], &text[first_end..]), 1, 4);
    let array = json!(entries("completed")).to_string();
    torn(&array[..array.len() - 20], 4, 4);
    torn(&format!("{array},"), 5, 5);
    // A chain of lines that lost its end in between two of them still holds: only a head tells.
    let three = text.trim_end().rfind('\n').unwrap();
    let found = verify(&place, &text[..three]).exit(0).json();
    assert_eq!(found["final_state"], "EXECUTING");
}

#[test]
fn a_key_twice_is_no_entry() {
    let place = Place::new();
    let entry = entries("pending")[0].to_string();
    let twice = entry.replacen('{', "{\"ts\":\"2026-01-01T00:00:01.017Z\",", 1);
    for text in [twice.clone(), format!("{twice}\n"), format!("[{twice}]")] {
        let found = verify(&place, text).exit(5).json();
        assert_eq!(found["error_code"], "STATE_CHECKSUM_MISMATCH");
        assert_eq!(found["divergence_point"], 1);
    }
}

#[test]
fn entries_of_another_kind_are_none() {
    let place = Place::new();
    for (name, value) in [
        ("schema_id", json!("tga.action_request")),
        ("schema_id", json!("windlass.run_log_entry")),
        ("schema_id", json!(null)),
        ("schema_version", json!("v2")),
    ] {
        let mut entries = entries("completed");
        entries[1][name] = value;
        let found = verify(&place, lines(&entries)).exit(5).json();
        assert_eq!(found["error_code"], "STATE_CHECKSUM_MISMATCH");
        assert_eq!(found["divergence_point"], 2);
    }
}

#[test]
fn the_values_of_an_entry_are_no_entry() {
    let place = Place::new();
    let log = entries("pending");
    let entry: Vec<Value> = [
        "schema_id",
        "schema_version",
        "trace_id",
        "sequence_number",
        "prev_entry_digest",
        "ts",
        "from_state",
        "to_state",
        "artifact_type",
        "artifact_id",
        "artifact_digest",
        "tool_call_id",
        "idempotency_key",
        "entry_digest",
    ]
    .iter()
    .map(|name| log[0][name].clone())
    .collect();
    verify(&place, json!([entry]).to_string()).exit(5);
}

#[test]
fn what_is_no_chain_is_told() {
    let place = Place::new();
    std::fs::create_dir(place.work().join("folder")).unwrap();
    let file = |name: &str| place.run(&["verify", "--file", name]);
    let outcomes = [
        file("missing").fails_with(1, "FILE_UNREADABLE"),
        file("folder").fails_with(1, "FILE_UNREADABLE"),
        verify(&place, "{}").exit(5),
        verify(&place, "{\n}").exit(5),
        verify(&place, "null").exit(5),
        verify(&place, "\"text\"").exit(5),
        verify(&place, [0xff, 0x00, 0x80, b'\n', 0xfe]).exit(5),
        verify(&place, "plain words\nand more\n").exit(5),
        verify(&place, r#"{"entries":7}"#).exit(5),
        verify(&place, r#"{"entries":null}"#).exit(5),
        verify(&place, r#"{"entries":[],"entries":[]}"#).exit(5),
        verify(&place, "[[]]").exit(5),
        verify(&place, "[1e400]").exit(5),
    ];
    check("verify_file", &place, &outcomes);
    let error = place.run(&["verify", "--file", "missing", "--json"]).exit(1).error();
    assert_eq!(error["code"], "FILE_UNREADABLE");
}

#[test]
fn a_file_needs_no_project_and_says_nothing_but_json() {
    let place = Place::new();
    let text = verify(&place, lines(&entries("denied"))).exit(0).quiet();
    let json = place.run(&["--json", "verify", "--file", "chain"]).exit(0).quiet();
    assert_eq!(text.stdout, json.stdout);
    assert_eq!(text.text().lines().count(), 1);
}
