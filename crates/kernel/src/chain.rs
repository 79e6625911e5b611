//! The hash chain of a trace: appends and verifies entries.

use thiserror::Error;

use crate::entry::{Draft, KEY_CHARS_MAX, SCHEMA_VERSION};
use crate::{Code, Digest, Entry, State, ToolCallId, TraceId};

/// The end of a trace: everything that is needed to append or verify the next entry.
///
/// A chain does not protect its own tail, so the head is also stored apart from the entries and
/// compared with the head that the entries fold to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The trace.
    pub trace_id: TraceId,
    /// The sequence number of the last entry; 0 if there is none.
    pub sequence_number: u64,
    /// The digest of the last entry; 64 zeros if there is none.
    pub entry_digest: Digest,
    /// The state after the last entry; `None` if there is none.
    pub state: Option<State>,
    /// The id of the call, once it has been dispatched.
    pub tool_call_id: Option<ToolCallId>,
}

/// A corrupt trace. It is never repaired: no more entries are appended.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChainError {
    /// An entry is missing, repeated or out of order.
    #[error("entry {found} is at the position of entry {expected}")]
    SequenceGap {
        /// The expected sequence number.
        expected: u64,
        /// The sequence number of the entry.
        found: u64,
    },
    /// The trace has fewer or more entries than its recorded head says.
    #[error("the trace has {found} entries, its recorded head says {expected}")]
    Truncated {
        /// The sequence number of the recorded head.
        expected: u64,
        /// The sequence number of the last entry.
        found: u64,
    },
    /// The last entry is not the one that the recorded head names.
    #[error("entry {sequence_number} is not the one that the recorded head names")]
    HeadMismatch {
        /// The sequence number of the last entry.
        sequence_number: u64,
    },
    /// An entry belongs to another trace.
    #[error("entry {sequence_number} belongs to trace `{found}`")]
    ForeignTrace {
        /// The sequence number of the entry.
        sequence_number: u64,
        /// The trace that the entry names.
        found: TraceId,
    },
    /// An entry does not contain the digest of the entry before it.
    #[error("entry {sequence_number} does not contain the digest of the entry before it")]
    PreviousDigest {
        /// The sequence number of the entry.
        sequence_number: u64,
    },
    /// An entry's transition is not allowed from the current state.
    #[error("entry {sequence_number} goes from {from} to {to}, which is not allowed after {after}")]
    Transition {
        /// The sequence number of the entry.
        sequence_number: u64,
        /// The `from` state of the entry.
        from: State,
        /// The `to` state of the entry.
        to: State,
        /// The state of the trace before the entry.
        after: StateOrEmpty,
    },
    /// The entry of a tool call, or of its effect, has no tool call id.
    #[error("entry {sequence_number} has no tool call id")]
    MissingToolCall {
        /// The sequence number of the entry.
        sequence_number: u64,
    },
    /// An entry has the tool call id of another call.
    #[error("entry {sequence_number} does not contain the id of its tool call")]
    ToolCall {
        /// The sequence number of the entry.
        sequence_number: u64,
    },
    /// An entry's own digest is wrong.
    #[error("entry {sequence_number} does not match its own digest")]
    OwnDigest {
        /// The sequence number of the entry.
        sequence_number: u64,
    },
    /// An entry cannot be read.
    #[error("entry {sequence_number} is not a valid entry of version v1: {reason}")]
    Malformed {
        /// The position of the entry.
        sequence_number: u64,
        /// The cause.
        reason: String,
    },
    /// The body of an artifact does not match its entry.
    #[error("the {artifact} of entry {sequence_number} does not match its digest")]
    Artifact {
        /// The sequence number of the entry.
        sequence_number: u64,
        /// The type of the artifact.
        artifact: &'static str,
    },
    /// An artifact does not refer to the artifacts before it, or contradicts its entry.
    #[error(
        "the artifact of entry {sequence_number} does not match the entries up to it: {reason}"
    )]
    Link {
        /// The sequence number of the entry.
        sequence_number: u64,
        /// What does not match.
        reason: &'static str,
    },
    /// An event cannot occur in the state that the run is in.
    #[error("entry {sequence_number} records the event `{kind}`, which is impossible here: {why}")]
    Impossible {
        /// The sequence number of the entry.
        sequence_number: u64,
        /// The kind of the event.
        kind: &'static str,
        /// The reason.
        why: String,
    },
    /// The record of an idempotency key does not match the entries.
    #[error("entry {sequence_number}: {reason}")]
    Key {
        /// The entry that reserves the key.
        sequence_number: u64,
        /// What does not match.
        reason: &'static str,
    },
    /// A replay point does not match its digest or the entries that it summarises.
    #[error("the replay point at entry {sequence_number} does not match {what}")]
    ReplayPoint {
        /// The entry that it was created at.
        sequence_number: u64,
        /// The mismatch.
        what: &'static str,
    },
}

