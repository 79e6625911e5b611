//! The recorded state of a trace, and its replay points.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::entry::SCHEMA_VERSION;
use crate::{ChainError, Digest, Head, PlanId, State, Timestamp, TraceId, canon};

/// The state that a replay point records: exactly these five fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayPointState {
    /// The trace.
    pub trace_id: TraceId,
    /// The plan that the trace belongs to.
    pub plan_id: PlanId,
    /// The state of the trace.
    pub current_state: State,
    /// The sequence number of the last entry.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_i64))]
    pub last_sequence_number: u64,
    /// The digest of the last entry.
    pub last_entry_digest: Digest,
}

/// A point from which a trace can be replayed without its earlier entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayPoint {
    /// The kind of this document.
    pub schema_id: Cow<'static, str>,
    /// The version of the schema.
    pub schema_version: Cow<'static, str>,
    /// The trace; replay points that were written before this field existed have none.
    #[serde(default)]
    #[schemars(with = "TraceId")]
    pub trace_id: Option<TraceId>,
    /// The sequence number of the entry that it was created at.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_i64))]
    pub checkpoint_sequence_number: u64,
    /// The state at that entry.
    pub checkpoint_state: ReplayPointState,
    /// SHA-256 of the canonical JSON of `checkpoint_state`.
    pub checkpoint_digest: Digest,
    /// The time of creation.
    pub ts: Timestamp,
}

/// The state of a trace according to its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionState {
    /// The kind of this document.
    pub schema_id: Cow<'static, str>,
    /// The version of the schema.
    pub schema_version: Cow<'static, str>,
    /// The trace.
    pub trace_id: TraceId,
    /// The plan that the trace belongs to.
    pub plan_id: PlanId,
    /// The state of the trace.
    pub current_state: State,
    /// The sequence number of the last entry; 0 if there is none.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub last_sequence_number: u64,
    /// The digest of the last entry.
    pub last_entry_digest: Digest,
    /// SHA-256 of the canonical JSON of all other fields.
    pub state_digest: Digest,
}

impl ReplayPointState {
    /// The state at a head; `None` if the trace has no entries.
    #[must_use]
    pub fn of(head: &Head, plan_id: PlanId) -> Option<Self> {
        Some(Self {
            trace_id: head.trace_id,
            plan_id,
            current_state: head.state?,
            last_sequence_number: head.sequence_number,
            last_entry_digest: head.entry_digest,
        })
    }

    fn digest(&self) -> Digest {
        // Ids, digests and small numbers always have a canonical form.
        canon::digest(self).unwrap_or(Digest::GENESIS)
    }
}

impl ReplayPoint {
    /// The `schema_id` of replay points.
    pub const SCHEMA_ID: &'static str = "tga.execution_checkpoint";

    /// Creates a replay point of `state`.
    #[must_use]
    pub fn new(state: ReplayPointState, ts: Timestamp) -> Self {
        Self {
            schema_id: Self::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            trace_id: Some(state.trace_id),
            checkpoint_sequence_number: state.last_sequence_number,
            checkpoint_digest: state.digest(),
            checkpoint_state: state,
            ts,
        }
    }

    /// Checks the schema, the digest and the sequence number of the replay point itself.
    ///
    /// # Errors
    /// [`ChainError::ReplayPoint`] if it was changed.
    pub fn validate(&self) -> Result<(), ChainError> {
        let sequence_number = self.checkpoint_sequence_number;
        // The digest covers the state only.
        if self.schema_id != Self::SCHEMA_ID || self.schema_version != SCHEMA_VERSION {
            return Err(ChainError::ReplayPoint { sequence_number, what: "its schema" });
        }
        if self.checkpoint_state.digest() != self.checkpoint_digest {
            return Err(ChainError::ReplayPoint { sequence_number, what: "its digest" });
        }
        if self.trace_id.is_some_and(|trace_id| trace_id != self.checkpoint_state.trace_id) {
            return Err(ChainError::ReplayPoint { sequence_number, what: "its trace" });
        }
        if self.checkpoint_state.last_sequence_number != sequence_number {
            return Err(ChainError::ReplayPoint { sequence_number, what: "its sequence number" });
        }
        Ok(())
    }

    /// Checks the replay point against the head that its entries fold to.
    ///
    /// # Errors
    /// [`ChainError::ReplayPoint`] if the states differ.
    pub fn agrees_with(&self, head: &Head) -> Result<(), ChainError> {
        self.validate()?;
        let state = &self.checkpoint_state;
        if ReplayPointState::of(head, state.plan_id) != Some(*state) {
            return Err(ChainError::ReplayPoint {
                sequence_number: self.checkpoint_sequence_number,
                what: "the entries",
            });
        }
        Ok(())
    }
}

impl ExecutionState {
    /// The `schema_id` of execution states.
    pub const SCHEMA_ID: &'static str = "tga.execution_state";

    /// Returns the state of a trace with this head; an empty trace is pending.
    #[must_use]
    pub fn of(head: &Head, plan_id: PlanId) -> Self {
        let mut state = Self {
            schema_id: Self::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            trace_id: head.trace_id,
            plan_id,
            current_state: head.state.unwrap_or(State::Pending),
            last_sequence_number: head.sequence_number,
            last_entry_digest: head.entry_digest,
            state_digest: Digest::GENESIS,
        };
        if let Ok(serde_json::Value::Object(mut map)) = serde_json::to_value(&state) {
            map.remove("state_digest");
            state.state_digest = canon::digest(&map).unwrap_or(Digest::GENESIS);
        }
        state
    }
}
