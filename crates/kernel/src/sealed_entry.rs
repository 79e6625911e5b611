//! Entries whose digests are known to be correct because they were computed from these bytes.
//!
//! Digests are the most expensive part of an append. These types have no public fields and no methods
//! that change them, so a digest computed by one part of a process need not be computed again by the
//! next part.

use crate::{ChainError, Digest, Draft, Entry, Head};

/// The canonical bytes of an artifact and their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactBody {
    bytes: Vec<u8>,
    digest: Digest,
}

impl ArtifactBody {
    /// Computes the digest of an artifact's bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let digest = Digest::of(&bytes);
        Self { bytes, digest }
    }

    /// The digest of the bytes.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

/// An entry with the bytes of its artifact; both digests are correct. Only [`Head::seal`] creates one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedEntry {
    entry: Entry,
    body: Vec<u8>,
}

impl SealedEntry {
    /// The entry.
    #[must_use]
    pub const fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The artifact's bytes.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Splits it into the entry and the artifact's bytes, which are no longer sealed.
    #[must_use]
    pub fn into_parts(self) -> (Entry, Vec<u8>) {
        (self.entry, self.body)
    }
}

impl Head {
    /// Creates the next entry together with its artifact, and the head after it.
    ///
    /// # Errors
    /// [`ChainError`] if the draft is not allowed here or has the digest of another artifact.
    #[inline]
    pub fn seal(
        &self,
        draft: Draft,
        body: ArtifactBody,
    ) -> Result<(SealedEntry, Self), ChainError> {
        if draft.artifact_digest != body.digest {
            return Err(ChainError::Artifact {
                sequence_number: self.sequence_number.saturating_add(1),
                artifact: draft.transition.artifact.as_str(),
            });
        }
        let (entry, head) = self.append(draft)?;
        Ok((SealedEntry { entry, body: body.bytes }, head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArtifactId, ArtifactType, State, Timestamp, TraceId, Transition, Uuid7};

    #[test]
    fn only_the_body_that_the_draft_names_is_sealed() {
        let id = Uuid7::from_parts(1, [7; 10]);
        let head = Head::empty(TraceId(id));
        let body = ArtifactBody::new(b"{}".to_vec());
        let from = State::Pending;
        let draft = Draft {
            ts: Timestamp::EPOCH,
            transition: Transition { from, to: from, artifact: ArtifactType::ActionRequest },
            artifact_id: ArtifactId(id),
            artifact_digest: body.digest(),
            tool_call_id: None,
            idempotency_key: None,
        };
        let other = head.seal(draft.clone(), ArtifactBody::new(b"[]".to_vec()));
        assert!(matches!(other, Err(ChainError::Artifact { sequence_number: 1, .. })));
        let (sealed, after) = head.seal(draft, body).unwrap();
        assert_eq!(head.admit(sealed.entry(), &mut Vec::new()), Ok(after));
        assert_eq!(Digest::of(sealed.body()), sealed.entry().artifact_digest);
    }
}