/// A state, or none before the first entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateOrEmpty(pub Option<State>);

impl std::fmt::Display for StateOrEmpty {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0.map_or("the beginning", State::as_str))
    }
}

impl ChainError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::SequenceGap { .. } | Self::Truncated { .. } => Code::StateSequenceGap,
            Self::Transition { .. } | Self::ToolCall { .. } => Code::StateInvalidTransition,
            Self::MissingToolCall { .. } => Code::MissingToolCallId,
            Self::Impossible { .. } => Code::StateRecoveryFailed,
            Self::HeadMismatch { .. }
            | Self::ForeignTrace { .. }
            | Self::PreviousDigest { .. }
            | Self::OwnDigest { .. }
            | Self::Malformed { .. }
            | Self::Artifact { .. }
            | Self::Link { .. }
            | Self::Key { .. }
            | Self::ReplayPoint { .. } => Code::StateChecksumMismatch,
        }
    }
}

impl Head {
    /// The head of a trace without entries.
    #[must_use]
    pub const fn empty(trace_id: TraceId) -> Self {
        Self {
            trace_id,
            sequence_number: 0,
            entry_digest: Digest::GENESIS,
            state: None,
            tool_call_id: None,
        }
    }

    /// The head after an entry, taken from the entry without verification.
    #[must_use]
    pub const fn after(entry: &Entry) -> Self {
        Self {
            trace_id: entry.trace_id,
            sequence_number: entry.sequence_number,
            entry_digest: entry.entry_digest,
            state: Some(entry.to_state),
            tool_call_id: entry.tool_call_id,
        }
    }

    /// Creates the next entry and the head after it.
    ///
    /// # Errors
    /// [`ChainError`] if the draft is not allowed here.
    #[inline]
    pub fn append(&self, draft: Draft) -> Result<(Entry, Self), ChainError> {
        let mut entry = Entry {
            schema_id: draft.transition.from.machine().schema_id().into(),
            schema_version: SCHEMA_VERSION.into(),
            trace_id: self.trace_id,
            sequence_number: self.sequence_number.saturating_add(1),
            prev_entry_digest: self.entry_digest,
            ts: draft.ts,
            from_state: draft.transition.from,
            to_state: draft.transition.to,
            artifact_type: draft.transition.artifact,
            artifact_id: draft.artifact_id,
            artifact_digest: draft.artifact_digest,
            tool_call_id: draft.tool_call_id,
            idempotency_key: draft.idempotency_key,
            entry_digest: Digest::GENESIS,
        };
        entry.entry_digest = entry.compute_digest(&mut Vec::with_capacity(1024));
        let head = self.follow(&entry)?;
        Ok((entry, head))
    }

    /// Verifies that `entry` is the next entry and returns the head after it; `buffer` is scratch space.
    ///
    /// # Errors
    /// The first [`ChainError`] in this order: sequence, previous digest, transition from the
    /// current state, own digest.
    pub fn admit(&self, entry: &Entry, buffer: &mut Vec<u8>) -> Result<Self, ChainError> {
        let schema_id = entry.from_state.machine().schema_id();
        self.admit_as(entry, schema_id, |entry| entry.compute_digest(buffer) == entry.entry_digest)
    }

