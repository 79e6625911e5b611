//! Entries whose digests are known to hold, because they were computed from the very bytes.
//!
//! Digests are the dearest part of an append. What one part of a process has just computed the next
//! need not compute again, if nothing can have come between: these types have no public fields and
//! nothing that changes them.

use crate::{ChainError, Digest, Draft, Entry, Head};

/// An artifact's canonical bytes with their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactBody {
    bytes: Vec<u8>,
    digest: Digest,
}

impl ArtifactBody {
    /// Takes an artifact's bytes and computes their digest.
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

/// An entry with its artifact's bytes; both of its digests hold. Only [`Head::seal`] makes one.
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

    /// Takes it apart; what comes of it is sealed no more.
    #[must_use]
    pub fn into_parts(self) -> (Entry, Vec<u8>) {
        (self.entry, self.body)
    }
}

impl Head {
    /// Makes the entry that comes next, together with its artifact, and the head after it.
    ///
    /// # Errors
    /// [`ChainError`] when the draft is not allowed here, or names another artifact's digest.
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
    fn a_seal_covers_the_body_that_the_draft_names_and_no_other() {
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
