//! `windlass trace`.

use crate::e2e::snapshot::check;
use crate::harness::{Place, text_of};

#[test]
fn a_trace_is_shown_and_printed() {
    let place = Place::with_project();
    let done = place.completed();
    let held = place.held();
    let outcomes = [
        place.run(&["trace", "list"]).exit(0).quiet(),
        place.run(&["trace", "show", &done]).exit(0).quiet(),
        place.run(&["trace", "show", &held]).exit(0).quiet(),
        place.run(&["trace", "show", &held, "--json"]).exit(0).quiet(),
        place.run(&["trace", "log", &done]).exit(0).quiet(),
        place.run(&["trace", "log", &done, "--after", "3"]).exit(0).quiet(),
        place.run(&["trace", "log", &held, "--json"]).exit(0).quiet(),
        place.run(&["trace", "log", &held, "--artifacts"]).exit(0).quiet(),
    ];
    check("trace", &place, &outcomes);
}

#[test]
fn a_log_has_one_entry_a_line() {
    let place = Place::with_project();
    let id = place.completed();
    let numbers = |words: &[&str]| -> Vec<u64> {
        let log = place.run(&[&["trace", "log", &id, "--json"], words].concat()).exit(0);
        let lines = log.text().lines().map(|line| serde_json::from_str(line).unwrap());
        lines.map(|entry: serde_json::Value| entry["sequence_number"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&[]), [1, 2, 3, 4]);
    assert_eq!(numbers(&["--after", "2"]), [3, 4]);
    assert_eq!(numbers(&["--after", "4"]), [0; 0]);
    assert_eq!(numbers(&["--after", "18446744073709551615"]), [0; 0]);
    let with = place.run(&["trace", "log", &id, "--json", "--artifacts"]).exit(0);
    let kinds: Vec<String> = with
        .text()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| text_of(&line["artifact"], "schema_id"))
        .collect();
    let expected =
        ["tga.action_request", "tga.supervisor_decision", "tga.tool_call", "tga.tool_effect"];
    assert_eq!(kinds, expected);
}

#[test]
fn a_purged_artifact_is_told_and_its_chain_holds() {
    let place = Place::with_project();
    let id = place.completed();
    place.tamper().execute("UPDATE entries SET body = NULL WHERE id % 16777216 = 4", []).unwrap();
    place.run(&["trace", "log", &id, "--artifacts"]).exit(0).says("its artifact was purged");
    place.run(&["verify"]).exit(0).says("1 artifact purged");
    place.run(&["verify", &id]).exit(0).says("intact");
}

#[test]
fn a_log_verifies_as_a_file() {
    let place = Place::with_project();
    let id = place.completed();
    let log = place.run(&["trace", "log", &id, "--json"]).exit(0);
    place.write("chain.jsonl", &log.stdout);
    let file = place.run(&["verify", "--file", "chain.jsonl"]).exit(0).quiet().json();
    assert_eq!(file["chain_valid"], true);
    assert_eq!(file["entry_count"], 4);
    assert_eq!(file["final_state"], "COMPLETED");
    for name in ["-", "/dev/stdin"] {
        let piped = place.feed(&["verify", "--file", name], &log.stdout).exit(0).json();
        assert_eq!(piped, file);
    }
}

#[test]
fn many_traces_come_in_pages() {
    let place = Place::with_project();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..20 {
                    place.run(&["call", "run", "no/tool"]).exit(3);
                }
            });
        }
    });
    let all = place.ids();
    assert_eq!(all.len(), 120);
    assert!(all.is_sorted_by(|newer, older| newer > older));
    let mut paged = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let mut words = vec!["trace", "list", "--json"];
        if let Some(id) = &before {
            words.extend(["--before", id]);
        }
        let page = place.run(&words).exit(0).quiet().json();
        let page: Vec<_> =
            page.as_array().unwrap().iter().map(|row| text_of(row, "trace_id")).collect();
        assert!(page.len() <= 50);
        before = page.last().cloned();
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all);
    // A person who sees only a part is told so, beside the data.
    let first = place.run(&["trace", "list"]).exit(0).warns(&format!("--before {}", all[49]));
    assert_eq!(first.text().lines().count(), 51);
    place.run(&["trace", "list", "--limit", "120"]).exit(0).quiet();
    place.run(&["verify"]).exit(0).says("intact: 120 traces, 240 entries");
}
