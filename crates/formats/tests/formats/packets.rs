//! Packets: their pinned bytes, and everything that must be noticed about a changed one.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_formats::{
    Approval, Decision, FieldError, GateResult, HoldPacket, Moment, Outcome, PACKET_BYTES_MAX,
    PacketError, PhaseStatus, Resolution, RunName, RunStatus, StepKey, TerminalPacket, read_hold,
    read_hold_of, read_terminal, yaml,
};
use windlass_kernel::{Code, Digest};

const RUN: &str = "run_20260202_120000_1a2b3c4d";

fn run() -> RunName {
    RUN.parse().unwrap()
}

fn at(text: &str) -> Moment {
    text.parse().unwrap()
}

fn hold() -> HoldPacket {
    let task = json!({ "context_refs": ["docs/spec.md"], "task": "Implement feature X" });
    HoldPacket {
        checkpoint_id: run().checkpoint(&StepKey::index(2)),
        timestamp: at("2026-02-02T12:00:00Z"),
        trigger: "ESCALATION_REQUESTED".to_owned(),
        step_index: 2,
        policy_hash: Digest::of(b"policy"),
        task_spec: task.as_object().unwrap().clone(),
        resolution: None,
        step_name: None,
        shown_digest: None,
        expires_at: None,
        approvals_needed: None,
        approvals: Vec::new(),
        changed_tests_and_scripts: Vec::new(),
        call: None,
    }
}

fn approved() -> HoldPacket {
    let approval = |by: &str, minute: &str| Approval {
        at: at(&format!("2026-02-02T12:{minute}:00Z")),
        by: by.to_owned(),
        reason: "looks right: see #12".to_owned(),
    };
    HoldPacket {
        resolution: Some(Resolution {
            decision: Decision::Approved,
            by: Some("Ana Lima".to_owned()),
            at: Some(at("2026-02-02T12:30:00Z")),
            reason: Some("the plan is sound\nand \"small\"".to_owned()),
        }),
        step_name: Some("design".to_owned()),
        shown_digest: Some(Digest::of(b"shown")),
        expires_at: Some(at("2026-02-03T12:00:00Z")),
        approvals_needed: Some(2),
        approvals: vec![approval("bob", "10"), approval("Ana Lima", "30")],
        ..hold()
    }
}

fn passed() -> TerminalPacket {
    let steps = ["hydrate", "policy", "design", "build", "review", "steward"];
    TerminalPacket {
        steps_executed: steps.map(str::to_owned).to_vec(),
        commit_hash: Some("b6eae16d6209b99ed4c914a330e3b57c49d11324".to_owned()),
        ..TerminalPacket::new(run(), at("2026-02-02T12:00:00Z"), Outcome::Pass, "pass")
    }
}

fn blocked() -> TerminalPacket {
    let key = |text: &str| text.parse::<StepKey>().unwrap();
    let gate = |phase: &str, pass: bool, reason: &str| GateResult {
        name: "review".to_owned(),
        pass,
        phase: phase.to_owned(),
        reason: reason.to_owned(),
    };
    TerminalPacket {
        steps_executed: vec!["hydrate".to_owned(), "review".to_owned()],
        status: Some(RunStatus::CleanFail),
        start_ts: Some(at("2026-02-02T11:00:00Z")),
        end_ts: Some(at("2026-02-02T12:00:00Z")),
        task_ref: Some("12".to_owned()),
        policy_hash: Some(Digest::of(b"policy")),
        phase_outcomes: BTreeMap::from([
            (key("hydrate"), PhaseStatus::Complete),
            (key("2a"), PhaseStatus::Skipped),
            (key("review"), PhaseStatus::Failed),
        ]),
        gate_results: vec![gate("build", true, ""), gate("review", false, "rejected: no tests")],
        repo_clean_verified: Some(true),
        tokens_consumed: Some(81_234),
        token_accounting_complete: Some(false),
        ledger_chain_tip: Some(Digest::of(b"tip")),
        ledger_attempt_count: Some(3),
        ..TerminalPacket::new(
            run(),
            at("2026-02-02T12:00:01Z"),
            Outcome::Blocked,
            "review_rejected",
        )
    }
}

