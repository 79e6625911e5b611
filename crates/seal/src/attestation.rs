//! The attestation of a run: an in-toto statement in a DSSE envelope.
//!
//! The statement follows from the journal, so a verifier writes it again and compares.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_kernel::run::Run;
use windlass_kernel::{Digest, Head};

use crate::document;
use crate::key::{KeyId, PublicKey, Signature, Signer};

/// The type of an in-toto statement.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The type of the predicate.
pub const PREDICATE_TYPE: &str = "https://windlass.dev/run/v1";
/// The type of the envelope's payload.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// Writes the statement of a run. If an event was purged, `run` is `None` and the statement has only the
/// head of the trace.
pub(crate) fn write(
    run_id: &str,
    policy_hash: Option<Digest>,
    head: &Head,
    run: Option<&Run>,
) -> Result<Vec<u8>, String> {
    let started = run.and_then(|run| run.started.as_deref());
    let ended = run.and_then(|run| run.ended.as_ref());
    let subject = match run.and_then(|run| run.commit.as_ref()) {
        Some(commit) => json!({
            "digest": { "gitCommit": commit.commit },
            "name": commit.branch,
        }),
        None => json!({ "digest": { "sha256": head.entry_digest }, "name": run_id }),
    };
    let base = started.and_then(|started| started.base.as_ref());
    let materials: Vec<Value> = base
        .iter()
        .map(|base| {
            let name = base.branch.as_deref().unwrap_or("HEAD");
            json!({ "digest": { "gitCommit": base.commit }, "name": name })
        })
        .collect();
    let statement = json!({
        "_type": STATEMENT_TYPE,
        "predicate": {
            "byproducts": run.map(byproducts).unwrap_or_default(),
            "ended_at": ended.map(|ended| ended.at),
            "head": {
                "entry_digest": head.entry_digest,
                "sequence_number": head.sequence_number,
                "state": head.state,
            },
            "loop": started.map(|started| json!({
                "digest": { "sha256": started.loop_digest },
                "id": started.plan.id,
                "variant": started.plan.variant,
                "version": started.plan.version,
            })),
            "materials": materials,
            "outcome": ended.map(|ended| ended.outcome),
            "policy": policy_hash.map(|hash| json!({ "digest": { "sha256": hash } })),
            "reason": ended.map(|ended| &ended.reason),
            "run_id": run_id,
            "started_at": run.and_then(|run| run.started_at),
            "trace_id": head.trace_id,
        },
        "predicateType": PREDICATE_TYPE,
        "subject": [subject],
    });
    document::write(&statement)
}

/// The outputs of the newest attempt of each phase.
fn byproducts(run: &Run) -> Vec<Value> {
    run.all_phases()
        .filter_map(|(phase, state)| Some((phase, state.done.as_ref()?)))
        .flat_map(|(phase, done)| {
            done.outputs.iter().map(|(path, digest)| {
                let annotations = json!({ "phase": phase.id });
                json!({ "annotations": annotations, "digest": { "sha256": digest }, "name": path })
            })
        })
        .collect()
}

/// A DSSE envelope.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Envelope {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeSignature {
    keyid: KeyId,
    sig: Signature,
}

impl Envelope {
    /// Signs a statement.
    pub(crate) fn sign(signer: &Signer, statement: &[u8]) -> Self {
        let sig = signer.sign(&to_sign(PAYLOAD_TYPE, statement));
        Self {
            payload: STANDARD.encode(statement),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![EnvelopeSignature { keyid: signer.public().id(), sig }],
        }
    }

    /// Checks that the envelope contains `statement`, signed by `key` and no other key.
    pub(crate) fn check(&self, key: &PublicKey, statement: &[u8]) -> Result<(), &'static str> {
        if self.payload_type != PAYLOAD_TYPE || self.payload != STANDARD.encode(statement) {
            return Err("its payload is not the statement");
        }
        let [signature] = &self.signatures[..] else {
            return Err("it does not have exactly one signature");
        };
        let signed = signature.keyid == key.id()
            && key.verifies(&to_sign(PAYLOAD_TYPE, statement), &signature.sig);
        if signed { Ok(()) } else { Err("it is not signed by the bundle's key") }
    }
}

/// Returns the bytes that DSSE signs.
fn to_sign(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let start = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [start.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_signs_what_dsse_says() {
        // The example of the DSSE protocol's own text.
        let bytes = to_sign("http://example.com/HelloWorld", b"hello world");
        assert_eq!(bytes, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
