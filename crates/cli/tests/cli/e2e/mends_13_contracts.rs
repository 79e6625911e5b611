//! Mend 13: contracts agree with the specification's own form, and `verify --file` verifies it.

use serde_json::{Value, json};

use crate::harness::{Outcome, Place, vectors};

/// A valid chain of the vectors, with its artifacts.
fn chain(name: &str) -> (Vec<Value>, Vec<Value>) {
    let vectors = vectors("tga/state_transition_vectors.json");
    let chains = vectors["valid_chains"].as_array().unwrap();
    let chain = chains.iter().find(|chain| chain["name"] == name).unwrap();
    let bodies = chain["artifacts"].as_array().unwrap().iter().map(|row| row["body"].clone());
    (chain["entries"].as_array().unwrap().clone(), bodies.collect())
}

fn canonical_digest(value: &Value) -> String {
    windlass_kernel::canon::digest(value).unwrap().to_string()
}

/// Recomputes links and digests, so that only the contents are wrong.
fn relink(entries: &mut [Value]) {
    let mut previous = "0".repeat(64);
    for entry in entries {
        entry["prev_entry_digest"] = json!(previous);
        let mut fields = entry.as_object().unwrap().clone();
        fields.remove("entry_digest");
        previous = canonical_digest(&Value::Object(fields));
        entry["entry_digest"] = json!(previous);
    }
}

fn verify(place: &Place, document: &Value) -> Outcome {
    place.write("chain", document.to_string());
    place.run(&["verify", "--file", "chain"])
}

fn refused(place: &Place, document: &Value, code: &str, at: u64) -> String {
    let found = verify(place, document).exit(5).quiet().json();
    assert_eq!(found["chain_valid"], false, "{found}");
    assert_eq!(
        (&found["error_code"], &found["divergence_point"]),
        (&json!(code), &json!(at)),
        "{found}"
    );
    found["message"].as_str().unwrap().to_owned()
}

#[test]
fn mend_13_unknown_schema_ids_are_refused() {
    let place = Place::new();
    for id in ["tga.other", "talos.tga.other", "", "windlass.run_log_entry"] {
        let (mut entries, _) = chain("completed");
        for entry in &mut entries {
            entry["schema_id"] = json!(id);
        }
        relink(&mut entries);
        let message = refused(&place, &json!(entries), "STATE_CHECKSUM_MISMATCH", 1);
        assert!(message.contains(&format!("its schema_id is `{id}`")), "{message}");
    }
}

#[test]
fn mend_13_a_chain_has_one_form_only() {
    let place = Place::new();
    let (mut entries, _) = chain("completed");
    entries[2]["schema_id"] = json!("talos.tga.execution_log_entry");
    relink(&mut entries);
    refused(&place, &json!(entries), "STATE_CHECKSUM_MISMATCH", 3);
    for entry in &mut entries {
        entry["schema_id"] = json!("talos.tga.execution_log_entry");
    }
    relink(&mut entries);
    let found = verify(&place, &json!(entries)).exit(0).quiet().json();
    assert_eq!((&found["entry_count"], &found["final_state"]), (&json!(4), &json!("COMPLETED")));
}

#[test]
fn mend_13_an_effect_with_another_key_than_its_call_is_refused() {
    let place = Place::new();
    for key in [json!("another"), Value::Null] {
        let (mut entries, _) = chain("completed");
        entries[3]["idempotency_key"] = key;
        relink(&mut entries);
        let message = refused(&place, &json!(entries), "STATE_CHECKSUM_MISMATCH", 4);
        assert!(message.contains("different idempotency keys"), "{message}");
    }
}

#[test]
fn mend_13_a_missing_tool_call_id_has_its_own_code() {
    let place = Place::new();
    for at in [3, 4] {
        let (mut entries, _) = chain("failed");
        entries[at - 1]["tool_call_id"] = Value::Null;
        relink(&mut entries);
        refused(&place, &json!(entries), "MISSING_TOOL_CALL_ID", at as u64);
        // Absent is null here too.
        entries[at - 1].as_object_mut().unwrap().remove("tool_call_id");
        refused(&place, &json!(entries), "MISSING_TOOL_CALL_ID", at as u64);
    }
}