    /// Verifies the same as [`Head::admit`] for an entry whose `schema_id` must be this one, with another way to
    /// verify its own digest.
    pub(crate) fn admit_as(
        &self,
        entry: &Entry,
        schema_id: &str,
        has_own_digest: impl FnOnce(&Entry) -> bool,
    ) -> Result<Self, ChainError> {
        let head = self.follow_as(entry, schema_id)?;
        if !has_own_digest(entry) {
            return Err(ChainError::OwnDigest { sequence_number: entry.sequence_number });
        }
        Ok(head)
    }

    /// Verifies the same as [`Head::admit`] except the digest of the entry itself, for an entry whose
    /// digest has just been computed or verified.
    ///
    /// # Errors
    /// As [`Head::admit`].
    pub fn follow(&self, entry: &Entry) -> Result<Self, ChainError> {
        self.follow_as(entry, entry.from_state.machine().schema_id())
    }

    fn follow_as(&self, entry: &Entry, schema_id: &str) -> Result<Self, ChainError> {
        let sequence_number = self.sequence_number.saturating_add(1);
        if entry.sequence_number != sequence_number {
            return Err(ChainError::SequenceGap {
                expected: sequence_number,
                found: entry.sequence_number,
            });
        }
        if entry.trace_id != self.trace_id {
            return Err(ChainError::ForeignTrace { sequence_number, found: entry.trace_id });
        }
        if entry.prev_entry_digest != self.entry_digest {
            return Err(ChainError::PreviousDigest { sequence_number });
        }
        if !entry.transition().is_allowed_from(self.state) {
            return Err(ChainError::Transition {
                sequence_number,
                from: entry.from_state,
                to: entry.to_state,
                after: StateOrEmpty(self.state),
            });
        }
        let tool_call_id = self.follow_call(entry)?;
        if entry.schema_id != schema_id {
            let reason = format!("its schema_id is `{}`", entry.schema_id);
            return Err(ChainError::Malformed { sequence_number, reason });
        }
        if entry.schema_version != SCHEMA_VERSION {
            let reason = format!("its schema_version is `{}`", entry.schema_version);
            return Err(ChainError::Malformed { sequence_number, reason });
        }
        let key_chars = entry.idempotency_key.as_ref().map_or(1, |key| key.chars().count());
        if !(1..=KEY_CHARS_MAX).contains(&key_chars) {
            let reason = "its idempotency_key does not have 1 to 255 characters".to_owned();
            return Err(ChainError::Malformed { sequence_number, reason });
        }
        Ok(Self {
            trace_id: self.trace_id,
            sequence_number,
            entry_digest: entry.entry_digest,
            state: Some(entry.to_state),
            tool_call_id,
        })
    }

    /// Verifies that the entry that dispatches a call and the entry that ends it contain its id.
    fn follow_call(&self, entry: &Entry) -> Result<Option<ToolCallId>, ChainError> {
        let sequence_number = entry.sequence_number;
        match entry.to_state {
            State::Executing | State::Completed | State::Failed if entry.tool_call_id.is_none() => {
                Err(ChainError::MissingToolCall { sequence_number })
            }
            State::Executing => Ok(entry.tool_call_id),
            State::Completed | State::Failed if entry.tool_call_id != self.tool_call_id => {
                Err(ChainError::ToolCall { sequence_number })
            }
            State::Completed
            | State::Failed
            | State::Pending
            | State::Authorized
            | State::Denied
            | State::Init
            | State::Running
            | State::Checkpoint
            | State::Resumed
            | State::Terminal
            | State::Granted
            | State::Withdrawn
            | State::Due
            | State::Settled => Ok(self.tool_call_id),
        }
    }

    /// Compares the head that the entries fold to (`self`) with the recorded head.
    ///
    /// # Errors
    /// [`ChainError`] if the trace was truncated, extended or rewritten.
    pub fn matches(&self, recorded: &Self) -> Result<(), ChainError> {
        if self.sequence_number != recorded.sequence_number {
            return Err(ChainError::Truncated {
                expected: recorded.sequence_number,
                found: self.sequence_number,
            });
        }
        if self != recorded {
            return Err(ChainError::HeadMismatch { sequence_number: self.sequence_number });
        }
        Ok(())
    }
}
