//! A run read back from its journal: an event must be what its entry says it is.

use super::event::RunEvent;
use super::state::Run;
use crate::canon::CanonError;
use crate::{ArtifactType, ChainError, Digest, Entry, Head, canon};

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
}

impl Run {
    /// Adds one entry whose chain position `head` has been checked, with its artifact's body.
    ///
    /// The same checks serve recovery and verification.
    ///
    /// # Errors
    /// [`ChainError`] when the body is not the one that the entry names, says something else than
    /// the entry, or tells of something that cannot have happened.
    pub fn follow(&mut self, entry: &Entry, body: &[u8], head: Head) -> Result<(), ChainError> {
        let sequence_number = entry.sequence_number;
        let artifact = entry.artifact_type.as_str();
        let mismatch = || ChainError::Artifact { sequence_number, artifact };
        if entry.artifact_type != ArtifactType::RunEvent
            || Digest::of(body) != entry.artifact_digest
        {
            return Err(mismatch());
        }
        let event = RunEvent::read(body).map_err(|_| mismatch())?;
        if event.artifact_id != entry.artifact_id {
            return Err(mismatch());
        }
        for (holds, reason) in [
            (event.trace_id == entry.trace_id, "the event is of another run"),
            (event.ts == entry.ts, "the event is of another time"),
            (
                event.event.to_state_from(entry.from_state) == entry.to_state,
                "the event leads to another state",
            ),
        ] {
            if !holds {
                return Err(ChainError::Link { sequence_number, reason });
            }
        }
        self.apply(&event.event, entry.artifact_digest, entry.ts, head).map_err(|error| {
            ChainError::Impossible { sequence_number, kind: error.kind, why: error.why }
        })
    }
}
