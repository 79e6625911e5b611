//! Artifacts beside the entries of a chain: each is the one that its entry names, and refers to the one before.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;
use windlass_kernel::artifact::{ActionRequest, SupervisorDecision, ToolCall, ToolEffect};
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::grant::GrantEvent;
use windlass_kernel::notification::NotificationEvent;
use windlass_kernel::run::RunEvent;
use windlass_kernel::{
    Artifact, ArtifactChain, ArtifactHeader, ArtifactType, ChainError, Digest, Entry, Machine,
    RequestFault, SCHEMA_VERSION,
};

use super::upstream::UpstreamChain;
use super::{DIGEST_FIELD, PREFIX};

/// The artifacts of a chain, by the digests that its entries name.
#[derive(Debug, Default)]
pub struct Artifacts {
    /// Their canonical bytes, which take less memory than values.
    by_digest: BTreeMap<Digest, Box<[u8]>>,
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
    pub fn add(&mut self, body: &Value) -> Result<(), ArtifactsError> {
        let bytes = canon::value_to_bytes(body)?;
        let digest = if is_upstream(body) {
            let claimed = body.get(DIGEST_FIELD).and_then(Value::as_str);
            claimed.and_then(|text| text.parse().ok()).ok_or(ArtifactsError::NoDigest)?
        } else {
            Digest::of(&bytes)
        };
        self.by_digest.insert(digest, bytes.into_boxed_slice());
        Ok(())
    }

    /// Verifies the artifact of the next entry, and takes it out.
    ///
    /// # Errors
    /// [`ChainError`] if there is none, or it is not the one that the entry names, or it does not refer to the
    /// artifacts before it.
    pub fn follow(&mut self, entry: &Entry) -> Result<(), ChainError> {
        let sequence_number = entry.sequence_number;
        let Some(bytes) = self.by_digest.remove(&entry.artifact_digest) else {
            let reason = "no artifact beside the entries has the digest that the entry names";
            return Err(ChainError::Link { sequence_number, reason });
        };
        let artifact = entry.artifact_type.as_str();
        let mismatch = || ChainError::Artifact { sequence_number, artifact };
        let body: Value = serde_json::from_slice(&bytes).map_err(|_| mismatch())?;
        if is_upstream(&body) {
            return self.upstream.follow(entry, &body);
        }
        check_schema(entry, &body)?;
        if entry.from_state.machine() != Machine::Call {
            // The digest and the schema are all that a call's artifacts have in common with those of runs and grants.
            return Ok(());
        }
        let artifact = Artifact::read(entry.artifact_type, &bytes).map_err(|error| {
            let reason = format!("its artifact cannot be read: {error}");
            ChainError::Malformed { sequence_number, reason }
        })?;
        if let Artifact::Request(request) = &artifact {
            request.check_limits().map_err(|RequestFault { field, requirement }| {
                let reason = format!("the {field} of its request must be {requirement}");
                ChainError::Malformed { sequence_number, reason }
            })?;
        }
        let header = ArtifactHeader::of(&artifact).map_err(|_| mismatch())?;
        self.own.follow(entry, header)
    }

    /// How many artifacts no entry has named.
    #[must_use]
    pub fn unused(&self) -> usize {
        self.by_digest.len()
    }
}

/// Verifies that the body has the `schema_id` of its type, and a `schema_version` that is known.
fn check_schema(entry: &Entry, body: &Value) -> Result<(), ChainError> {
    let schema_id = match entry.artifact_type {
        ArtifactType::ActionRequest => ActionRequest::SCHEMA_ID,
        ArtifactType::SupervisorDecision => SupervisorDecision::SCHEMA_ID,
        ArtifactType::ToolCall => ToolCall::SCHEMA_ID,
        ArtifactType::ToolEffect => ToolEffect::SCHEMA_ID,
        ArtifactType::RunEvent => RunEvent::SCHEMA_ID,
        ArtifactType::GrantEvent => GrantEvent::SCHEMA_ID,
        ArtifactType::NotificationEvent => NotificationEvent::SCHEMA_ID,
    };
    for (field, expected) in [("schema_id", schema_id), ("schema_version", SCHEMA_VERSION)] {
        let found = body.get(field).and_then(Value::as_str).unwrap_or_default();
        if found != expected {
            let reason = format!("the {field} of its artifact is `{found}`, not `{expected}`");
            return Err(ChainError::Malformed { sequence_number: entry.sequence_number, reason });
        }
    }
    Ok(())
}

fn is_upstream(body: &Value) -> bool {
    let schema_id = body.get("schema_id").and_then(Value::as_str);
    schema_id.is_some_and(|id| id.starts_with(PREFIX)) || body.get(DIGEST_FIELD).is_some()
}