#[test]
fn mend_13_absent_ids_are_null() {
    let place = Place::new();
    let (mut entries, _) = chain("completed-read");
    let whole = verify(&place, &json!(entries)).exit(0).json();
    for (at, entry) in entries.iter_mut().enumerate() {
        let fields = entry.as_object_mut().unwrap();
        assert_eq!(fields.remove("idempotency_key"), Some(Value::Null));
        if at < 2 {
            assert_eq!(fields.remove("tool_call_id"), Some(Value::Null));
        }
    }
    assert_eq!(verify(&place, &json!(entries)).exit(0).json(), whole);
}

#[test]
fn mend_13_artifacts_beside_entries_are_verified() {
    let place = Place::new();
    let (entries, bodies) = chain("completed");
    let document = |bodies: &[Value]| json!({ "entries": entries, "artifacts": bodies });
    verify(&place, &document(&bodies)).exit(0);
    let by_name = json!({ "entries": entries, "artifacts": { "a": bodies[0], "b": bodies[1], "c": bodies[2], "d": bodies[3] } });
    verify(&place, &by_name).exit(0);
    for at in 0..4 {
        let mut less = bodies.clone();
        less.remove(at);
        refused(&place, &document(&less), "STATE_CHECKSUM_MISMATCH", at as u64 + 1);
        let mut changed = bodies.clone();
        changed[at]["ts"] = json!("2030-01-01T00:00:00.000Z");
        refused(&place, &document(&changed), "STATE_CHECKSUM_MISMATCH", at as u64 + 1);
    }
    let mut more = bodies.clone();
    more.push(json!({ "schema_id": "tga.action_request" }));
    let message = refused(&place, &document(&more), "STATE_CHECKSUM_MISMATCH", 5);
    assert_eq!(message, "an artifact beside the entries is named by no entry");
    // A body that another entry names, with all digests as they should be.
    let (mut entries, mut bodies) = (entries, bodies);
    bodies[3]["outcome"] = json!("FAILURE");
    entries[3]["artifact_digest"] = json!(canonical_digest(&bodies[3]));
    relink(&mut entries);
    let lie = json!({ "entries": entries, "artifacts": bodies });
    let message = refused(&place, &lie, "STATE_CHECKSUM_MISMATCH", 4);
    assert!(message.contains("the outcome and the state of its entry differ"), "{message}");
    verify(&place, &json!({ "entries": entries })).exit(0);
}

#[test]
fn mend_13_artifacts_of_unknown_schemas_are_refused() {
    let place = Place::new();
    for (field, value) in [("schema_id", "foo.tool_effect"), ("schema_version", "v9")] {
        let (mut entries, mut bodies) = chain("completed");
        bodies[3][field] = json!(value);
        entries[3]["artifact_digest"] = json!(canonical_digest(&bodies[3]));
        relink(&mut entries);
        let document = json!({ "entries": entries, "artifacts": bodies });
        let message = refused(&place, &document, "STATE_CHECKSUM_MISMATCH", 4);
        let expected = format!("the {field} of its artifact is `{value}`");
        assert!(message.contains(&expected), "{message}");
    }
    // The same for the events of runs and grants, of which nothing else is compared.
    let place = Place::with_project();
    let given = ["grant", "add", "shell/run", "--command", "make check", "--reason", "x", "--json"];
    let id = place.run(&given).exit(0).json()["trace_id"].as_str().unwrap().to_owned();
    let log = place.run(&["trace", "log", &id, "--artifacts", "--json"]).exit(0);
    let mut line: Value = serde_json::from_str(log.text().lines().next().unwrap()).unwrap();
    verify(&place, &json!([line])).exit(0);
    line["artifact"]["schema_version"] = json!("v9");
    line["entry"]["artifact_digest"] = json!(canonical_digest(&line["artifact"]));
    relink(std::slice::from_mut(&mut line["entry"]));
    refused(&place, &json!([line]), "STATE_CHECKSUM_MISMATCH", 1);
}

