//! What people signed in the artifacts of a call, and the holds of runs that decided on it.

use std::borrow::Cow;

use crate::artifact::{DecidedBy, Decider, Decision, NamedFile, Redispatch, SettledBy};
use crate::{Digest, Entry, Outcome, Signed, Statement, TraceId};

/// The answered hold of a run by which a call was approved or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldReference {
    /// Whether it was approved.
    pub approved: bool,
    /// The run's last entry at that time.
    pub entry_digest: Digest,
    /// The trace of the run.
    pub trace_id: TraceId,
}

impl HoldReference {
    pub(super) fn of(decided_by: &DecidedBy, decision: Decision) -> Option<Self> {
        match decided_by {
            DecidedBy::Person { decider: Decider::Hold { entry_digest, trace_id, .. }, .. } => {
                let approved = decision == Decision::Approve;
                Some(Self { approved, entry_digest: *entry_digest, trace_id: *trace_id })
            }
            DecidedBy::Person { decider: Decider::Person(_), .. }
            | DecidedBy::Policy { .. }
            | DecidedBy::Grant { .. }
            | DecidedBy::Prompt { .. } => None,
        }
    }
}

/// What a person signed in an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignedDecision {
    pub(super) decision: Cow<'static, str>,
    pub(super) edit: Option<Digest>,
    pub(super) files: Vec<NamedFile>,
    pub(super) reason: String,
    pub(super) signed: Box<Signed>,
}

impl SignedDecision {
    pub(super) fn of_decision(
        decided_by: &DecidedBy,
        decision: Decision,
        reason: &str,
    ) -> Vec<Self> {
        match decided_by {
            DecidedBy::Person { decider: Decider::Person(signed), edit, files } => vec![Self {
                decision: decision.as_str().into(),
                edit: edit.as_ref().map(|edit| edit.proposal_digest),
                files: files.clone(),
                reason: reason.to_owned(),
                signed: signed.clone(),
            }],
            DecidedBy::Person { decider: Decider::Hold { .. }, .. }
            | DecidedBy::Policy { .. }
            | DecidedBy::Grant { .. }
            | DecidedBy::Prompt { .. } => Vec::new(),
        }
    }

    pub(super) fn of_effect(
        settled_by: &SettledBy,
        outcome: Outcome,
        redispatches: &[Redispatch],
    ) -> Vec<Self> {
        let mut all = Vec::new();
        for again in redispatches {
            if let Some(Decider::Person(signed)) = &again.by {
                all.push(Self {
                    decision: dispatch_decision(again.attempt).into(),
                    edit: None,
                    files: Vec::new(),
                    reason: again.reason.clone(),
                    signed: signed.clone(),
                });
            }
        }
        if let SettledBy::Person { decider: Decider::Person(signed), reason } = settled_by {
            all.push(Self {
                decision: settled_decision(outcome).into(),
                edit: None,
                files: Vec::new(),
                reason: reason.clone(),
                signed: signed.clone(),
            });
        }
        all
    }

    pub(super) fn verifies(&self, entry: &Entry, shown: Digest) -> bool {
        self.signed.verifies(&Statement {
            after: entry.prev_entry_digest,
            conditions: &[],
            decision: Cow::Borrowed(&self.decision),
            edit: self.edit,
            files: &self.files,
            reason: &self.reason,
            send_back: None,
            shown,
            trace_id: entry.trace_id,
        })
    }
}

/// The digest of the proposal as a person changed it, if they did.
pub(super) fn edit_of(decided_by: &DecidedBy) -> Option<Digest> {
    match decided_by {
        DecidedBy::Person { edit, .. } => edit.as_ref().map(|edit| edit.proposal_digest),
        DecidedBy::Policy { .. } | DecidedBy::Grant { .. } | DecidedBy::Prompt { .. } => None,
    }
}

/// The decision that a person signs to have a call dispatched once more.
#[must_use]
pub fn dispatch_decision(attempt: u32) -> String {
    format!("DISPATCH {attempt}")
}

/// The decision that a person signs who says what became of a call.
#[must_use]
pub const fn settled_decision(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "RAN",
        Outcome::Failure | Outcome::Denied | Outcome::Error => "FAILED",
    }
}
