//! The recorded state of a trace, and checkpoints of it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::entry::SCHEMA_VERSION;
use crate::{ChainError, Digest, Head, PlanId, State, Timestamp, TraceId, canon};

/// What a checkpoint covers: exactly these five fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayPointState {
    /// The trace.
    pub trace_id: TraceId,
    /// The plan it belongs to.
    pub plan_id: PlanId,
    /// Where it stands.
    pub current_state: State,
    /// The number of its last entry.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_i64))]
    pub last_sequence_number: u64,
    /// The digest of its last entry.
    pub last_entry_digest: Digest,
}

/// A point from which a trace can be replayed without its earlier entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayPoint {
    /// What kind of document this is.
    pub schema_id: Cow<'static, str>,
    /// Its version.
    pub schema_version: Cow<'static, str>,
    /// The entry it was made at.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_i64))]
    pub checkpoint_sequence_number: u64,
    /// The state at that entry.
    pub checkpoint_state: ReplayPointState,
    /// SHA-256 of the canonical JSON of `checkpoint_state`.
    pub checkpoint_digest: Digest,
    /// When it was made.
    pub ts: Timestamp,
}

/// Where a trace stands, as its log says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionState {
    /// What kind of document this is.
    pub schema_id: Cow<'static, str>,
    /// Its version.
    pub schema_version: Cow<'static, str>,
    /// The trace.
    pub trace_id: TraceId,
    /// The plan it belongs to.
    pub plan_id: PlanId,
    /// Where it stands.
    pub current_state: State,
    /// The number of its last entry; 0 when there is none.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub last_sequence_number: u64,
    /// The digest of its last entry.
    pub last_entry_digest: Digest,
    /// SHA-256 of the canonical JSON of all the other fields.
    pub state_digest: Digest,
}

impl ReplayPointState {
    /// The state that a head stands for; `None` while the trace has no entries.
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
    /// The `schema_id` of checkpoints.
    pub const SCHEMA_ID: &'static str = "tga.execution_checkpoint";

    /// Makes a checkpoint of `state`.
    #[must_use]
    pub fn new(state: ReplayPointState, ts: Timestamp) -> Self {
        Self {
            schema_id: Self::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            checkpoint_sequence_number: state.last_sequence_number,
            checkpoint_digest: state.digest(),
            checkpoint_state: state,
            ts,
        }
    }

    /// Checks that this is a checkpoint of this version, and matches its own digest.
    ///
    /// # Errors
    /// [`ChainError::ReplayPoint`] when it has been changed.
    pub fn validate(&self) -> Result<(), ChainError> {
        let sequence_number = self.checkpoint_sequence_number;
        // The digest covers the state only.
        if self.schema_id != Self::SCHEMA_ID || self.schema_version != SCHEMA_VERSION {
            return Err(ChainError::ReplayPoint { sequence_number, what: "its schema" });
        }
        if self.checkpoint_state.digest() != self.checkpoint_digest {
            return Err(ChainError::ReplayPoint { sequence_number, what: "its digest" });
        }
        if self.checkpoint_state.last_sequence_number != sequence_number {
            return Err(ChainError::ReplayPoint { sequence_number, what: "its sequence number" });
        }
        Ok(())
    }

    /// Checks the checkpoint against the head that its entries fold to.
    ///
    /// # Errors
    /// [`ChainError::ReplayPoint`] when it tells of another state.
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

    /// Describes a trace by its head; an empty trace counts as pending.
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
