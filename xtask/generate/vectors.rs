//! The language-neutral test vectors: generated from the kernel, and checked in the kernel's tests by a
//! second implementation of the digests.

mod canonical;
mod fixture;
mod invalid;
mod recovery;
mod run;
mod upstream;

use anyhow::Result;
use serde_json::{Value, json};
use windlass_kernel::verify::ChainVerifier;
use windlass_kernel::{ArtifactType, Digest, SCHEMA_VERSION, State};

use crate::output::File;

/// The states of a call.
const STATES: [State; 6] = [
    State::Pending,
    State::Authorized,
    State::Executing,
    State::Completed,
    State::Failed,
    State::Denied,
];

/// The events of a call, each with the state after it and the type of its artifact.
const EVENTS: [(&str, State, ArtifactType); 6] = [
    ("request", State::Pending, ArtifactType::ActionRequest),
    ("approve", State::Authorized, ArtifactType::SupervisorDecision),
    ("deny", State::Denied, ArtifactType::SupervisorDecision),
    ("call", State::Executing, ArtifactType::ToolCall),
    ("success", State::Completed, ArtifactType::ToolEffect),
    ("failure", State::Failed, ArtifactType::ToolEffect),
];

/// The vector files.
pub fn files() -> Result<Vec<File>> {
    let calls = fixture::calls()?;
    let mut machine = json!({
        "comment": "The call machine and its journal. `transitions`: whether an entry that claims \
            `from_state` -> `to_state` with `artifact_type` is allowed while the trace stands in \
            `current_state` (null: no entry yet). `canonical`: values, their RFC 8785 bytes in hex \
            and SHA-256. `valid_chains` and `invalid_chains`: entries in the order in which they \
            are read; an entry's digest is the SHA-256 of the canonical JSON of its other fields, \
            nulls included; `divergence_point` is the first sequence number that is not what it \
            should be; `schema_invalid_at` is the place of an entry that the schema alone refuses. \
            The chain's trace is the first entry's. `artifacts` are the bodies that the entries \
            name by digest. `recovery`: what to do with a call, named by its valid chain (null: \
            none), left behind by a dead process. `checkpoints`: each against the head after the \
            first `entries_applied` entries of a valid chain; one that is not exactly of its \
            schema is refused with the same code. `states`: execution states with their digest. \
            `valid_transitions`, `invalid_transitions` and `recovery_vectors` have the shape and \
            the ids of the specification's own vectors; an absent `tool_call_id` or \
            `idempotency_key` is null.",
        "schema_version": SCHEMA_VERSION,
        "events": EVENTS.map(|(event, to_state, artifact_type)| {
            json!({ "event": event, "to_state": to_state, "artifact_type": artifact_type })
        }),
        "transitions": transitions(),
        "canonical": canonical::values(&calls)?,
        "valid_chains": valid_chains(&calls)?,
        "invalid_chains": invalid::chains(&calls)?,
        "recovery": recovery::plans(),
        "checkpoints": recovery::checkpoints(&calls)?,
        "states": recovery::states(&calls)?,
    });
    if let Some(sections) = machine.as_object_mut() {
        sections.extend(upstream::sections(&calls)?);
    }
    Ok(vec![
        File::json("vectors/tga/state_transition_vectors.json", &machine)?,
        File::json("vectors/canon/canonical_json.json", &canonical::texts()?)?,
        File::json("vectors/run/events.json", &run::events()?)?,
    ])
}

/// The six rows that the specification allows: the first entry and five transitions.
const fn is_specified(current: Option<State>, from: State, event: &str) -> bool {
    matches!(
        (current, from, event.as_bytes()),
        (None, State::Pending, b"request")
            | (Some(State::Pending), State::Pending, b"approve" | b"deny")
            | (Some(State::Authorized), State::Authorized, b"call")
            | (Some(State::Executing), State::Executing, b"success" | b"failure")
    )
}

/// Every combination of a current state, a claimed state and an event.
fn transitions() -> Value {
    let mut rows = Vec::new();
    for current in std::iter::once(None).chain(STATES.map(Some)) {
        for from in STATES {
            for (event, to, artifact) in EVENTS {
                rows.push(json!({
                    "current_state": current,
                    "event": event,
                    "from_state": from,
                    "to_state": to,
                    "artifact_type": artifact,
                    "allowed": is_specified(current, from, event),
                }));
            }
        }
    }
    Value::Array(rows)
}

fn valid_chains(calls: &[fixture::Call]) -> Result<Value> {
    let mut rows = vec![json!({
        "name": "empty",
        "comment": "a trace without entries holds",
        "entries": [],
        "artifacts": [],
        "expect": expect(&ChainVerifier::new()),
    })];
    for call in calls {
        let mut chain = ChainVerifier::new();
        let mut artifacts = Vec::new();
        for (entry, artifact) in call.entries.iter().zip(&call.artifacts) {
            chain.push(entry);
            let bytes = artifact.to_bytes()?;
            artifacts.push(json!({
                "artifact_type": entry.artifact_type,
                "artifact_digest": Digest::of(&bytes),
                "body": serde_json::from_slice::<Value>(&bytes)?,
            }));
        }
        rows.push(json!({
            "name": call.name,
            "comment": call.comment,
            "entries": call.entries,
            "artifacts": artifacts,
            "expect": expect(&chain),
        }));
    }
    Ok(Value::Array(rows))
}

fn expect(chain: &ChainVerifier) -> Value {
    let finding = chain.finish();
    json!({
        "chain_valid": finding.chain_valid,
        "entry_count": finding.entry_count,
        "last_sequence_number": finding.last_sequence_number,
        "latest_entry_digest": finding.latest_entry_digest,
        "final_state": finding.final_state,
    })
}
