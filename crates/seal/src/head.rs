//! Signed heads of traces.

use serde::{Deserialize, Serialize};
use windlass_kernel::{Digest, Head, State, Timestamp, TraceId};

use crate::document;
use crate::key::{KeyId, PublicKey, Signature, Signer};

const FORMAT: &str = "windlass.head/v1";

/// The head of a trace, signed at a certain time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedHead {
    /// The digest of the last entry, which covers all entries before it.
    pub entry_digest: Digest,
    /// The key that signed.
    pub key_id: KeyId,
    /// The digest of the policy set, if known.
    pub policy_hash: Option<Digest>,
    /// The run that the trace belongs to, if any.
    pub run_id: Option<String>,
    /// The sequence number of the last entry.
    pub sequence_number: u64,
    /// The signature of all the other fields.
    pub signature: Signature,
    /// The state after the last entry.
    pub state: State,
    /// The trace.
    pub trace_id: TraceId,
    /// The time of signing.
    pub ts: Timestamp,
}

#[derive(Serialize)]
struct Unsigned<'a> {
    entry_digest: Digest,
    key_id: KeyId,
    policy_hash: Option<Digest>,
    run_id: Option<&'a str>,
    sequence_number: u64,
    state: State,
    trace_id: TraceId,
    ts: Timestamp,
}

impl SignedHead {
    /// Signs the head of a trace.
    ///
    /// # Errors
    /// A message if the trace has no entries.
    pub fn sign(
        signer: &Signer,
        head: &Head,
        run_id: Option<&str>,
        policy_hash: Option<Digest>,
        ts: Timestamp,
    ) -> Result<Self, String> {
        let state = head.state.ok_or("a trace without entries has no head to sign")?;
        let mut signed = Self {
            entry_digest: head.entry_digest,
            key_id: signer.public().id(),
            policy_hash,
            run_id: run_id.map(str::to_owned),
            sequence_number: head.sequence_number,
            signature: Signature::from_bytes([0; 64]),
            state,
            trace_id: head.trace_id,
            ts,
        };
        signed.signature = signer.sign(&signed.to_sign()?);
        Ok(signed)
    }

    /// Whether the signature is valid and from `key`.
    #[must_use]
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        self.key_id == key.id()
            && self.to_sign().is_ok_and(|bytes| key.verifies(&bytes, &self.signature))
    }

    /// Whether this is the signed form of `head`.
    #[must_use]
    pub fn matches(&self, head: &Head) -> bool {
        self.trace_id == head.trace_id
            && self.sequence_number == head.sequence_number
            && self.entry_digest == head.entry_digest
            && Some(self.state) == head.state
    }

    fn to_sign(&self) -> Result<Vec<u8>, String> {
        document::to_sign(
            FORMAT,
            &Unsigned {
                entry_digest: self.entry_digest,
                key_id: self.key_id,
                policy_hash: self.policy_hash,
                run_id: self.run_id.as_deref(),
                sequence_number: self.sequence_number,
                state: self.state,
                trace_id: self.trace_id,
                ts: self.ts,
            },
        )
    }
}
