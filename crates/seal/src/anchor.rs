//! The ends of all traces of a store in one signed file, to be kept elsewhere.
//!
//! One line says what it is, then one line for each trace, newest first, then one line that signs the
//! digest of all before it. However many traces there are, only one is in memory at a time.

mod check;
mod write;

use serde::{Deserialize, Serialize};
use windlass_kernel::{Digest, Head, State, Timestamp, TraceId};

use crate::document;
use crate::key::{KeyId, PublicKey, Signature, Signer};
use crate::rotation::Rotation;

pub use check::{AnchorOutcome, AnchorReport, Changed, Found, check_anchor};
pub use write::{NewAnchor, Written, write_anchor};

/// The version of anchors.
pub const ANCHOR_FORMAT: &str = "windlass.anchor/v1";
/// What the last line starts with, and no other.
const LAST: &[u8] = b"{\"digest\":";

/// The first line of an anchor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchorHeader {
    /// The version.
    pub format: String,
    /// The public keys of the project, the signer's among them.
    pub keys: Vec<PublicKey>,
    /// When it was made.
    pub made_at: Timestamp,
    /// The rotations of the project.
    pub rotations: Vec<Rotation>,
    /// Which store it is of, where stores have names.
    pub store: Option<String>,
}

/// The line of one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Anchored {
    entry_digest: Digest,
    sequence_number: u64,
    state: State,
    trace_id: TraceId,
}

impl Anchored {
    fn of(head: &Head) -> Option<Self> {
        Some(Self {
            entry_digest: head.entry_digest,
            sequence_number: head.sequence_number,
            state: head.state?,
            trace_id: head.trace_id,
        })
    }

    /// The canonical form, which for these fields is plain.
    fn to_line(self) -> String {
        let Self { entry_digest, sequence_number, state, trace_id } = self;
        format!(
            "{{\"entry_digest\":\"{entry_digest}\",\"sequence_number\":{sequence_number},\
             \"state\":\"{state}\",\"trace_id\":\"{trace_id}\"}}\n"
        )
    }

    fn from_line(line: &[u8]) -> Result<Self, String> {
        let anchored: Self = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if anchored.to_line().as_bytes() != line || anchored.sequence_number == 0 {
            return Err("it is not in canonical form".to_owned());
        }
        Ok(anchored)
    }
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
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

impl Seal {
    fn sign(signer: &Signer, digest: Digest, traces: u64) -> Result<Self, String> {
        let key_id = signer.public().id();
        let unsigned = Unsigned { digest, format: ANCHOR_FORMAT, key_id, traces };
        let signature = signer.sign(&document::to_sign(ANCHOR_FORMAT, &unsigned)?);
        Ok(Self { digest, format: ANCHOR_FORMAT.to_owned(), key_id, signature, traces })
    }

    fn verifies(&self, key: &PublicKey) -> bool {
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
            let anchored = Anchored {
                entry_digest: Digest::of(&number.to_be_bytes()),
                sequence_number: number,
                state: State::ALL[at],
                trace_id: TraceId(Uuid7::from_parts(u64::from(ms), [3; 10])),
            };
            let line = anchored.to_line();
            let canonical = String::from_utf8(canon::to_bytes(&anchored).unwrap()).unwrap();
            prop_assert_eq!(&line, &(canonical + "\n"));
            prop_assert_eq!(Anchored::from_line(line.as_bytes()), Ok(anchored));
        }
    }
}
