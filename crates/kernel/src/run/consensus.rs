//! Folds the reviews of a consensus phase.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::payload::{HoldRequest, PhaseResult, Vote, VoteDecision};
use super::plan::{Doer, Phase, Reviewer, Trigger};
use super::state::{AttemptStage, PhaseState, Run};

/// The verdict of a reviewer or a consensus: approved.
pub const APPROVED: &str = "approved";
/// The verdict of a reviewer or a consensus: approved with conditions.
pub const CONDITIONAL: &str = "approved_with_conditions";
/// The verdict of a reviewer or a consensus: rejected.
pub const REJECTED: &str = "rejected";

/// The review of one reviewer.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    /// The name of the reviewer.
    pub by: String,
    /// The conditions of an approval.
    pub conditions: Vec<String>,
    /// The decision.
    pub decision: VoteDecision,
    /// The findings to be fixed.
    pub findings: Value,
    /// The reason.
    pub reason: String,
}

/// Returns the index of the agent that reviews next.
pub(super) fn next_agent(phase: &Phase, state: &PhaseState) -> Option<usize> {
    let Doer::Consensus { reviewers, .. } = &phase.doer else { return None };
    if state.stage != AttemptStage::Work {
        return None;
    }
    let asked = |reviewer: &Reviewer| state.reviews.iter().any(|one| one.by == reviewer.name());
    let agent = |reviewer: &&Reviewer| matches!(reviewer, Reviewer::Agent { .. });
    reviewers.iter().position(|reviewer| agent(&reviewer) && !asked(reviewer))
}

/// Returns the result of the reviews so far; `None` while the quorum can still be reached.
fn decided(quorum: u32, reviewers: usize, reviews: &[Review]) -> Option<VoteDecision> {
    let quorum = usize::try_from(quorum).unwrap_or(usize::MAX);
    let approved = count(reviews, VoteDecision::Approved);
    let rejected = count(reviews, VoteDecision::Rejected);
    if approved >= quorum {
        return Some(VoteDecision::Approved);
    }
    (reviewers.saturating_sub(rejected) < quorum).then_some(VoteDecision::Rejected)
}

fn count(reviews: &[Review], decision: VoteDecision) -> usize {
    reviews.iter().filter(|review| review.decision == decision).count()
}

impl Run {
    /// Adds the review of an agent.
    pub(super) fn reviewed(&mut self, position: usize, mut review: Review) -> Result<(), String> {
        let Some((phase, state)) = self.phase(position) else {
            return Err("there is no such phase".to_owned());
        };
        let next = next_agent(phase, state);
        let Doer::Consensus { reviewers, .. } = &phase.doer else {
            return Err(format!("phase `{}` has no reviewers", phase.id));
        };
        let next = next.and_then(|next| reviewers.get(next)).map(Reviewer::name);
        if next != Some(review.by.as_str()) || !self.index.at_work.contains(&position) {
            return Err(format!("`{}` is not the next to review", review.by));
        }
        if review.decision == VoteDecision::Rejected {
            review.conditions.clear();
        }
        self.change(position, |state| state.reviews.push(review));
        self.tally(position);
        Ok(())
    }

    /// Ends the work of the phase if its reviews have a result.
    fn tally(&mut self, position: usize) {
        let Some((phase, state)) = self.phase(position) else { return };
        let Doer::Consensus { checklist, quorum, reviewers, .. } = &phase.doer else { return };
        let Some(decision) = decided(*quorum, reviewers.len(), &state.reviews) else { return };
        let result = conclude(decision, checklist, &state.reviews);
        self.end_work(position, result);
    }

    /// Ends the work of a phase that people or reviewers do.
    pub(super) fn end_work(&mut self, position: usize, result: PhaseResult) {
        self.change(position, |state| {
            state.findings = Value::Null;
            state.done = Some(Arc::new(result));
            state.stage = AttemptStage::After(0);
        });
        self.advance(position);
    }

