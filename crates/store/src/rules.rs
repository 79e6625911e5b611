//! The checks that every store makes, in one place so that stores cannot differ.

use windlass_kernel::{ChainError, Digest, Head, HolderId, ReplayPoint, State, StateOrEmpty};

use crate::error::AppendError;
use crate::types::{After, Append, Claim, IdempotencyRecord, KeyAction, Lease, TraceState};

/// Whether the digests of an append have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digests {
    /// All of them are right.
    Hold,
    /// They must be checked, each in its place among the other checks.
    Unchecked,
}

impl Digests {
    /// Computes every digest of the entries that are not sealed. This needs nothing that is stored, so a
    /// store can do it before it begins its transaction.
    #[must_use]
    pub fn of(append: &Append<'_>) -> Self {
        let mut buffer = Vec::new();
        let hold = append.entries.iter().all(|new| {
            new.is_sealed()
                || new.entry.compute_digest(&mut buffer) == new.entry.entry_digest
                    && Digest::of(&new.body) == new.entry.artifact_digest
        });
        // A wrong digest is reported when its turn comes among the other checks.
        if hold { Self::Hold } else { Self::Unchecked }
    }
}

/// Checks an append against the current state of its trace, and returns the new state.
///
/// # Errors
/// [`AppendError`] for the first check that fails; then nothing may be written.
pub fn decide_append(
    current: Option<&TraceState>,
    append: &Append<'_>,
    me: HolderId,
    digests: Digests,
) -> Result<TraceState, AppendError> {
    let trace_id = append.claim.trace_id();
    let mut state = match (&append.claim, current) {
        (Claim::New { trace_id, plan_id }, None) => TraceState {
            head: Head::empty(*trace_id),
            plan_id: *plan_id,
            holder: Some(me),
            fence: 1,
        },
        (Claim::Held(lease), current) => *held_by(me, lease, current)?,
        (Claim::New { .. }, Some(_)) => return Err(AppendError::Fenced { trace_id }),
    };
    if append.entries.is_empty() {
        let reason = "an append has at least one entry".to_owned();
        let sequence_number = state.head.sequence_number.saturating_add(1);
        let source = ChainError::Malformed { sequence_number, reason };
        return Err(AppendError::Chain { trace_id, source });
    }
    for new in &append.entries {
        let chain = |source| AppendError::Chain { trace_id, source };
        state.head = match digests {
            Digests::Hold => state.head.follow(&new.entry),
            Digests::Unchecked => state.head.admit(&new.entry, &mut Vec::new()),
        }
        .map_err(chain)?;
        // Chains of other schemas can be verified, but not stored.
        if new.entry.schema_id != new.entry.from_state.machine().schema_id() {
            return Err(chain(ChainError::Malformed {
                sequence_number: new.entry.sequence_number,
                reason: format!("its schema_id is `{}`", new.entry.schema_id),
            }));
        }
        if digests == Digests::Unchecked && Digest::of(&new.body) != new.entry.artifact_digest {
            return Err(chain(ChainError::Artifact {
                sequence_number: new.entry.sequence_number,
                artifact: new.entry.artifact_type.as_str(),
            }));
        }
    }
    if append.after == After::Release {
        state.holder = None;
    }
    Ok(state)
}

/// Whether `lease` is the current lease of the trace.
#[must_use]
pub fn holds(lease: &Lease, current: &TraceState) -> bool {
    current.holder == Some(lease.holder()) && current.fence == lease.fence()
}

/// The trace, if the process `me` holds it by `lease`.
fn held_by<'a>(
    me: HolderId,
    lease: &Lease,
    current: Option<&'a TraceState>,
) -> Result<&'a TraceState, AppendError> {
    current
        .filter(|current| lease.holder() == me && holds(lease, current))
        .ok_or(AppendError::Fenced { trace_id: lease.trace_id() })
}

/// Checks a reservation against the existing record of the key.
///
/// # Errors
/// [`AppendError::KeyTaken`] if there is one.
pub fn decide_key(existing: Option<IdempotencyRecord>, key: &KeyAction) -> Result<(), AppendError> {
    match (key, existing) {
        (KeyAction::Retake(_), Some(record)) if record.did_not_run => Ok(()),
        (KeyAction::Reserve(_) | KeyAction::Retake(_), Some(record)) => {
            Err(AppendError::KeyTaken(Box::new(record)))
        }
        (KeyAction::Reserve(_) | KeyAction::Retake(_), None) | (KeyAction::None, _) => Ok(()),
    }
}

/// Checks whether a replay point may be written for a trace.
///
/// # Errors
/// [`AppendError`] if the lease is lost or the replay point has another state.
pub fn decide_replay_point(
    current: Option<&TraceState>,
    lease: &Lease,
    me: HolderId,
    point: &ReplayPoint,
) -> Result<(), AppendError> {
    let trace_id = lease.trace_id();
    let chain = |source| AppendError::Chain { trace_id, source };
    let current = held_by(me, lease, current)?;
    point.agrees_with(&current.head).map_err(chain)?;
    if point.checkpoint_state.plan_id != current.plan_id {
        let sequence_number = point.checkpoint_sequence_number;
        return Err(chain(ChainError::ReplayPoint { sequence_number, what: "the trace's plan" }));
    }
    Ok(())
}

/// Checks whether a redispatch is the next one of a call.
///
/// # Errors
/// [`AppendError`] if the lease is lost or the number is not the next one.
pub fn decide_redispatch(
    current: Option<&TraceState>,
    lease: &Lease,
    me: HolderId,
    recorded: u32,
    attempt: u32,
) -> Result<(), AppendError> {
    let trace_id = lease.trace_id();
    let current = held_by(me, lease, current)?;
    if current.head.state != Some(State::Executing) {
        let source = ChainError::Transition {
            sequence_number: current.head.sequence_number.saturating_add(1),
            from: State::Executing,
            to: State::Executing,
            after: StateOrEmpty(current.head.state),
        };
        return Err(AppendError::Chain { trace_id, source });
    }
    // The first dispatch is recorded by the EXECUTING entry and not counted here.
    let expected = recorded + 2;
    if attempt != expected {
        let (expected, found) = (u64::from(expected), u64::from(attempt));
        let source = ChainError::SequenceGap { expected, found };
        return Err(AppendError::Chain { trace_id, source });
    }
    Ok(())
}
