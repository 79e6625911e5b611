//! The hold that a run is on, and the count of people's answers to it.

use std::collections::BTreeSet;

use super::payload::{HoldRequest, Vote, VoteDecision};
use crate::{Digest, Timestamp, is_same_name};

/// The hold that a run is on.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// The request that is shown to people.
    pub held: HoldRequest,
    /// The digest of the request.
    pub shown: Digest,
    /// When the hold began.
    pub since: Timestamp,
    /// The answers so far and their times.
    pub votes: Vec<(Vote, Timestamp)>,
    /// The person whose answer does not count, if there is one: who started the run, if it needs several.
    pub excluded: Option<String>,
    /// The answers before the last withdrawal, if no answer came since.
    pub before_revocation: Vec<(Vote, Timestamp)>,
}

/// The result of the answers to a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Not enough people have answered.
    Open,
    /// Enough people have approved.
    Approved,
    /// Enough people have rejected.
    Rejected,
}

impl Hold {
    /// A hold with these answers.
    #[must_use]
    pub const fn new(
        held: HoldRequest,
        shown: Digest,
        since: Timestamp,
        votes: Vec<(Vote, Timestamp)>,
    ) -> Self {
        Self { held, shown, since, votes, excluded: None, before_revocation: Vec::new() }
    }

    /// Returns the result of the answers.
    #[must_use]
    pub fn resolution(&self) -> Resolution {
        self.resolution_with(self.count(VoteDecision::Rejected))
    }

    /// How many answers count for a decision: approvals of different approvers, and rejections of different people.
    /// Anybody may reject, also those whose approvals would count as one.
    #[must_use]
    pub fn count(&self, decision: VoteDecision) -> usize {
        match decision {
            VoteDecision::Approved => self.approvers(decision),
            VoteDecision::Rejected => {
                self.votes.iter().filter(|(vote, _)| vote.decision == decision).count()
            }
        }
    }

    /// Whether no further answer is read. Rejections of one approver once counted as one, so that journals have more
    /// of them than decide.
    pub(super) fn is_closed(&self) -> bool {
        self.resolution_with(self.approvers(VoteDecision::Rejected)) != Resolution::Open
    }

    fn approvers(&self, decision: VoteDecision) -> usize {
        let votes = self.votes.iter().filter(|(vote, _)| vote.decision == decision);
        votes.map(|(vote, _)| vote.by.approver.as_str()).collect::<BTreeSet<&str>>().len()
    }

    fn resolution_with(&self, rejections: usize) -> Resolution {
        // Even if a journal says zero, at least one person must answer.
        let enough = |count: u32| usize::try_from(count).unwrap_or(usize::MAX).max(1);
        if rejections >= enough(self.held.rejections) {
            Resolution::Rejected
        } else if self.count(VoteDecision::Approved) >= enough(self.held.approvals) {
            Resolution::Approved
        } else {
            Resolution::Open
        }
    }

    /// Whether a person with this name may answer.
    #[must_use]
    pub fn asks(&self, name: &str) -> bool {
        let reviewers = &self.held.reviewers;
        reviewers.is_empty() || reviewers.iter().any(|one| is_same_name(one, name))
    }

    /// Whether the answer of a person with this name does not count.
    #[must_use]
    pub fn excludes(&self, name: &str) -> bool {
        self.excluded.as_ref().is_some_and(|one| is_same_name(one, name))
    }

    /// Whether it has expired without enough answers.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.resolution() == Resolution::Open
            && self.held.expires_at.is_some_and(|expires_at| now >= expires_at)
    }
}
