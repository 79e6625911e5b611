//! What to do with a call that a dead process left behind.

use serde::Serialize;

use crate::{Call, Next};

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
pub enum RecoveryPlan {
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
pub const fn plan(
    call: &Call,
    rule: UncertainRule,
    redispatches: u32,
    retries_max: u32,
) -> RecoveryPlan {
    match call.next() {
        Next::Nothing | Next::Done => RecoveryPlan::Nothing,
        Next::Judge => RecoveryPlan::Judge,
        Next::Start => RecoveryPlan::Start,
        Next::Settle => match rule {
            UncertainRule::Hold => RecoveryPlan::Hold,
            // A call that brings its process down each time is parked, visibly.
            UncertainRule::Retry if redispatches >= retries_max => RecoveryPlan::Hold,
            UncertainRule::Retry => RecoveryPlan::Redispatch,
            UncertainRule::Probe => RecoveryPlan::Probe,
            UncertainRule::Compensate => RecoveryPlan::Compensate,
        },
    }
}
