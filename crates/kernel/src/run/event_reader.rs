//! Reading events back from the journal.

use super::event::RunEvent;
use crate::canon::CanonError;
use crate::{ArtifactType, ChainError, Entry, canon};

impl RunEvent {
    /// Reads an event from its stored body, which must be canonical to the byte.
    ///
    /// # Errors
    /// [`CanonError`] when the body is not one.
    pub fn read(body: &[u8]) -> Result<Self, CanonError> {
        let event: Self =
            serde_json::from_slice(body).map_err(|error| CanonError::Invalid(error.to_string()))?;
        if event.schema_id != Self::SCHEMA_ID || event.schema_version != crate::SCHEMA_VERSION {
            let (id, version) = (&event.schema_id, &event.schema_version);
            return Err(CanonError::Invalid(format!("it is `{id}` of version `{version}`")));
        }
        // The reader takes more than the writer writes: other orders, arrays for objects, absent
        // fields for null, keys given twice.
        if canon::to_bytes(&event)? != body {
            return Err(CanonError::Invalid("it is not in canonical form".to_owned()));
        }
        Ok(event)
    }

    /// Reads the event of an entry whose artifact's digest was verified: it must agree with the entry.
    ///
    /// # Errors
    /// [`ChainError`] when the body is not an event, or not this entry's.
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
            (event.trace_id == entry.trace_id, "the event is of another run"),
            (event.ts == entry.ts, "the event is of another time"),
            (
                event.event.to_state_from(entry.from_state) == entry.to_state,
                "the event leads to another state",
            ),
        ] {
            if !agrees {
                return Err(ChainError::Link { sequence_number, reason });
            }
        }
        Ok(event)
    }
}
