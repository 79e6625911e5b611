//! The envelope of every journal entry, and its digest.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::canon::{Canonical, canonical};
use crate::{ArtifactId, ArtifactType, Digest, State, Timestamp, ToolCallId, TraceId, Transition};

/// The version of the envelope.
pub const SCHEMA_VERSION: &str = "v1";
/// The longest idempotency key, in characters.
pub const KEY_CHARS_MAX: usize = 255;

/// One entry of a trace, with exactly the fields of the execution log entry. A reader takes an absent
/// `tool_call_id` or `idempotency_key` as null; the digest covers the null either way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The kind of this entry.
    pub schema_id: Cow<'static, str>,
    /// The version of the envelope.
    pub schema_version: Cow<'static, str>,
    /// The trace.
    pub trace_id: TraceId,
    /// The position in the trace, from 1, without gaps.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_i64))]
    pub sequence_number: u64,
    /// The digest of the entry before it; 64 zeros for the first entry.
    pub prev_entry_digest: Digest,
    /// The time of creation.
    pub ts: Timestamp,
    /// The state before.
    pub from_state: State,
    /// The state after.
    pub to_state: State,
    /// The type of the artifact.
    pub artifact_type: ArtifactType,
    /// The id of the artifact.
    pub artifact_id: ArtifactId,
    /// The digest of the artifact's body.
    pub artifact_digest: Digest,
    /// The id of the tool call, once there is one.
    #[serde(default)]
    pub tool_call_id: Option<ToolCallId>,
    /// The call's idempotency key, if it has one.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
    /// SHA-256 of the canonical JSON of all other fields.
    pub entry_digest: Digest,
}

/// Deserializes an optional field that must be present; `null` means `None`.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

/// An entry without its position in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The time of creation.
    pub ts: Timestamp,
    /// The transition.
    pub transition: Transition,
    /// The id of the artifact.
    pub artifact_id: ArtifactId,
    /// The digest of the artifact's body.
    pub artifact_digest: Digest,
    /// The id of the tool call, once there is one.
    pub tool_call_id: Option<ToolCallId>,
    /// The call's idempotency key, if it has one.
    pub idempotency_key: Option<String>,
}

// The keys are fixed, so they are written in canonical order instead of being sorted each time; a
// property test compares this with the general encoder.
canonical! {
    Entry {
        artifact_digest, artifact_id, artifact_type, from_state, idempotency_key, prev_entry_digest,
        schema_id, schema_version, sequence_number, to_state, tool_call_id, trace_id, ts;
        but entry_digest
    }
}

impl Entry {
    /// The transition of the entry.
    #[must_use]
    pub const fn transition(&self) -> Transition {
        Transition { from: self.from_state, to: self.to_state, artifact: self.artifact_type }
    }

    /// Clears `out` and writes the canonical JSON of all fields except `entry_digest` to it.
    pub fn write_canonical(&self, out: &mut Vec<u8>) {
        out.clear();
        self.write(out);
    }

    /// Computes the correct `entry_digest`; `buffer` is scratch space.
    #[must_use]
    pub fn compute_digest(&self, buffer: &mut Vec<u8>) -> Digest {
        self.write_canonical(buffer);
        Digest::of(buffer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Machine, Uuid7, canon};

    fn entry(ms: u64, key: Option<String>, call: bool, schema: &str) -> Entry {
        let id = Uuid7::from_parts(ms, [7; 10]);
        Entry {
            schema_id: schema.to_owned().into(),
            schema_version: SCHEMA_VERSION.into(),
            trace_id: TraceId(id),
            sequence_number: ms % 100 + 1,
            prev_entry_digest: Digest::of(&ms.to_be_bytes()),
            ts: Timestamp::from_unix_ms(i64::try_from(ms).unwrap()).unwrap(),
            from_state: State::Executing,
            to_state: State::Completed,
            artifact_type: ArtifactType::ToolEffect,
            artifact_id: ArtifactId(id),
            artifact_digest: Digest::of(b"body"),
            tool_call_id: call.then_some(ToolCallId(id)),
            idempotency_key: key,
            entry_digest: Digest::GENESIS,
        }
    }

    proptest! {
        #[test]
        fn the_fixed_encoder_agrees_with_the_general_one(
            ms in 0_u64..4_000_000_000_000, key: Option<String>, call: bool, schema: String,
        ) {
            let entry = entry(ms, key, call, &schema);
            let mut general = serde_json::to_value(&entry).unwrap();
            general.as_object_mut().unwrap().remove("entry_digest");
            let mut fixed = Vec::new();
            entry.write_canonical(&mut fixed);
            prop_assert_eq!(String::from_utf8(fixed).unwrap(),
                String::from_utf8(canon::to_bytes(&general).unwrap()).unwrap());
        }
    }

    #[test]
    fn unknown_missing_and_ill_typed_fields_are_refused() {
        let good = serde_json::to_value(entry(1, None, false, Machine::Call.schema_id())).unwrap();
        assert!(serde_json::from_value::<Entry>(good.clone()).is_ok());
        for (field, value) in [
            ("surplus", serde_json::json!(1)),
            ("sequence_number", serde_json::json!("1")),
            ("sequence_number", serde_json::json!(-1)),
            ("trace_id", serde_json::json!("../../etc")),
            ("from_state", serde_json::json!("EXECUTED")),
            ("ts", serde_json::json!("2026-01-01")),
        ] {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().insert(field.into(), value);
            assert!(serde_json::from_value::<Entry>(bad).is_err(), "{field}");
        }
        let mut absent = good.clone();
        absent.as_object_mut().unwrap().remove("artifact_id");
        assert!(serde_json::from_value::<Entry>(absent).is_err());
        for field in ["tool_call_id", "idempotency_key"] {
            let mut absent = good.clone();
            absent.as_object_mut().unwrap().remove(field);
            let read: Entry = serde_json::from_value(absent).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), good, "an absent {field} is null");
        }
    }
}
