//! Compares the kernel with the committed vectors, and the vectors with a second encoder.

mod format;

use format::{AcceptedRow, CanonicalRow, Machine, Texts, TransitionRow, ValidChain};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use windlass_kernel::recovery::{UncertainRule, plan};
use windlass_kernel::verify::ChainReport;
use windlass_kernel::verify::ChainVerifier;
use windlass_kernel::{
    Artifact, ArtifactType, Call, Code, Digest, Entry, ExecutionState, Head, PlanId, ReplayPoint,
    State, Transition, canon,
};

const MACHINE: &str = include_str!("../../../../../vectors/tga/state_transition_vectors.json");
const TEXTS: &str = include_str!("../../../../../vectors/canon/canonical_json.json");

/// The digests of the files: a change of the format must also be made here.
const MACHINE_SHA256: &str = "16559e95141f926e4b76da2f002ef26ddcb3a9275efeecf02831e293fb1a3713";
const TEXTS_SHA256: &str = "83dd52532655f02fe30b6b1348edfd777b26289ebeb1c6a7b920ffee8e1ad64f";

/// The size limit of the reader for rows without one.
const BYTES_MAX: usize = 1 << 20;

const CALL_STATES: [&str; 6] =
    ["PENDING", "AUTHORIZED", "EXECUTING", "COMPLETED", "FAILED", "DENIED"];

/// Event, the state it leads to, its artifact.
const EVENTS: [[&str; 3]; 6] = [
    ["request", "PENDING", "action_request"],
    ["approve", "AUTHORIZED", "supervisor_decision"],
    ["deny", "DENIED", "supervisor_decision"],
    ["call", "EXECUTING", "tool_call"],
    ["success", "COMPLETED", "tool_effect"],
    ["failure", "FAILED", "tool_effect"],
];

/// Current state (none: no entry yet), claimed state, event: the only rows that are allowed.
const ALLOWED: [(Option<&str>, &str, &str); 6] = [
    (None, "PENDING", "request"),
    (Some("PENDING"), "PENDING", "approve"),
    (Some("PENDING"), "PENDING", "deny"),
    (Some("AUTHORIZED"), "AUTHORIZED", "call"),
    (Some("EXECUTING"), "EXECUTING", "success"),
    (Some("EXECUTING"), "EXECUTING", "failure"),
];

fn machine() -> Machine {
    serde_json::from_str(MACHINE).unwrap()
}

fn texts() -> Texts {
    serde_json::from_str(TEXTS).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

/// The digest of raw JSON by an encoder other than the kernel's.
fn independent_digest(value: &Value) -> String {
    sha256(&serde_jcs::to_vec(value).unwrap())
}

/// The expected digest of an object whose digest is in `digest_field`.
fn independent_digest_without(object: &Value, digest_field: &str) -> String {
    let mut map: Map<String, Value> = object.as_object().unwrap().clone();
    map.remove(digest_field);
    independent_digest(&Value::Object(map))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

fn verify(entries: &[Value]) -> ChainVerifier {
    let mut chain = ChainVerifier::new();
    entries.iter().for_each(|entry| chain.push_json(entry));
    chain
}

fn chain_named<'a>(machine: &'a Machine, name: &str) -> &'a ValidChain {
    machine.valid_chains.iter().find(|chain| chain.name == name).unwrap()
}

fn entry_of(value: &Value) -> Entry {
    serde_json::from_value(value.clone()).unwrap()
}

/// Folds the first entries of a chain with their artifacts.
fn fold(chain: &ValidChain, length: usize) -> Call {
    let mut call = Call::empty(entry_of(&chain.entries[0]).trace_id);
    for (entry, artifact) in chain.entries.iter().zip(&chain.artifacts).take(length) {
        let entry = entry_of(entry);
        let body = canon::to_bytes(&artifact.body).unwrap();
        let artifact = Artifact::read(entry.artifact_type, &body).unwrap();
        assert_eq!(artifact.to_bytes().unwrap(), body, "{}", chain.name);
        let head = call.head.admit(&entry, &mut Vec::new()).unwrap();
        call.apply(&entry, artifact, head).unwrap();
    }
    call
}