#[test]
fn mend_13_a_log_with_its_artifacts_is_verified_line_by_line() {
    let place = Place::with_project();
    let id = place.completed();
    let log = place.run(&["trace", "log", &id, "--artifacts", "--json"]).exit(0);
    place.write("log", &log.stdout);
    let found = place.run(&["verify", "--file", "log"]).exit(0).json();
    assert_eq!((&found["entry_count"], &found["final_state"]), (&json!(4), &json!("COMPLETED")));
    let changed = log.text().replacen("\"rationale\":\"", "\"rationale\":\"x", 1);
    assert_ne!(changed, log.text());
    place.write("log", changed);
    let found = place.run(&["verify", "--file", "log"]).exit(5).json();
    assert_eq!(found["divergence_point"], 2, "{found}");
}

#[test]
fn mend_13_a_call_is_exported_in_the_upstream_form() {
    let place = Place::with_project();
    let id = place.completed();
    let document = place.run(&["export", &id, "--as", "tga"]).exit(0).quiet().json();
    let found = verify(&place, &document).exit(0).quiet().json();
    assert_eq!((&found["entry_count"], &found["final_state"]), (&json!(4), &json!("COMPLETED")));
    let kinds = ["action_request", "supervisor_decision", "tool_call", "tool_effect"];
    for (at, kind) in kinds.into_iter().enumerate() {
        let (entry, artifact) = (&document["entries"][at], &document["artifacts"][at]);
        assert_eq!(entry["schema_id"], "talos.tga.execution_log_entry");
        assert_eq!(artifact["schema_id"], format!("talos.tga.{kind}"));
        assert_eq!(artifact["_digest"], entry["artifact_digest"]);
        assert_eq!(artifact[format!("{kind}_id")], entry["artifact_id"], "{kind}");
        let mut fields = artifact.as_object().unwrap().clone();
        fields.remove("_digest");
        assert_eq!(artifact["_digest"], canonical_digest(&Value::Object(fields)));
    }
    // Every change of an artifact is found at its entry, also by its links alone.
    for (at, field, value) in [
        (0, "intent", json!("something else entirely")),
        (1, "action_request_id", document["entries"][3]["artifact_id"].clone()),
        (1, "decision", json!("DENY")),
        (2, "supervisor_decision_digest", json!("0".repeat(64))),
        (2, "call", json!({ "tool_server": "other", "tool_name": "tool", "args": {} })),
        (3, "outcome", json!({ "status": "FAILURE", "summary": "" })),
        (3, "schema_id", json!("talos.tga.tool_call")),
        (3, "plan_id", document["entries"][0]["artifact_id"].clone()),
    ] {
        let mut changed = document.clone();
        changed["artifacts"][at][field] = value;
        refused(&place, &changed, "STATE_CHECKSUM_MISMATCH", at as u64 + 1);
        if field == "intent" {
            continue;
        }
        let mut fields = changed["artifacts"][at].as_object().unwrap().clone();
        fields.remove("_digest");
        let digest = canonical_digest(&Value::Object(fields));
        changed["artifacts"][at]["_digest"] = json!(digest);
        changed["entries"][at]["artifact_digest"] = json!(digest);
        relink(changed["entries"].as_array_mut().unwrap());
        refused(&place, &changed, "STATE_CHECKSUM_MISMATCH", at as u64 + 1);
    }
}

/// Changes an artifact of a document and makes all digests right again, its own included.
fn reforge(document: &mut Value, at: usize, change: impl FnOnce(&mut Value)) {
    let artifact = &mut document["artifacts"][at];
    change(artifact);
    let mut fields = artifact.as_object().unwrap().clone();
    fields.remove("_digest");
    let digest = canonical_digest(&Value::Object(fields));
    artifact["_digest"] = json!(digest);
    document["entries"][at]["artifact_digest"] = json!(digest);
    relink(document["entries"].as_array_mut().unwrap());
}

