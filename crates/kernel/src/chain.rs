//! The hash chain: what may come next, and whether what is there holds together.

use thiserror::Error;

use crate::entry::{Draft, KEY_CHARS_MAX, SCHEMA_VERSION};
use crate::{Code, Digest, Entry, State, ToolCallId, TraceId};

/// The end of a trace: all that is needed to append or to check the next entry.
///
/// A chain does not protect its own tail, so a head is also kept apart from the entries and
/// compared with what they fold to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The trace.
    pub trace_id: TraceId,
    /// The number of the last entry; 0 when there is none.
    pub sequence_number: u64,
    /// The digest of the last entry; 64 zeros when there is none.
    pub entry_digest: Digest,
    /// The state after the last entry; `None` when there is none.
    pub state: Option<State>,
    /// The call that the trace has handed over, once it has.
    pub tool_call_id: Option<ToolCallId>,
}

/// A chain that does not hold together. Never repaired: the trace stops.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChainError {
    /// An entry is missing, repeated or out of order.
    #[error("entry {found} stands where entry {expected} belongs")]
    SequenceGap {
        /// What should come.
        expected: u64,
        /// What comes.
        found: u64,
    },
    /// The trace ends before the head kept apart says it does, or after it.
    #[error("the trace has {found} entries, its recorded head says {expected}")]
    Truncated {
        /// The head's number.
        expected: u64,
        /// The last entry's number.
        found: u64,
    },
    /// The last entry is not the one that the head kept apart names.
    #[error("entry {sequence_number} is not the one that the recorded head names")]
    HeadMismatch {
        /// The last entry's number.
        sequence_number: u64,
    },
    /// An entry belongs to another trace.
    #[error("entry {sequence_number} belongs to trace `{found}`")]
    ForeignTrace {
        /// Its number.
        sequence_number: u64,
        /// The trace it names.
        found: TraceId,
    },
    /// An entry does not commit to the one before it.
    #[error("entry {sequence_number} does not carry the digest of the entry before it")]
    PreviousDigest {
        /// Its number.
        sequence_number: u64,
    },
    /// An entry's transition is not allowed from the current state.
    #[error("entry {sequence_number} goes from {from} to {to}, which is not allowed after {after}")]
    Transition {
        /// Its number.
        sequence_number: u64,
        /// Where it claims to start.
        from: State,
        /// Where it goes.
        to: State,
        /// Where the trace stands.
        after: StateOrEmpty,
    },
    /// An entry that must carry its call's id does not, or carries another's.
    #[error("entry {sequence_number} does not carry the id of its tool call")]
    ToolCall {
        /// Its number.
        sequence_number: u64,
    },
    /// An entry's own digest is wrong.
    #[error("entry {sequence_number} does not match its own digest")]
    OwnDigest {
        /// Its number.
        sequence_number: u64,
    },
    /// An entry cannot be read as one at all.
    #[error("entry {sequence_number} is not an entry of version v1: {reason}")]
    Malformed {
        /// The place where it stands.
        sequence_number: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// An artifact's body is not what its entry says.
    #[error("the {artifact} of entry {sequence_number} does not match its digest")]
    Artifact {
        /// The entry's number.
        sequence_number: u64,
        /// What the artifact is.
        artifact: &'static str,
    },
    /// An artifact does not refer to the one it follows from.
    #[error(
        "the artifact of entry {sequence_number} does not follow from the one before it: {reason}"
    )]
    Link {
        /// The entry's number.
        sequence_number: u64,
        /// What does not fit.
        reason: &'static str,
    },
    /// An event of a run cannot have happened where it stands.
    #[error("entry {sequence_number} says `{kind}`, which cannot be: {why}")]
    Impossible {
        /// The entry's number.
        sequence_number: u64,
        /// The event.
        kind: &'static str,
        /// Why not.
        why: String,
    },
    /// An idempotency key is on record otherwise than the entries say.
    #[error("entry {sequence_number}: {reason}")]
    Key {
        /// The entry that reserves it.
        sequence_number: u64,
        /// What does not match.
        reason: &'static str,
    },
    /// A checkpoint does not match its digest or the entries it summarises.
    #[error("the checkpoint at entry {sequence_number} does not match {what}")]
    ReplayPoint {
        /// The entry it was made at.
        sequence_number: u64,
        /// What it does not match.
        what: &'static str,
    },
}

/// A state, or the lack of one before the first entry.
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

    /// The head after an entry, as far as the entry itself tells: nothing is verified.
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

    /// Makes the entry that comes next and the head after it.
    ///
    /// # Errors
    /// [`ChainError`] when the draft is not allowed here.
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

    /// Checks that `entry` comes next and returns the head after it; `buffer` is scratch space.
    ///
    /// # Errors
    /// The first [`ChainError`] in this order: sequence, previous digest, transition from the
    /// current state, own digest.
    pub fn admit(&self, entry: &Entry, buffer: &mut Vec<u8>) -> Result<Self, ChainError> {
        let head = self.follow(entry)?;
        if entry.compute_digest(buffer) != entry.entry_digest {
            return Err(ChainError::OwnDigest { sequence_number: entry.sequence_number });
        }
        Ok(head)
    }

    /// Everything [`Head::admit`] checks but the entry's own digest, for an entry whose digest has
    /// just been computed or checked.
    ///
    /// # Errors
    /// As [`Head::admit`].
    pub fn follow(&self, entry: &Entry) -> Result<Self, ChainError> {
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
        if entry.schema_version != SCHEMA_VERSION {
            let reason = format!("its schema_version is `{}`", entry.schema_version);
            return Err(ChainError::Malformed { sequence_number, reason });
        }
        let key_chars = entry.idempotency_key.as_ref().map_or(1, |key| key.chars().count());
        if !(1..=KEY_CHARS_MAX).contains(&key_chars) {
            let reason = "an idempotency_key has 1 to 255 characters".to_owned();
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

    /// The entry that hands a call over names it, and so does the one that ends it.
    fn follow_call(&self, entry: &Entry) -> Result<Option<ToolCallId>, ChainError> {
        let error = ChainError::ToolCall { sequence_number: entry.sequence_number };
        match entry.to_state {
            State::Executing if entry.tool_call_id.is_none() => Err(error),
            State::Executing => Ok(entry.tool_call_id),
            State::Completed | State::Failed if entry.tool_call_id != self.tool_call_id => {
                Err(error)
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
            | State::Terminal => Ok(self.tool_call_id),
        }
    }

    /// Compares a head that entries fold to (`self`) with the one kept apart.
    ///
    /// # Errors
    /// [`ChainError`] when the trace was cut off, extended or rewritten.
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