fn pinned(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/packets").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_bytes_are_those_of_the_vectors() {
    for (name, packet) in [("hold_open.yaml", hold()), ("hold_approved.yaml", approved())] {
        let bytes = packet.to_bytes().unwrap();
        assert_eq!(text(bytes.clone()), pinned(name));
        assert_eq!(read_hold(&bytes), Ok(packet));
    }
    for (name, packet) in [("terminal_pass.yaml", passed()), ("terminal_blocked.yaml", blocked())] {
        let bytes = packet.to_bytes().unwrap();
        assert_eq!(text(bytes.clone()), pinned(name));
        assert_eq!(read_terminal(&bytes), Ok(packet));
    }
}

#[test]
fn changed_tests_and_scripts_are_listed() {
    let listed = vec!["check.sh".to_owned(), "tests/ä: b.rs".to_owned(), "… and 2 more".to_owned()];
    let packet = HoldPacket { changed_tests_and_scripts: listed.clone(), ..approved() };
    let bytes = packet.to_bytes().unwrap();
    assert!(text(bytes.clone()).contains("changed_tests_and_scripts:\n- check.sh\n"));
    assert_eq!(read_hold(&bytes), Ok(packet));
    let packet = TerminalPacket { changed_tests_and_scripts: listed, ..blocked() };
    assert_eq!(read_terminal(&packet.to_bytes().unwrap()), Ok(packet));
}

#[test]
fn keys_are_sorted_on_every_level() {
    for packet in [approved().to_bytes().unwrap(), blocked().to_bytes().unwrap()] {
        let packet = text(packet);
        let keys: Vec<&str> = packet
            .lines()
            .filter(|line| !line.starts_with([' ', '-']))
            .filter_map(|line| line.split_once(':'))
            .map(|(key, _)| key)
            .collect();
        assert!(keys.len() > 12 && keys.is_sorted(), "{keys:?}");
    }
}

#[test]
fn the_digest_is_that_of_the_yaml_with_a_null_in_its_place() {
    for packet in [approved().to_bytes().unwrap(), blocked().to_bytes().unwrap()] {
        let packet = text(packet);
        let line = packet.lines().find(|line| line.starts_with("packet_hash: ")).unwrap();
        let stated = line.trim_start_matches("packet_hash: ").trim_matches('\'');
        let without = packet.replace(line, "packet_hash: null");
        assert_eq!(Digest::of(without.as_bytes()).to_string(), stated);
    }
}

fn changed(packet: &HoldPacket, from: &str, to: &str) -> PacketError {
    let written = text(packet.to_bytes().unwrap());
    assert!(written.contains(from), "{from} is not in\n{written}");
    read_hold(written.replacen(from, to, 1).as_bytes()).unwrap_err()
}

#[test]
fn what_a_hand_changed_is_noticed() {
    for (from, to) in [
        ("step_index: 2", "step_index: 3"),
        ("feature X", "feature Y"),
        ("trigger: ESCALATION_REQUESTED", "trigger: WAIVER_REQUESTED"),
        ("resolved: false", "resolved: false\nstep_name: steward"),
        ("resolved: false", "resolved: false\nexpires_at: null"),
        (
            "resolution_decision: null\nresolved: false",
            "resolution_decision: APPROVED\nresolved: true",
        ),
        (
            "resolution_decision: null\nresolved: false",
            "resolution_decision: REJECTED\nresolved: true",
        ),
    ] {
        let error = changed(&hold(), from, to);
        assert!(matches!(error, PacketError::Edited { .. }), "{to}: {error:?}");
        assert_eq!(error.code(), Code::PacketEdited);
    }
}

#[test]
fn a_resolution_is_whole_or_none() {
    let none = "resolution_decision: null\nresolved: false";
    let with = |to: &str| changed(&hold(), none, to);
    assert_eq!(
        with("resolution_decision: null\nresolved: true"),
        PacketError::ResolvedWithoutDecision
    );
    for decision in ["approved", "APPROVE", "''", "'APPROVED '", "PASS"] {
        let error = with(&format!("resolution_decision: {decision}\nresolved: true"));
        assert!(matches!(error, PacketError::UnknownDecision(_)), "{decision}: {error:?}");
    }
    assert_eq!(
        with("resolution_decision: APPROVED\nresolved: false"),
        PacketError::DecisionWithoutResolved("resolution_decision")
    );
    for field in ["resolved_by", "resolution_reason"] {
        assert_eq!(
            with(&format!("{none}\n{field}: bob")),
            PacketError::DecisionWithoutResolved(field)
        );
    }
    assert_eq!(
        with(&format!("{none}\nresolved_at: '2026-02-02T12:00:00Z'")),
        PacketError::DecisionWithoutResolved("resolved_at")
    );
    for wrong in ["'true'", "1", "yes", "null", "[true]"] {
        let error = with(&format!("resolution_decision: APPROVED\nresolved: {wrong}"));
        assert!(matches!(error, PacketError::Field(_)), "{wrong}: {error:?}");
    }
}

