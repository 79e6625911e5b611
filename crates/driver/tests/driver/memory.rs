//! A project's memory is only ever added to.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_driver::{Memory, MemoryView, Outcome, SaveError, SaveRequest, VERSION_BYTES_MAX};
use windlass_kernel::{Code, Digest, Timestamp};

use crate::world::{config, intent};

fn request(memory: &Memory, entries: Value) -> SaveRequest {
    SaveRequest {
        restored: memory.restore().digest,
        intent: intent("domain"),
        task_id: "task-1".into(),
        ts: Timestamp::EPOCH,
        verification: Outcome::Pass,
        entries: serde_json::from_value(entries).unwrap(),
    }
}

fn saved(list: &[Value]) -> Memory {
    let mut memory = Memory::default();
    for entries in list {
        let request = request(&memory, entries.clone());
        memory.save(&config(), request).unwrap();
    }
    memory
}

#[test]
fn a_view_is_the_newest_of_each_key() {
    assert_eq!(
        Memory::default().restore(),
        MemoryView { version: 0, digest: Digest::GENESIS, entries: BTreeMap::new() }
    );
    let memory = saved(&[json!({"a": 1, "b": [1]}), json!({"a": {"x": 2}, "b": null, "c": "ü"})]);
    let view = memory.restore();
    assert_eq!(view.version, 2);
    assert_eq!(view.digest, memory.versions()[1].digest);
    assert_eq!(json!(view.entries), json!({"a": {"x": 2}, "c": "ü"}));
    assert_eq!(memory.versions()[0].parent_digest, Digest::GENESIS);
    assert_eq!(memory.versions()[1].parent_digest, memory.versions()[0].digest);
}

#[test]
fn the_bytes_are_pinned() {
    let memory = saved(&[json!({"b": 1.0, "a": true})]);
    let text = String::from_utf8(memory.to_bytes().unwrap()).unwrap();
    let covered = concat!(
        r#""entries":{"a":true,"b":1},"intent":"domain","parent_digest":""#,
        "0000000000000000000000000000000000000000000000000000000000000000",
        r#"","task_id":"task-1","ts":"1970-01-01T00:00:00.000Z","version":1}"#
    );
    let digest = Digest::of(format!("{{{covered}").as_bytes());
    assert_eq!(text, format!("{{\"digest\":\"{digest}\",{covered}\n"));
}

#[test]
fn only_allowed_intents_save_and_only_after_a_pass() {
    let config = config();
    for declared in config.intents() {
        for verification in Outcome::ALL {
            let mut memory = saved(&[json!({"a": 1})]);
            let before = memory.clone();
            let request = SaveRequest {
                intent: declared.name.clone(),
                verification,
                ..request(&memory, json!({"b": 2}))
            };
            let allowed = declared.save_allowed && verification == Outcome::Pass;
            match memory.save(&config, request) {
                Ok(version) => assert!(allowed && version.version == 2),
                Err(error) => {
                    assert!(!allowed, "{error}");
                    assert_eq!(error.code(), Code::DriverSaveRefused);
                    assert_eq!((error.outcome(), &memory), (Outcome::Halt, &before));
                }
            }
        }
    }
}

#[test]
fn a_memory_that_moved_on_is_a_conflict_that_asks() {
    let config = config();
    let mut memory = Memory::default();
    let (one, other) = (request(&memory, json!({"a": 1})), request(&memory, json!({"a": 2})));
    memory.save(&config, one).unwrap();
    let before = memory.clone();
    let error = memory.save(&config, other).unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::DriverMemoryConflict, Outcome::AskUser));
    assert!(matches!(error, SaveError::Conflict { version: 1, .. }));
    assert_eq!(memory, before);
}

