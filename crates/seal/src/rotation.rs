//! One key takes the place of another: both say so.

use serde::{Deserialize, Serialize};
use windlass_kernel::Timestamp;

use crate::document;
use crate::key::{KeyId, PublicKey, Signature, Signer};

const FORMAT: &str = "windlass.rotation/v1";

/// The statement that one key was followed by another.
///
/// The old key's signature lets those who trust it trust the new one. The new key's signature lets
/// those who trust the new one trust the old one: without it, anybody could claim to have been before.
// Surplus fields are refused where documents are read: they would be gone when written again.
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
    /// States that `to` follows `from`.
    ///
    /// # Errors
    /// A sentence when the statement cannot be written.
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

    /// The key that was before.
    #[must_use]
    pub const fn from(&self) -> &PublicKey {
        &self.body.from
    }

    /// The key that followed.
    #[must_use]
    pub const fn to(&self) -> &PublicKey {
        &self.body.to
    }

    /// When.
    #[must_use]
    pub const fn ts(&self) -> Timestamp {
        self.body.ts
    }

    /// Whether both keys have signed exactly this.
    #[must_use]
    pub fn holds(&self) -> bool {
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