#[test]
fn artifacts_of_the_upstream_form_have_its_fields_and_no_others() {
    let place = Place::with_project();
    let id = place.completed();
    let document = place.run(&["export", &id, "--as", "tga"]).exit(0).quiet().json();
    for name in ["action_request.agent_id", "tool_call.capability_digest"] {
        assert!(document["substituted"][name].is_string(), "{document}");
    }
    type Change = fn(&mut Value);
    let rows: [(usize, &str, Change); 16] = [
        (0, "unknown field `extra`", |it| it["extra"] = json!(1)),
        (0, "`proposal` must be", |it| it["proposal"]["tool_name"] = json!("\u{441}at")),
        (0, "`proposal` must be", |it| it["proposal"]["more"] = json!(true)),
        (0, "`proposal` must be", |it| it["proposal"]["args"] = json!([])),
        (0, "`intent` must be", |it| it["intent"] = json!("nine char")),
        (0, "`resources` must be", |it| it["resources"] = json!([])),
        (0, "`resources` must be", |it| it["resources"][0]["kind"] = json!("file")),
        (0, "`risk_level` must be", |it| it["risk_level"] = json!("read")),
        (0, "`agent_id` must be", |it| it["agent_id"] = json!("ann")),
        (0, "has no `agent_id`", |it| drop(it.as_object_mut().unwrap().remove("agent_id"))),
        (0, "`meta` must be", |it| it["meta"]["list"] = json!([1])),
        (0, "`ts` must be", |it| it["ts"] = json!("2026-01-01T00:00:00Z")),
        (3, "unknown field `note`", |it| it["note"] = json!("")),
        (3, "`outcome` must be", |it| it["outcome"]["summary"] = json!("x".repeat(5001))),
        (3, "`outcome` must be", |it| {
            drop(it["outcome"].as_object_mut().unwrap().remove("summary"))
        }),
        (3, "`tool_effect_id` must be", |it| {
            it["tool_effect_id"] = it["tool_effect_id"].as_str().unwrap().to_uppercase().into()
        }),
    ];
    for (at, expected, change) in rows {
        let mut changed = document.clone();
        reforge(&mut changed, at, change);
        let found = verify(&place, &changed).exit(5).quiet().json();
        assert_eq!(found["divergence_point"], at as u64 + 1, "{expected}: {found}");
        let message = found["message"].as_str().unwrap();
        // An id that is another text is found by its link first.
        assert!(
            message.contains(expected) || message.contains("different ids"),
            "{expected}: {found}"
        );
    }
    // What is as long as it may be passes.
    let mut whole = document.clone();
    reforge(&mut whole, 3, |it| it["outcome"]["summary"] = json!("x".repeat(5000)));
    verify(&place, &whole).exit(0);
}