fn head_at(machine: &Machine, chain: &str, entries_applied: usize) -> Head {
    fold(chain_named(machine, chain), entries_applied).head
}

#[test]
fn the_files_are_the_pinned_ones() {
    assert_eq!(sha256(MACHINE.as_bytes()), MACHINE_SHA256);
    assert_eq!(sha256(TEXTS.as_bytes()), TEXTS_SHA256);
    let (machine, texts) = (machine(), texts());
    assert!(!machine.comment.is_empty() && !texts.comment.is_empty());
    assert_eq!((machine.schema_version.as_str(), texts.schema_version.as_str()), ("v1", "v1"));
}

#[test]
fn every_pair_of_state_and_event_is_listed_and_agrees() {
    let machine = machine();
    let mut rows = machine.transitions.iter();
    for current in std::iter::once(None).chain(CALL_STATES.map(Some)) {
        for from in CALL_STATES {
            for [event, to, artifact] in EVENTS {
                let expected = TransitionRow {
                    current_state: current.map(|state| state.parse().unwrap()),
                    event: event.to_owned(),
                    from_state: from.parse().unwrap(),
                    to_state: to.parse().unwrap(),
                    artifact_type: artifact.parse().unwrap(),
                    allowed: ALLOWED.contains(&(current, from, event)),
                };
                assert_eq!(rows.next(), Some(&expected));
            }
        }
    }
    assert_eq!(rows.next(), None);
    for row in &machine.transitions {
        let transition =
            Transition { from: row.from_state, to: row.to_state, artifact: row.artifact_type };
        assert_eq!(transition.is_allowed_from(row.current_state), row.allowed, "{row:?}");
    }
    let events = EVENTS.map(|[event, to, artifact]| {
        json!({ "event": event, "to_state": to, "artifact_type": artifact })
    });
    assert_eq!(machine.events, events);
}

#[test]
fn no_other_transition_is_allowed_for_a_call() {
    let is_call = |state: State| CALL_STATES.contains(&state.as_str());
    let mut allowed = 0;
    for current in std::iter::once(None).chain(State::ALL.iter().copied().map(Some)) {
        for &from in State::ALL {
            for &to in State::ALL {
                for &artifact in ArtifactType::ALL {
                    let of_another = !is_call(from)
                        && !is_call(to)
                        && !windlass_kernel::is_call_artifact(artifact);
                    let transition = Transition { from, to, artifact };
                    allowed += usize::from(!of_another && transition.is_allowed_from(current));
                }
            }
        }
    }
    assert_eq!(allowed, ALLOWED.len());
}

#[test]
fn canonical_bytes_and_digests_agree() {
    let rows = machine().canonical;
    assert!(rows.len() >= 8);
    for CanonicalRow { name, value, canonical_hex, sha256: digest } in rows {
        assert_eq!(hex(&canon::to_bytes(&value).unwrap()), canonical_hex, "{name}");
        assert_eq!(canon::digest(&value).unwrap().to_string(), digest, "{name}");
        assert_eq!(hex(&serde_jcs::to_vec(&value).unwrap()), canonical_hex, "{name}");
        assert_eq!(independent_digest(&value), digest, "{name}");
    }
}