#[test]
fn what_could_not_be_read_back_is_not_saved() {
    let config = config();
    let deep = (0..200).fold(json!(1), |value, _| json!([value]));
    let cases: [(Code, &str, BTreeMap<String, Value>); 6] = [
        (Code::DriverSaveRefused, "task-1", BTreeMap::new()),
        (Code::DriverSaveRefused, "task-1", BTreeMap::from([(" ".into(), json!(1))])),
        (Code::DriverSaveRefused, "", BTreeMap::from([("a".into(), json!(1))])),
        (Code::JsonNumberUnsafe, "task-1", BTreeMap::from([("a".into(), json!(u64::MAX))])),
        (Code::DocSizeExceeded, "task-1", BTreeMap::from([("a".into(), deep)])),
        (
            Code::DocSizeExceeded,
            "task-1",
            BTreeMap::from([("a".into(), json!("x".repeat(VERSION_BYTES_MAX)))]),
        ),
    ];
    for (code, task, entries) in cases {
        let mut memory = Memory::default();
        let request =
            SaveRequest { entries, task_id: task.into(), ..request(&memory, json!({"a": 1})) };
        assert_eq!(memory.save(&config, request).unwrap_err().code(), code);
        assert_eq!(memory, Memory::default());
    }
}

fn code(bytes: &[u8]) -> Code {
    Memory::from_bytes(bytes).unwrap_err().code()
}

#[test]
fn every_damage_is_named() {
    let memory = saved(&[json!({"a": 1}), json!({"a": 2}), json!({"a": 3})]);
    let bytes = memory.to_bytes().unwrap();
    assert_eq!(Memory::from_bytes(&bytes).unwrap(), memory);
    assert_eq!(Memory::from_bytes(b"").unwrap(), Memory::default());
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let join = |lines: &[&str]| lines.concat().into_bytes();
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1).into_bytes()
    };
    for (bytes, expected) in [
        (changed("{\"a\":2}", "{\"a\":7}"), Code::StateChecksumMismatch),
        (changed("\"domain\"", "\"refactor\""), Code::StateChecksumMismatch),
        (changed("{\"a\":2}", "{ \"a\":2}"), Code::StateChecksumMismatch),
        (changed("\"task_id\"", "\"task\""), Code::StateChecksumMismatch),
        (changed("\"version\":1", "\"version\":1,\"x\":1"), Code::StateChecksumMismatch),
        (changed("{\"a\":2}", "{\"a\":2,\"a\":2}"), Code::JsonDuplicateKey),
        (changed("{\"digest\"", "{digest"), Code::JsonInvalid),
        (join(&[lines[0], "\n", lines[1]]), Code::JsonInvalid),
        (join(&[lines[0], lines[2]]), Code::StateSequenceGap),
        (join(&[lines[1], lines[2]]), Code::StateSequenceGap),
        (join(&[lines[0], lines[0]]), Code::StateSequenceGap),
        (join(&[lines[1], lines[0]]), Code::StateSequenceGap),
        (text.trim_end().as_bytes().to_vec(), Code::JsonInvalid),
        (text.as_bytes()[..text.len() - 20].to_vec(), Code::JsonInvalid),
        (b"\xff\n".to_vec(), Code::JsonInvalid),
        (b"[]\n".to_vec(), Code::StateChecksumMismatch),
    ] {
        assert_eq!(code(&bytes), expected, "{}", String::from_utf8_lossy(&bytes));
    }
    // Another history with the same numbers does not fit under the same end.
    let other = saved(&[json!({"a": 9})]).to_bytes().unwrap();
    let spliced = [other.as_slice(), lines[1].as_bytes()].concat();
    assert_eq!(code(&spliced), Code::StateChecksumMismatch);
}

proptest! {
    #[test]
    fn what_is_saved_is_read_back_and_no_changed_byte_is(
        list in proptest::collection::vec(
            proptest::collection::btree_map("[a-zé\u{1f600}]{1,3}", any::<Option<i32>>(), 1..4),
            1..5,
        ),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let list: Vec<Value> = list.into_iter().map(|entries| json!(entries)).collect();
        let memory = saved(&list);
        let mut bytes = memory.to_bytes().unwrap();
        prop_assert_eq!(&Memory::from_bytes(&bytes).unwrap(), &memory);
        let at = at.index(bytes.len());
        let same = bytes[at] == byte;
        bytes[at] = byte;
        let read = Memory::from_bytes(&bytes);
        prop_assert_eq!(read.is_ok(), same, "byte {} as {}", at, byte);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(memory) = Memory::from_bytes(&bytes) {
            prop_assert_eq!(memory.to_bytes().unwrap(), bytes);
        }
    }
}