#[test]
fn the_packet_of_another_hold_is_foreign() {
    let bytes = hold().to_bytes().unwrap();
    let own = hold().checkpoint_id;
    assert_eq!(read_hold_of(&bytes, &own), Ok(hold()));
    let other = run().checkpoint(&StepKey::index(3));
    let error = read_hold_of(&bytes, &other).unwrap_err();
    assert_eq!(error, PacketError::Foreign { expected: other.to_string(), found: own.to_string() });
    assert_eq!(error.code(), Code::PacketEdited);
    let error = changed(&hold(), "run_id: run_2026", "run_id: run_2025");
    assert!(matches!(error, PacketError::RunMismatch { .. }), "{error:?}");
}

#[test]
fn a_packet_cut_off_anywhere_is_noticed() {
    let bytes = approved().to_bytes().unwrap();
    for end in 0..bytes.len() - 1 {
        assert!(read_hold(&bytes[..end]).is_err(), "{end} bytes");
    }
    let bytes = blocked().to_bytes().unwrap();
    for end in 0..bytes.len() - 1 {
        assert!(read_terminal(&bytes[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn every_field_of_the_seed_is_required() {
    let whole: Value = yaml::read(&hold().to_bytes().unwrap(), PACKET_BYTES_MAX).unwrap();
    assert_eq!(whole.as_object().unwrap().len(), 10);
    for field in whole.as_object().unwrap().keys() {
        let mut without = whole.clone();
        without.as_object_mut().unwrap().remove(field);
        let error = read_hold(yaml::emit(&without).unwrap().as_bytes()).unwrap_err();
        let missing = FieldError::Missing { field: field.clone() };
        assert_eq!(error, PacketError::Field(missing));
    }
    let whole: Value = yaml::read(&passed().to_bytes().unwrap(), PACKET_BYTES_MAX).unwrap();
    assert_eq!(whole.as_object().unwrap().len(), 7);
    for field in whole.as_object().unwrap().keys() {
        let mut without = whole.clone();
        without.as_object_mut().unwrap().remove(field);
        let error = read_terminal(yaml::emit(&without).unwrap().as_bytes()).unwrap_err();
        let missing = FieldError::Missing { field: field.clone() };
        assert_eq!(error, PacketError::Field(missing));
    }
}

#[test]
fn a_task_that_does_not_fit_is_refused_when_it_is_written() {
    let with = |value: Value| HoldPacket {
        task_spec: Map::from_iter([("task".to_owned(), value)]),
        ..hold()
    };
    let large = with(json!("a".repeat(PACKET_BYTES_MAX)));
    assert!(matches!(large.to_bytes(), Err(PacketError::TooLarge { .. })));
    assert!(matches!(with(json!(u64::MAX)).to_bytes(), Err(PacketError::Unwritable(_))));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(Value::from),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_packet_reads_back(
        task in proptest::collection::btree_map(any::<String>(), json_value(), 0..5),
        trigger: String, by: Option<String>, reason: Option<String>, rejected: bool,
        resolved: bool, name: Option<String>, index: u32, needed: Option<u32>,
    ) {
        let decision = if rejected { Decision::Rejected } else { Decision::Approved };
        let packet = HoldPacket {
            task_spec: task.into_iter().collect(),
            trigger,
            resolution: resolved.then_some(Resolution { decision, by, at: None, reason }),
            step_name: name,
            step_index: index,
            approvals_needed: needed,
            ..hold()
        };
        let bytes = packet.to_bytes().unwrap();
        prop_assert_eq!(&bytes, &packet.to_bytes().unwrap());
        prop_assert_eq!(read_hold(&bytes).unwrap(), packet);
    }

    #[test]
    fn a_changed_byte_never_gives_another_packet(at in any::<proptest::sample::Index>(), byte: u8) {
        let mut bytes = approved().to_bytes().unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        // Some changes keep the meaning, such as one space for another; none may change it.
        if let Ok(packet) = read_hold(&bytes) {
            prop_assert_eq!(packet, approved());
        }
    }
}
