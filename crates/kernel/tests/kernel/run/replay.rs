//! The bytes of events: canonical, stable, and read strictly.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_kernel::run::{Event, RunEvent};
use windlass_kernel::{ArtifactId, Code, Digest, TraceId, canon};

use crate::run::harness::{Lab, id};
use crate::run::table::scenes;

const VECTORS: &str = include_str!("../../../../../vectors/run/events.json");
/// The digest of the file: a change of the format must also be made here.
const VECTORS_SHA256: &str = "e0b9ffe49d2b978943051bc09c2bbc3473f976a4d5cc51450951b5cc90616a92";

pub fn vectors() -> Value {
    serde_json::from_str(VECTORS).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    canon::to_bytes(value).unwrap()
}

#[test]
fn the_pinned_events_are_read_and_written_byte_for_byte() {
    assert_eq!(Digest::of(VECTORS.as_bytes()).to_string(), VECTORS_SHA256);
    let mut kinds = BTreeSet::new();
    for row in vectors()["events"].as_array().unwrap() {
        let text = row["canonical"].as_str().unwrap();
        let event = RunEvent::read(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(event.to_bytes().unwrap()).unwrap(), text);
        assert_eq!(row["sha256"], json!(Digest::of(text.as_bytes())));
        assert_eq!(row["kind"], event.event.kind());
        assert_eq!(row["to_state"], event.event.to_state().as_str());
        // A second encoder agrees.
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_jcs::to_string(&value).unwrap(), text);
        kinds.insert(event.event.kind());
    }
    let all: BTreeSet<&str> = scenes().iter().map(|(_, event)| event.kind()).collect();
    assert_eq!((kinds.len(), kinds), (29, all));
}

/// All paths of a document, with the value at each.
fn paths(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, item)| paths(item, &format!("{at}/{key}"), out));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(place, item)| paths(item, &format!("{at}/{place}"), out));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether the value at this path may be any JSON.
fn is_free(path: &str) -> bool {
    [
        "answer",
        "findings",
        "options",
        "task",
        "evidence",
        "body",
        "with",
        "facts",
        "outputs",
        "verdicts",
        "inherited",
        "metadata",
        "artifacts",
        "actual",
        "threshold",
        "args",
    ]
    .iter()
    .any(|free| path.contains(&format!("/{free}")))
}

#[test]
fn unknown_missing_and_ill_typed_fields_are_refused() {
    for row in vectors()["events"].as_array().unwrap() {
        let good: Value = serde_json::from_str(row["canonical"].as_str().unwrap()).unwrap();
        let mut all = Vec::new();
        paths(&good, "", &mut all);
        for path in &all {
            if is_free(path.rsplit_once('/').map_or("", |(above, _)| above)) {
                continue;
            }
            if good.pointer(path).unwrap().is_object() && !is_free(path) {
                let mut more = good.clone();
                more.pointer_mut(path).unwrap()["surplus"] = json!(1);
                assert!(RunEvent::read(&bytes(&more)).is_err(), "surplus at {path} of {row}");
            }
            let Some((above, key)) = path.rsplit_once('/') else { continue };
            if let Some(map) = good.pointer(above).and_then(Value::as_object) {
                let mut less = good.clone();
                assert!(map.contains_key(key));
                less.pointer_mut(above).unwrap().as_object_mut().unwrap().remove(key);
                assert!(RunEvent::read(&bytes(&less)).is_err(), "without {path} of {row}");
            }
            if is_free(path) {
                continue;
            }
            for wrong in [json!({"x": 1}), json!([[1]]), json!(-1), json!(1.5)] {
                let mut bad = good.clone();
                *bad.pointer_mut(path).unwrap() = wrong;
                assert!(RunEvent::read(&bytes(&bad)).is_err(), "{path} of {bad}");
            }
        }
    }
}

#[test]
fn bytes_that_are_not_canonical_are_refused() {
    for row in vectors()["events"].as_array().unwrap() {
        let text = row["canonical"].as_str().unwrap();
        let value: Value = serde_json::from_str(text).unwrap();
        let kind = format!("\"kind\":{}", row["kind"]);
        let array: Vec<&Value> = value.as_object().unwrap().values().collect();
        for bad in [
            format!(" {text}"),
            format!("{text}\n"),
            text.replacen(':', ": ", 1),
            text.replacen("windlass.run_event", "windlass.run_event2", 1),
            text.replacen("\"v1\"", "\"v2\"", 1),
            text.replacen(&kind, &kind.replacen(":\"", ":\"x", 1), 1),
            text.replacen(&kind, &format!("{kind},{kind}"), 1),
            serde_json::to_string(&array).unwrap(),
            text[..text.len() - 1].to_owned(),
        ] {
            assert_ne!(bad, text);
            assert!(RunEvent::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}

#[test]
fn numbers_that_canonical_json_would_change_are_never_written() {
    let lab = Lab::empty();
    let note = |body: Value| {
        let event = Event::Noted { what: windlass_kernel::run::NoteKind::Telemetry, body };
        RunEvent::new(TraceId(id(1)), ArtifactId(id(2)), lab.ts(), event)
    };
    for body in [json!(1_u64 << 53), json!({"a": [u64::MAX]})] {
        assert_eq!(note(body).to_bytes().unwrap_err().code(), Code::JsonNumberUnsafe);
    }
    let event = note(json!({"b": 1, "a": [1.0, "\u{e9}", null]}));
    assert_eq!(
        RunEvent::read(&event.to_bytes().unwrap()).unwrap().to_bytes().unwrap(),
        event.to_bytes().unwrap()
    );
}
