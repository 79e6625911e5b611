//! Key rotations: statements that one key replaced another, signed by both.

use serde::{Deserialize, Serialize};
use windlass_kernel::Timestamp;

use crate::document;
use crate::key::{KeyId, PublicKey, Signature, Signer};

const FORMAT: &str = "windlass.rotation/v1";

/// The signed statement that one key replaced another.
///
/// The old key's signature extends trust in the old key to the new one. The new key's signature extends
/// trust in the new key to the old one: without it, anyone could claim to be a predecessor.
// Documents with unknown fields are refused when they are read, since they are not canonical.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    #[serde(flatten)]
    body: Body,
    signature_by_from: Signature,
    signature_by_to: Signature,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Body {
    format: String,
    from: PublicKey,
    from_id: KeyId,
    to: PublicKey,
    to_id: KeyId,
    ts: Timestamp,
}

impl Rotation {
    /// Signs the statement that `to` replaces `from`.
    ///
    /// # Errors
    /// A message if the statement cannot be serialised.
    pub fn sign(from: &Signer, to: &Signer, ts: Timestamp) -> Result<Self, String> {
        let (from_key, to_key) = (from.public(), to.public());
        let body = Body {
            format: FORMAT.to_owned(),
            from: from_key,
            from_id: from_key.id(),
            to: to_key,
            to_id: to_key.id(),
            ts,
        };
        let bytes = document::to_sign(FORMAT, &body)?;
        let (signature_by_from, signature_by_to) = (from.sign(&bytes), to.sign(&bytes));
        Ok(Self { body, signature_by_from, signature_by_to })
    }

    /// The replaced key.
    #[must_use]
    pub const fn from(&self) -> &PublicKey {
        &self.body.from
    }

    /// The replacing key.
    #[must_use]
    pub const fn to(&self) -> &PublicKey {
        &self.body.to
    }

    /// The time of the rotation.
    #[must_use]
    pub const fn ts(&self) -> Timestamp {
        self.body.ts
    }

    /// Whether both signatures are valid.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let body = &self.body;
        body.format == FORMAT
            && body.from_id == body.from.id()
            && body.to_id == body.to.id()
            && document::to_sign(FORMAT, body).is_ok_and(|bytes| {
                body.from.verifies(&bytes, &self.signature_by_from)
                    && body.to.verifies(&bytes, &self.signature_by_to)
            })
    }
}
