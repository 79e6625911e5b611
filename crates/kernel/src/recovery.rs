//! The recovery of a call whose process died.

use serde::Serialize;

use crate::{Call, Next};

/// The rule of the tool registry for a call whose effect is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncertainRule {
    /// Ask the server whether the idempotency key took effect, then act on its response.
    Probe,
    /// Dispatch the same call again, with the same id and idempotency key.
    Retry,
    /// Undo the call, then record it as failed.
    Compensate,
    /// Ask a person.
    Hold,
}

/// The recovery step for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryPlan {
    /// Nothing: the call has ended, or has no entries.
    Nothing,
    /// Judge the recorded request like a new one.
    Judge,
    /// Record the dispatch, then dispatch the call: it was approved and never dispatched.
    Start,
    /// Ask the server whether the call took effect.
    Probe,
    /// Dispatch the same call again.
    Redispatch,
    /// Undo the call.
    Compensate,
    /// Put the call on hold for a person.
    Hold,
}

/// Returns the recovery step for a call, from its recorded state, the rule of its tool, and the number of
/// repeated dispatches so far.
///
/// INVARIANT: a call with a recorded effect is never dispatched again, whatever the rule.
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
            // A call that crashes its process each time goes on hold, where a person sees it.
            UncertainRule::Retry if redispatches >= retries_max => RecoveryPlan::Hold,
            UncertainRule::Retry => RecoveryPlan::Redispatch,
            UncertainRule::Probe => RecoveryPlan::Probe,
            UncertainRule::Compensate => RecoveryPlan::Compensate,
        },
    }
}
