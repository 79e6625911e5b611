//! What to do with a call that a dead process left behind.

use serde::Serialize;

use crate::{Call, ChainError, Code, Digest, Head, Next, State};

/// What the tool registry says about a call whose effect is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncertainRule {
    /// Ask the server whether the key took effect, then go on from the answer.
    Probe,
    /// Hand the same call over again, same id, same key.
    Retry,
    /// Undo it, then let it end as failed.
    Compensate,
    /// Ask a person.
    Hold,
}

/// What recovery does with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// Nothing: it has ended, or nothing was recorded.
    Nothing,
    /// Judge the recorded request, as if it had just come.
    Judge,
    /// Record the hand-over, then make it: it was allowed and never handed over.
    Start,
    /// Ask the server first.
    Probe,
    /// Hand the same call over again.
    Redispatch,
    /// Undo it.
    Compensate,
    /// Leave it for a person.
    Hold,
}

/// Decides what to do with a call, from its recorded state, its tool's rule, and how often it has
/// been handed over again already.
///
/// INVARIANT: a call with a recorded effect is never handed over again, whatever the rule.
#[must_use]
pub const fn plan(call: &Call, rule: UncertainRule, redispatches: u32, retries_max: u32) -> Plan {
    match call.next() {
        Next::Nothing | Next::Done => Plan::Nothing,
        Next::Judge => Plan::Judge,
        Next::Start => Plan::Start,
        Next::Settle => match rule {
            UncertainRule::Hold => Plan::Hold,
            // A call that brings its process down each time is parked, visibly.
            UncertainRule::Retry if redispatches >= retries_max => Plan::Hold,
            UncertainRule::Retry => Plan::Redispatch,
            UncertainRule::Probe => Plan::Probe,
            UncertainRule::Compensate => Plan::Compensate,
        },
    }
}

/// What was found in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether the chain holds together.
    pub chain_valid: bool,
    /// What is wrong with it, if anything.
    pub error_code: Option<Code>,
    /// The first sequence number that is not what it should be.
    pub divergence_point: Option<u64>,
    /// How many entries were read.
    pub entry_count: u64,
    /// The number of the last entry that holds.
    pub last_sequence_number: u64,
    /// The digest of the last entry that holds.
    pub latest_entry_digest: Digest,
    /// The state after the last entry that holds.
    pub final_state: Option<State>,
}

impl Finding {
    /// Describes a chain of `entry_count` entries that folded to `head`, and the error that ended
    /// the fold, if one did.
    #[must_use]
    pub fn new(head: &Head, entry_count: u64, error: Option<&ChainError>) -> Self {
        Self {
            chain_valid: error.is_none(),
            error_code: error.map(ChainError::code),
            divergence_point: error.map(|error| match error {
                ChainError::ReplayPoint { sequence_number, .. }
                | ChainError::Key { sequence_number, .. }
                | ChainError::HeadMismatch { sequence_number } => *sequence_number,
                ChainError::Truncated { expected, found } => expected.min(found).saturating_add(1),
                ChainError::SequenceGap { .. }
                | ChainError::ForeignTrace { .. }
                | ChainError::PreviousDigest { .. }
                | ChainError::Transition { .. }
                | ChainError::ToolCall { .. }
                | ChainError::OwnDigest { .. }
                | ChainError::Malformed { .. }
                | ChainError::Artifact { .. }
                | ChainError::Impossible { .. }
                | ChainError::Link { .. } => head.sequence_number.saturating_add(1),
            }),
            entry_count,
            last_sequence_number: head.sequence_number,
            latest_entry_digest: head.entry_digest,
            final_state: head.state,
        }
    }
}
