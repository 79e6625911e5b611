//! An artifact must be the one that its entry names, and refer to the artifacts before it.

use serde_json::{Value, json};
use windlass_kernel::{Artifact, Call, ChainError, Code, Digest, Entry};

const MACHINE: &str = include_str!("../../../../vectors/tga/state_transition_vectors.json");
const OTHER_ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// The entries and the bodies of the completed call.
fn completed() -> (Vec<Entry>, Vec<Value>) {
    let machine: Value = serde_json::from_str(MACHINE).unwrap();
    let chains = machine["valid_chains"].as_array().unwrap();
    let chain = chains.iter().find(|chain| chain["name"] == "completed").unwrap();
    let bodies = chain["artifacts"].as_array().unwrap();
    (
        serde_json::from_value(chain["entries"].clone()).unwrap(),
        bodies.iter().map(|artifact| artifact["body"].clone()).collect(),
    )
}

/// Folds the call, with the artifact of entry `place` (from 1) changed by `change`.
fn fold(place: usize, change: impl Fn(&mut Entry, &mut Value)) -> Result<Call, ChainError> {
    let (entries, bodies) = completed();
    let mut call = Call::empty(entries[0].trace_id);
    for (mut entry, mut body) in entries.into_iter().zip(bodies) {
        let head = call.head.admit(&entry, &mut Vec::new())?;
        if entry.sequence_number == place as u64 {
            change(&mut entry, &mut body);
        }
        let bytes = serde_json::to_vec(&body).unwrap();
        let artifact = Artifact::read(entry.artifact_type, &bytes).unwrap();
        call.apply(&entry, artifact, head)?;
    }
    Ok(call)
}

fn refused(place: usize, change: impl Fn(&mut Entry, &mut Value)) {
    let error = fold(place, change).unwrap_err();
    assert!(matches!(error, ChainError::Link { .. } | ChainError::Artifact { .. }), "{error}");
    assert_eq!(error.code(), Code::StateChecksumMismatch);
}

#[test]
fn an_unchanged_call_folds() {
    assert!(fold(0, |_, _| {}).unwrap().effect.is_some());
}

#[test]
fn every_link_is_checked() {
    let digest = json!(Digest::of(b"another"));
    let cases = [
        (1, "artifact_id", json!(OTHER_ID)),
        (1, "trace_id", json!(OTHER_ID)),
        (1, "idempotency_key", json!("another")),
        (1, "idempotency_key", Value::Null),
        (2, "artifact_id", json!(OTHER_ID)),
        (2, "trace_id", json!(OTHER_ID)),
        (2, "request_digest", digest.clone()),
        (2, "decision", json!("DENY")),
        (2, "decision", json!("NEEDS_APPROVAL")),
        (3, "artifact_id", json!(OTHER_ID)),
        (3, "trace_id", json!(OTHER_ID)),
        (3, "decision_digest", digest.clone()),
        (3, "proposal_digest", digest.clone()),
        (3, "tool_call_id", json!(OTHER_ID)),
        (3, "idempotency_key", json!("another")),
        (4, "artifact_id", json!(OTHER_ID)),
        (4, "trace_id", json!(OTHER_ID)),
        (4, "tool_call_digest", digest),
        (4, "tool_call_id", json!(OTHER_ID)),
        (4, "outcome", json!("FAILURE")),
        (4, "outcome", json!("DENIED")),
        (4, "outcome", json!("ERROR")),
    ];
    for (place, field, value) in cases {
        refused(place, |_, body| body[field] = value.clone());
    }
}

#[test]
fn a_call_has_the_key_of_its_request() {
    refused(3, |entry, body| {
        body["idempotency_key"] = json!("another");
        entry.idempotency_key = Some("another".to_owned());
    });
}

#[test]
fn nullable_fields_must_be_present() {
    let (entries, bodies) = completed();
    for (entry, body) in entries.iter().zip(&bodies) {
        for field in body.as_object().unwrap().keys() {
            let mut less = body.clone();
            less.as_object_mut().unwrap().remove(field);
            let bytes = serde_json::to_vec(&less).unwrap();
            assert!(Artifact::read(entry.artifact_type, &bytes).is_err(), "without {field}");
        }
    }
}