    /// The hold at which the people among the reviewers answer.
    pub(super) fn ask_reviewers(
        &self,
        position: usize,
        phase: &Phase,
        state: &PhaseState,
    ) -> HoldRequest {
        let Doer::Consensus { checklist, question, quorum, reviewers } = &phase.doer else {
            return self.held(position, Trigger::ConsensusRequested, String::new());
        };
        let mut held = self.held(position, Trigger::ConsensusRequested, question.clone());
        let votes = |decision| u32::try_from(count(&state.reviews, decision)).unwrap_or(u32::MAX);
        let all = u32::try_from(reviewers.len()).unwrap_or(u32::MAX);
        held.approvals = quorum.saturating_sub(votes(VoteDecision::Approved));
        held.rejections = all
            .saturating_sub(*quorum)
            .saturating_add(1)
            .saturating_sub(votes(VoteDecision::Rejected))
            .max(1);
        let people = reviewers.iter().filter(|one| matches!(one, Reviewer::Person { .. }));
        held.reviewers = people.map(|one| one.name().to_owned()).collect();
        held.checklist.clone_from(checklist);
        held.evidence = json!({
            "phases": self.evidence(phase),
            "quorum": quorum,
            "reviewers": reviewers.iter().map(Reviewer::name).collect::<Vec<_>>(),
            "reviews": state.reviews.iter().map(review_json).collect::<Vec<_>>(),
        });
        held
    }

    /// The results of the phases that a phase needs.
    #[must_use]
    pub fn evidence(&self, phase: &Phase) -> Value {
        let of = |need: &String| {
            let (_, state) = self.phase(self.position(need)?)?;
            let done = state.done.as_ref();
            let body = json!({
                "status": state.status.as_str(),
                "summary": done.map(|done| done.summary.clone()),
                "outputs": done.map(|done| done.outputs.clone()),
                "governance": done.and_then(|done| done.governance.clone()),
            });
            Some((need.clone(), body))
        };
        Value::Object(phase.needs.iter().filter_map(of).collect::<Map<_, _>>())
    }

    /// Adds the answers of the people among the reviewers.
    pub(super) fn reviewers_answered(&mut self, position: usize, votes: &[Vote]) {
        let reviews = votes.iter().map(|vote| Review {
            by: vote.by.name.clone(),
            conditions: vote.conditions.clone(),
            decision: vote.decision,
            findings: json!([vote.reason]),
            reason: vote.reason.clone(),
        });
        let reviews: Vec<Review> = reviews.collect();
        self.change(position, |state| state.reviews.extend(reviews));
        self.tally(position);
    }
}

fn review_json(review: &Review) -> Value {
    json!({
        "by": review.by,
        "verdict": verdict(review.decision, &review.conditions),
        "conditions": review.conditions,
        "reason": review.reason,
    })
}

const fn verdict(decision: VoteDecision, conditions: &[String]) -> &'static str {
    match decision {
        VoteDecision::Approved if conditions.is_empty() => APPROVED,
        VoteDecision::Approved => CONDITIONAL,
        VoteDecision::Rejected => REJECTED,
    }
}

/// Returns the result of the reviews as the result of their phase.
fn conclude(decision: VoteDecision, checklist: &[String], reviews: &[Review]) -> PhaseResult {
    let conditions: Vec<String> = match decision {
        VoteDecision::Approved => reviews.iter().flat_map(|one| one.conditions.clone()).collect(),
        VoteDecision::Rejected => Vec::new(),
    };
    let decisive = reviews.iter().filter(|one| one.decision == decision);
    let reasons: Vec<String> =
        decisive.clone().map(|one| format!("{}: {}", one.by, one.reason)).collect();
    let findings: Vec<Value> = match decision {
        VoteDecision::Approved => conditions.iter().map(|one| json!(one)).collect(),
        VoteDecision::Rejected => decisive.map(|one| one.findings.clone()).collect(),
    };
    let reason = reasons.join("; ");
    PhaseResult {
        answer: json!({
            "checklist": checklist,
            "conditions": conditions,
            "findings": findings,
            "reason": reason,
            "reviews": reviews.iter().map(review_json).collect::<Vec<_>>(),
            "verdict": verdict(decision, &conditions),
        }),
        summary: reason,
        ..PhaseResult::default()
    }
}
