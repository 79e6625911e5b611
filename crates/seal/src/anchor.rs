//! Anchors: the heads of all traces of a store in one signed file, to be stored elsewhere.
//!
//! The file has a header line, one line for each trace (newest first), and a last line that signs the
//! digest of all lines before it. Only one trace is in memory at a time.

mod check;
mod write;

use serde::{Deserialize, Serialize};
use windlass_kernel::{Digest, Head, State, Timestamp, TraceId};

use crate::document;
use crate::key::{KeyId, PublicKey, Signature, Signer};
use crate::rotation::Rotation;

pub use check::{AnchorOutcome, AnchorReport, StoredTrace, TraceChange, check_anchor};
pub use write::{AnchorSummary, NewAnchor, write_anchor};

/// The format version of anchors.
pub const ANCHOR_FORMAT: &str = "windlass.anchor/v1";
/// The start of the last line; no other line starts like this.
const SIGNATURE_PREFIX: &[u8] = b"{\"digest\":";

/// The first line of an anchor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchorHeader {
    /// The format version.
    pub format: String,
    /// The public keys of the project, including the signer's.
    pub keys: Vec<PublicKey>,
    /// The time of creation.
    pub made_at: Timestamp,
    /// The rotations of the project.
    pub rotations: Vec<Rotation>,
    /// The name of the store, if it has one.
    pub store: Option<String>,
}

/// The line of one trace: its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnchoredHead {
    entry_digest: Digest,
    sequence_number: u64,
    state: State,
    trace_id: TraceId,
}

impl AnchoredHead {
    fn new(head: &Head) -> Option<Self> {
        Some(Self {
            entry_digest: head.entry_digest,
            sequence_number: head.sequence_number,
            state: head.state?,
            trace_id: head.trace_id,
        })
    }

    /// Writes the canonical JSON directly: none of these fields needs escaping.
    fn to_line(self) -> String {
        let Self { entry_digest, sequence_number, state, trace_id } = self;
        format!(
            "{{\"entry_digest\":\"{entry_digest}\",\"sequence_number\":{sequence_number},\
             \"state\":\"{state}\",\"trace_id\":\"{trace_id}\"}}\n"
        )
    }

    fn from_line(line: &[u8]) -> Result<Self, String> {
        let head: Self = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if head.to_line().as_bytes() != line || head.sequence_number == 0 {
            return Err("it is not canonical JSON".to_owned());
        }
        Ok(head)
    }
}

/// The last line: the signature of the digest of all lines before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnchorSignature {
    digest: Digest,
    format: String,
    key_id: KeyId,
    signature: Signature,
    traces: u64,
}

#[derive(Serialize)]
struct Unsigned<'a> {
    digest: Digest,
    format: &'a str,
    key_id: KeyId,
    traces: u64,
}

impl AnchorSignature {
    fn sign(signer: &Signer, digest: Digest, traces: u64) -> Result<Self, String> {
        let key_id = signer.public().id();
        let unsigned = Unsigned { digest, format: ANCHOR_FORMAT, key_id, traces };
        let signature = signer.sign(&document::to_sign(ANCHOR_FORMAT, &unsigned)?);
        Ok(Self { digest, format: ANCHOR_FORMAT.to_owned(), key_id, signature, traces })
    }

    fn is_signed_by(&self, key: &PublicKey) -> bool {
        let Self { digest, format, key_id, traces, .. } = self;
        let unsigned = Unsigned { digest: *digest, format, key_id: *key_id, traces: *traces };
        format == ANCHOR_FORMAT
            && *key_id == key.id()
            && document::to_sign(ANCHOR_FORMAT, &unsigned)
                .is_ok_and(|bytes| key.verifies(&bytes, &self.signature))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use windlass_kernel::{Uuid7, canon};

    use super::*;

    proptest! {
        #[test]
        fn a_line_is_canonical(number in 1_u64..1 << 53, at in 0..State::ALL.len(), ms: u32) {
            let anchored = AnchoredHead {
                entry_digest: Digest::of(&number.to_be_bytes()),
                sequence_number: number,
                state: State::ALL[at],
                trace_id: TraceId(Uuid7::from_parts(u64::from(ms), [3; 10])),
            };
            let line = anchored.to_line();
            let canonical = String::from_utf8(canon::to_bytes(&anchored).unwrap()).unwrap();
            prop_assert_eq!(&line, &(canonical + "\n"));
            prop_assert_eq!(AnchoredHead::from_line(line.as_bytes()), Ok(anchored));
        }
    }
}
