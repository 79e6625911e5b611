//! The artifacts of runs, grants and notifications: an event with its envelope.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::canon::{self, CanonError};
use crate::{
    ArtifactId, ArtifactType, ChainError, Entry, SCHEMA_VERSION, State, Timestamp, TraceId,
};

/// What happens in a trace that is recorded by events.
pub trait TraceEvent: Serialize + DeserializeOwned {
    /// The `schema_id` of its artifact.
    const SCHEMA_ID: &'static str;
    /// The type of its artifact.
    const ARTIFACT: ArtifactType;
    /// What is said of an event in the wrong trace.
    const OF_ANOTHER: &'static str;

    /// The state after the event.
    fn state_after(&self, from: State) -> State;
}

/// The artifact of an entry: an event with its envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventArtifact<E> {
    /// The artifact's id.
    pub artifact_id: ArtifactId,
    /// The event.
    pub event: E,
    /// The kind of this document.
    pub schema_id: Cow<'static, str>,
    /// The version of the schema.
    pub schema_version: Cow<'static, str>,
    /// The trace.
    pub trace_id: TraceId,
    /// When it was recorded.
    pub ts: Timestamp,
}

impl<E: TraceEvent> EventArtifact<E> {
    /// The `schema_id` of this artifact.
    pub const SCHEMA_ID: &'static str = E::SCHEMA_ID;

    /// Creates the artifact of an event.
    #[must_use]
    pub fn new(trace_id: TraceId, artifact_id: ArtifactId, ts: Timestamp, event: E) -> Self {
        let (schema_id, schema_version) = (E::SCHEMA_ID.into(), SCHEMA_VERSION.into());
        Self { artifact_id, event, schema_id, schema_version, trace_id, ts }
    }

    /// The canonical bytes, as they are stored and hashed.
    ///
    /// # Errors
    /// [`CanonError`] if the event contains a number that canonical JSON would change.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CanonError> {
        canon::to_bytes(self)
    }

    /// Reads an event from its stored body, which must be exactly the canonical bytes.
    ///
    /// # Errors
    /// [`CanonError`] if the body is not an event in canonical form.
    pub fn read(body: &[u8]) -> Result<Self, CanonError> {
        let event: Self =
            serde_json::from_slice(body).map_err(|error| CanonError::Invalid(error.to_string()))?;
        if event.schema_id != E::SCHEMA_ID || event.schema_version != SCHEMA_VERSION {
            let (id, version) = (&event.schema_id, &event.schema_version);
            let reason = format!("it has the schema `{id}` of version `{version}`");
            return Err(CanonError::Invalid(reason));
        }
        // Serde accepts more than the canonical form: other orders, arrays for objects, missing fields
        // for null, duplicate keys.
        if event.to_bytes()? != body {
            return Err(CanonError::Invalid("it is not in canonical form".to_owned()));
        }
        Ok(event)
    }

    /// Reads the event of an entry whose artifact digest was verified, and compares it with the entry.
    ///
    /// # Errors
    /// [`ChainError`] if the body is not an event, or not the event of this entry.
    pub fn of_entry(entry: &Entry, body: &[u8]) -> Result<Self, ChainError> {
        let sequence_number = entry.sequence_number;
        let artifact = entry.artifact_type.as_str();
        let mismatch = || ChainError::Artifact { sequence_number, artifact };
        if entry.artifact_type != E::ARTIFACT {
            return Err(mismatch());
        }
        let event = Self::read(body).map_err(|_| mismatch())?;
        if event.artifact_id != entry.artifact_id {
            return Err(mismatch());
        }
        for (agrees, reason) in [
            (event.trace_id == entry.trace_id, E::OF_ANOTHER),
            (event.ts == entry.ts, "the event and its entry have different times"),
            (
                event.event.state_after(entry.from_state) == entry.to_state,
                "the event and its entry lead to different states",
            ),
        ] {
            if !agrees {
                return Err(ChainError::Link { sequence_number, reason });
            }
        }
        Ok(event)
    }
}