#[test]
fn requests_of_our_own_form_keep_the_limits_of_their_schema() {
    let place = Place::new();
    type Change = fn(&mut Value);
    let rows: [(&str, Change); 4] = [
        ("the tool of its request must be", |it| it["proposal"]["tool_name"] = json!("\u{441}at")),
        ("the intent of its request must be", |it| it["intent"] = json!("short")),
        ("the list of resources of its request must be", |it| it["resources"] = json!([])),
        ("unknown field `extra`", |it| it["extra"] = json!(1)),
    ];
    for (expected, change) in rows {
        let (mut entries, mut bodies) = chain("completed");
        change(&mut bodies[0]);
        entries[0]["artifact_digest"] = json!(canonical_digest(&bodies[0]));
        relink(&mut entries);
        let document = json!({ "entries": entries, "artifacts": bodies });
        let message = refused(&place, &document, "STATE_CHECKSUM_MISMATCH", 1);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn upstream_entries_may_leave_out_what_they_do_not_have() {
    let place = Place::new();
    let (mut entries, _) = chain("completed-read");
    for (at, entry) in entries.iter_mut().enumerate() {
        let fields = entry.as_object_mut().unwrap();
        fields.insert("schema_id".to_owned(), json!("talos.tga.execution_log_entry"));
        fields.remove("idempotency_key");
        if at < 2 {
            fields.remove("tool_call_id");
        }
    }
    // Their digests cover only the fields that are there.
    relink(&mut entries);
    verify(&place, &json!(entries)).exit(0);
    let mut changed = entries.clone();
    changed[1]["ts"] = json!("2030-01-01T00:00:00.000Z");
    refused(&place, &json!(changed), "STATE_CHECKSUM_MISMATCH", 2);
    // Ours cover the nulls.
    for entry in &mut entries {
        entry["schema_id"] = json!("tga.execution_log_entry");
    }
    relink(&mut entries);
    refused(&place, &json!(entries), "STATE_CHECKSUM_MISMATCH", 1);
}

#[test]
fn a_trace_is_shown_with_the_document_of_its_schema() {
    let place = Place::with_project();
    let id = place.completed();
    let shown = place.run(&["trace", "show", &id, "--json"]).exit(0).json();
    assert_eq!(shown.get("schema_id"), None, "{shown}");
    let state = shown["execution_state"].as_object().unwrap();
    let names: Vec<&str> = state.keys().map(String::as_str).collect();
    let mut expected = [
        "schema_id",
        "schema_version",
        "trace_id",
        "plan_id",
        "current_state",
        "last_sequence_number",
        "last_entry_digest",
        "state_digest",
    ];
    expected.sort_unstable();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(names, expected);
    let mut fields = state.clone();
    let digest = fields.remove("state_digest").unwrap();
    assert_eq!(digest, canonical_digest(&Value::Object(fields)));
}

#[test]
fn mend_13_only_calls_have_the_upstream_form() {
    let place = Place::with_project();
    place.run(&["export", "last", "--as", "tga"]).fails_with(2, "ID_INVALID").warns("call list");
    let missing = "019b76da-b7b4-7414-8000-000000000414";
    place.run(&["export", missing, "--as", "tga"]).fails_with(2, "TRACE_NOT_FOUND");
}

#[test]
fn mend_13_the_contracts_have_the_shape_of_the_specification() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/tga/v1");
    let schema = |name: &str| -> Value {
        let text = std::fs::read_to_string(format!("{root}/{name}.schema.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let names = |schema: &Value, pointer: &str| -> Vec<String> {
        let found = schema.pointer(pointer).unwrap();
        let mut names: Vec<String> = match found.as_array() {
            Some(names) => names.iter().map(|name| name.as_str().unwrap().into()).collect(),
            None => found.as_object().unwrap().keys().cloned().collect(),
        };
        names.sort();
        names
    };
    let entry = schema("execution_log_entry");
    let optional = ["idempotency_key".to_owned(), "tool_call_id".to_owned()];
    let mut fields = names(&entry, "/properties");
    fields.retain(|field| !optional.contains(field));
    assert_eq!(names(&entry, "/required"), fields);
    assert_eq!(fields.len(), 12);
    let checkpoint = [
        "checkpoint_digest",
        "checkpoint_sequence_number",
        "checkpoint_state",
        "schema_id",
        "schema_version",
        "trace_id",
        "ts",
    ];
    assert_eq!(names(&schema("execution_checkpoint"), "/required"), checkpoint);
    let state = [
        "current_state",
        "last_entry_digest",
        "last_sequence_number",
        "plan_id",
        "schema_id",
        "schema_version",
        "state_digest",
        "trace_id",
    ];
    assert_eq!(names(&schema("execution_state"), "/required"), state);
    let vectors = vectors("tga/state_transition_vectors.json");
    for (section, field) in [
        ("valid_transitions", "should_pass"),
        ("invalid_transitions", "expected_error"),
        ("recovery_vectors", "recovery_action"),
    ] {
        let rows = vectors[section].as_array().unwrap();
        assert!(!rows.is_empty() && rows.iter().all(|row| !row[field].is_null()), "{section}");
    }
}

#[test]
fn mend_13_every_documented_cause_of_a_failed_recovery_has_its_code() {
    let failed = |outcome: Outcome| drop(outcome.fails_with(1, "STATE_RECOVERY_FAILED"));
    // The tool is no longer in the registry.
    let place = Place::with_server();
    let id = place.interrupted("count/add", "{}");
    place.replace(".windlass/tools.toml", "[server.count.tool.add]", "[server.count.tool.sum]");
    place.replace(".windlass/policy/count.toml", "count/add", "count/sum");
    let words = ["call", "settle", "--not-run", &id, "--by", "ada", "--reason", "looked"];
    failed(place.run(&words));
    // What recovery needs was purged.
    let place = Place::with_server();
    let id = place.interrupted("count/add", "{}");
    assert!(place.meddle("UPDATE entries SET body = NULL WHERE id % 16777216 = 1", []) > 0);
    failed(place.run(&["recover", &id]));
    failed(place.run(&["call", "show", &id]));
}
