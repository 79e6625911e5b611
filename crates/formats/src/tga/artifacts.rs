//! Artifacts beside the entries of a chain: each is the one that its entry names, and refers to the one before.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::{
    Artifact, ArtifactChain, ArtifactHeader, ChainError, Digest, Entry, Machine,
};

use super::upstream::UpstreamChain;
use super::{DIGEST_FIELD, PREFIX};

/// The artifacts of a chain, by the digests that its entries name.
#[derive(Debug, Default)]
pub struct Artifacts {
    by_digest: BTreeMap<Digest, Value>,
    own: ArtifactChain,
    upstream: UpstreamChain,
}

/// A value that is not an artifact.
#[derive(Debug, Error)]
pub enum ArtifactsError {
    /// It has no canonical form.
    #[error("an artifact beside the entries has no canonical form")]
    Canon(#[from] CanonError),
    /// It is an upstream artifact without a digest.
    #[error("an artifact beside the entries has no digest in `{DIGEST_FIELD}`")]
    NoDigest,
}

impl Artifacts {
    /// Adds an artifact.
    ///
    /// # Errors
    /// [`ArtifactsError`] if it has no digest by which an entry can name it.
    pub fn add(&mut self, body: Value) -> Result<(), ArtifactsError> {
        let digest = if is_upstream(&body) {
            let claimed = body.get(DIGEST_FIELD).and_then(Value::as_str);
            claimed.and_then(|text| text.parse().ok()).ok_or(ArtifactsError::NoDigest)?
        } else {
            canon::digest(&body)?
        };
        self.by_digest.insert(digest, body);
        Ok(())
    }

    /// Verifies the artifact of the next entry, and takes it out.
    ///
    /// # Errors
    /// [`ChainError`] if there is none, or it is not the one that the entry names, or it does not refer to the
    /// artifacts before it.
    pub fn follow(&mut self, entry: &Entry) -> Result<(), ChainError> {
        let sequence_number = entry.sequence_number;
        let Some(body) = self.by_digest.remove(&entry.artifact_digest) else {
            let reason = "no artifact beside the entries has the digest that the entry names";
            return Err(ChainError::Link { sequence_number, reason });
        };
        let artifact = entry.artifact_type.as_str();
        let mismatch = ChainError::Artifact { sequence_number, artifact };
        if is_upstream(&body) {
            return self.upstream.follow(entry, &body);
        }
        if entry.from_state.machine() != Machine::Call {
            // The digest is all that a call's artifacts have in common with those of runs and grants.
            return Ok(());
        }
        let header = canon::to_bytes(&body)
            .and_then(|bytes| Artifact::read(entry.artifact_type, &bytes))
            .and_then(|artifact| ArtifactHeader::of(&artifact))
            .map_err(|_| mismatch)?;
        self.own.follow(entry, header)
    }

    /// How many artifacts no entry has named.
    #[must_use]
    pub fn unused(&self) -> usize {
        self.by_digest.len()
    }
}

fn is_upstream(body: &Value) -> bool {
    let schema_id = body.get("schema_id").and_then(Value::as_str);
    schema_id.is_some_and(|id| id.starts_with(PREFIX)) || body.get(DIGEST_FIELD).is_some()
}