#[test]
fn valid_chains_hold() {
    let machine = machine();
    assert!(machine.valid_chains.len() >= 6);
    for chain in &machine.valid_chains {
        let (name, expect) = (&chain.name, &chain.expect);
        assert!(expect.chain_valid && !chain.comment.is_empty(), "{name}");
        let finding = ChainReport {
            chain_valid: true,
            error_code: None,
            divergence_point: None,
            entry_count: expect.entry_count,
            last_sequence_number: expect.last_sequence_number,
            latest_entry_digest: expect.latest_entry_digest,
            final_state: expect.final_state,
        };
        assert_eq!(verify(&chain.entries).finish(), finding, "{name}");
        assert_eq!(chain.artifacts.len(), chain.entries.len(), "{name}");
        let mut previous = "0".repeat(64);
        for (entry, artifact) in chain.entries.iter().zip(&chain.artifacts) {
            assert_eq!(text(entry, "prev_entry_digest"), previous, "{name}");
            previous = independent_digest_without(entry, "entry_digest");
            assert_eq!(text(entry, "entry_digest"), previous, "{name}");
            let digest = independent_digest(&artifact.body);
            assert_eq!(text(entry, "artifact_digest"), digest, "{name}");
            assert_eq!(artifact.artifact_digest.to_string(), digest, "{name}");
            assert_eq!(text(entry, "artifact_type"), artifact.artifact_type.as_str(), "{name}");
        }
        assert_eq!(expect.latest_entry_digest.to_string(), previous, "{name}");
        if !chain.entries.is_empty() {
            let call = fold(chain, chain.entries.len());
            assert_eq!(call.head.state, expect.final_state, "{name}");
            assert_eq!(verify(&chain.entries).head(), Some(&call.head), "{name}");
        }
    }
}

#[test]
fn invalid_chains_are_refused_where_they_break() {
    let machine = machine();
    assert!(machine.invalid_chains.len() >= 20);
    for chain in &machine.invalid_chains {
        let (name, expect) = (&chain.name, &chain.expect);
        assert!(!expect.chain_valid, "{name}");
        let held = &chain.entries[..expect.divergence_point - 1];
        for entry in held {
            let digest = independent_digest_without(entry, "entry_digest");
            assert_eq!(text(entry, "entry_digest"), digest, "{name}");
        }
        let last = held.last().map(entry_of);
        let finding = ChainReport {
            chain_valid: false,
            error_code: Some(expect.error_code),
            divergence_point: Some(expect.divergence_point as u64),
            entry_count: chain.entries.len() as u64,
            last_sequence_number: held.len() as u64,
            latest_entry_digest: last.as_ref().map_or(Digest::GENESIS, |last| last.entry_digest),
            final_state: last.map(|entry| entry.to_state),
        };
        assert_eq!(verify(&chain.entries).finish(), finding, "{name}");
        if let Some(place) = chain.schema_invalid_at {
            assert_eq!(place, expect.divergence_point, "{name}");
        }
    }
}

#[test]
fn upstream_vectors_agree() {
    let machine = machine();
    let chains: Vec<_> =
        machine.valid_transitions.iter().chain(&machine.invalid_transitions).collect();
    let passing = chains.iter().filter(|chain| chain.should_pass).count();
    assert_eq!((passing, chains.len()), (4, 13));
    for chain in chains {
        let finding = verify(&chain.entries).finish();
        assert_eq!(finding.chain_valid, chain.should_pass, "{}", chain.description);
        assert_eq!(finding.error_code, chain.expected_error, "{}", chain.description);
        assert!(
            chain.entries.iter().all(|entry| text(entry, "schema_id").starts_with("talos.tga."))
        );
    }
    for row in &machine.recovery_vectors {
        let chain = verify(&row.initial_log);
        let state = chain.finish().final_state;
        assert!(chain.error().is_none(), "{}", row.description);
        let expected = match row.recovery_action.as_str() {
            "RE_DISPATCH_SAME_TOOL_CALL" => (Some(State::Executing), "COMPLETED_OR_FAILED", true),
            _ => (Some(State::Completed), "COMPLETED", false),
        };
        let after = row.expected_state_after_recovery.as_str();
        assert_eq!((state, after, row.idempotency_enforced), expected, "{}", row.description);
    }
    assert_eq!(machine.recovery_vectors.len(), 2);
}

