//! Every chain of the vectors, in every form, gives exactly the expected finding.

use serde_json::{Value, json};

use crate::harness::{Place, vectors};

const FIELDS: [&str; 7] = [
    "chain_valid",
    "error_code",
    "divergence_point",
    "entry_count",
    "last_sequence_number",
    "latest_entry_digest",
    "final_state",
];

/// What the entries before the divergence point come to.
fn expected(chain: &Value) -> Value {
    let mut expect = chain["expect"].clone();
    let entries = chain["entries"].as_array().unwrap();
    let map = expect.as_object_mut().unwrap();
    let held = match map.get("divergence_point").and_then(Value::as_u64) {
        Some(at) => usize::try_from(at).unwrap() - 1,
        None => entries.len(),
    };
    let last = held.checked_sub(1).map(|at| &entries[at]);
    let of_last = |name: &str, none: Value| last.map_or(none, |entry| entry[name].clone());
    for (name, value) in [
        ("error_code", Value::Null),
        ("divergence_point", Value::Null),
        ("entry_count", json!(entries.len())),
        ("last_sequence_number", json!(held)),
        ("latest_entry_digest", of_last("entry_digest", json!("0".repeat(64)))),
        ("final_state", of_last("to_state", Value::Null)),
    ] {
        map.entry(name).or_insert(value);
    }
    expect
}

fn check_all(chains: &[Value]) {
    let place = Place::new();
    for chain in chains {
        let name = chain["name"].as_str().unwrap();
        let entries = chain["entries"].as_array().unwrap();
        let expect = expected(chain);
        let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        let forms = [
            ("array", json!(entries).to_string()),
            ("wrapper", serde_json::to_string_pretty(&json!({ "entries": entries })).unwrap()),
            ("lines", lines),
        ];
        // A chain without an entry is valid as the beginning of one, but a file must have an entry.
        for (form, text) in forms.into_iter().filter(|_| !entries.is_empty()) {
            let path = place.work().join(format!("{name}.{form}"));
            std::fs::write(&path, text).unwrap();
            let outcome = place.run(&["verify", "--file", path.to_str().unwrap()]);
            let exit = if expect["chain_valid"] == true { 0 } else { 5 };
            let found = outcome.exit(exit).quiet().json();
            for field in FIELDS {
                assert_eq!(found[field], expect[field], "{field} of {name} as {form}: {found}");
            }
            assert_eq!(found["message"].is_null(), exit == 0, "{name} as {form}: {found}");
            assert_eq!(found.as_object().unwrap().len(), FIELDS.len() + 1, "{found}");
        }
    }
}

fn chains(kind: &str) -> Vec<Value> {
    vectors("tga/state_transition_vectors.json")[kind].as_array().unwrap().clone()
}

#[test]
fn the_chains_that_hold() {
    let chains = chains("valid_chains");
    assert!(chains.len() >= 13);
    check_all(&chains);
}

#[test]
fn the_chains_that_do_not_hold() {
    let chains = chains("invalid_chains");
    assert!(chains.len() >= 97);
    let (one, two) = chains.split_at(chains.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| check_all(one));
        check_all(two);
    });
}
