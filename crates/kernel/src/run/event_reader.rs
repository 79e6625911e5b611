//! Reads the events of a run from the journal.

use super::event::RunEvent;
use crate::canon::CanonError;
use crate::{ArtifactType, ChainError, Entry, canon};

impl RunEvent {
    /// Reads an event from its stored body, which must be exactly the canonical bytes.
    ///
    /// # Errors
    /// [`CanonError`] if the body is not an event in canonical form.
    pub fn read(body: &[u8]) -> Result<Self, CanonError> {
        let event: Self =
            serde_json::from_slice(body).map_err(|error| CanonError::Invalid(error.to_string()))?;
        if event.schema_id != Self::SCHEMA_ID || event.schema_version != crate::SCHEMA_VERSION {
            let (id, version) = (&event.schema_id, &event.schema_version);
            return Err(CanonError::Invalid(format!(
                "it has the schema `{id}` of version `{version}`"
            )));
        }
        // Serde accepts more than the canonical form: other orders, arrays for objects, missing fields
        // for null, duplicate keys.
        if canon::to_bytes(&event)? != body {
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
        if entry.artifact_type != ArtifactType::RunEvent {
            return Err(mismatch());
        }
        let event = Self::read(body).map_err(|_| mismatch())?;
        if event.artifact_id != entry.artifact_id {
            return Err(mismatch());
        }
        for (agrees, reason) in [
            (event.trace_id == entry.trace_id, "the event belongs to another run"),
            (event.ts == entry.ts, "the event and its entry have different times"),
            (
                event.event.to_state_from(entry.from_state) == entry.to_state,
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