#[test]
fn names_are_unique() {
    let machine = machine();
    let mut names: Vec<&String> = machine.valid_chains.iter().map(|chain| &chain.name).collect();
    names.extend(machine.invalid_chains.iter().map(|chain| &chain.name));
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn recovery_plans_agree() {
    let machine = machine();
    for row in &machine.recovery {
        let call = match &row.chain {
            Some(name) => fold(chain_named(&machine, name), usize::MAX),
            None => fold(chain_named(&machine, "pending"), 0),
        };
        let rule = match row.on_uncertain.as_str() {
            "probe" => UncertainRule::Probe,
            "retry" => UncertainRule::Retry,
            "compensate" => UncertainRule::Compensate,
            other => {
                assert_eq!(other, "hold");
                UncertainRule::Hold
            }
        };
        let plan = plan(&call, rule, row.redispatches, row.retries_max);
        assert_eq!(serde_json::to_value(plan).unwrap(), row.plan, "{:?} {rule:?}", row.chain);
        if call.effect.is_some() {
            assert_eq!(row.plan, "nothing", "a recorded effect is never handed over again");
        }
    }
    assert_eq!(machine.recovery.len(), 7 * 4 * 5);
}

#[test]
fn replay_points_are_valid_or_refused() {
    let machine = machine();
    let mut valid = 0;
    for row in &machine.checkpoints {
        let name = &row.name;
        let head = head_at(&machine, &row.chain, row.entries_applied);
        // A document that is not exactly a replay point is refused.
        let found = match serde_json::from_value::<ReplayPoint>(row.checkpoint.clone()) {
            Ok(checkpoint) => checkpoint.agrees_with(&head).err().map(|error| error.code()),
            Err(_) => Some(Code::StateChecksumMismatch),
        };
        assert_eq!(found, row.expect.error_code, "{name}");
        assert_eq!(found.is_none(), row.expect.valid, "{name}");
        if row.expect.valid {
            valid += 1;
            let digest = independent_digest(&row.checkpoint["checkpoint_state"]);
            assert_eq!(text(&row.checkpoint, "checkpoint_digest"), digest, "{name}");
        }
    }
    assert!(valid >= 6 && machine.checkpoints.len() > valid + 12);
}

#[test]
fn execution_states_agree() {
    let machine = machine();
    for row in &machine.states {
        let head = head_at(&machine, &row.chain, row.entries_applied);
        let plan_id: PlanId = text(&row.state, "plan_id").parse().unwrap();
        let state = serde_json::to_value(ExecutionState::of(&head, plan_id)).unwrap();
        assert_eq!(state, row.state);
        let digest = independent_digest_without(&row.state, "state_digest");
        assert_eq!(text(&row.state, "state_digest"), digest);
    }
    assert!(!machine.states.is_empty());
}

#[test]
fn accepted_texts_have_their_canonical_bytes() {
    for AcceptedRow { name, text, canonical_hex, sha256: digest } in texts().accepted {
        let value = canon::parse(text.as_bytes(), BYTES_MAX).unwrap();
        let bytes = canon::to_bytes(&value).unwrap();
        assert_eq!(hex(&bytes), canonical_hex, "{name}");
        assert_eq!(sha256(&bytes), digest, "{name}");
        let loose: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(hex(&serde_jcs::to_vec(&loose).unwrap()), canonical_hex, "{name}");
        let again = canon::parse(&bytes, BYTES_MAX).unwrap();
        assert_eq!(canon::to_bytes(&again).unwrap(), bytes, "{name}");
    }
}

#[test]
fn refused_texts_have_their_codes() {
    for row in texts().refused {
        let bytes = row
            .text
            .map_or_else(|| unhex(&row.text_hex.clone().unwrap_or_default()), String::into_bytes);
        let error = canon::parse(&bytes, row.bytes_max.unwrap_or(BYTES_MAX)).unwrap_err();
        assert_eq!(error.code(), row.code, "{}: {error}", row.name);
    }
}
