//! The fold of reviews: whether enough of those who are asked agree.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::payload::{HoldRequest, PhaseResult, Usage, Vote, VoteDecision};
use super::plan::{Doer, Phase, Reviewer, Trigger};
use super::state::{AttemptStage, PhaseState, Run};

/// The verdicts that reviewers and their consensus can give.
pub const APPROVED: &str = "approved";
/// Approved, and bound to something.
pub const CONDITIONAL: &str = "approved_with_conditions";
/// Not approved.
pub const REJECTED: &str = "rejected";

/// What one of those who must agree has said.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    /// Who.
    pub by: String,
    /// What an approval is bound to.
    pub conditions: Vec<String>,
    /// Whether they agree.
    pub decision: VoteDecision,
    /// What is to be done better.
    pub findings: Value,
    /// Why.
    pub reason: String,
}

/// The agent whose review comes next, by its place among the reviewers.
pub(super) fn next_agent(phase: &Phase, state: &PhaseState) -> Option<usize> {
    let Doer::Consensus { reviewers, .. } = &phase.doer else { return None };
    if state.stage != AttemptStage::Work {
        return None;
    }
    let asked = |reviewer: &Reviewer| state.reviews.iter().any(|one| one.by == reviewer.name());
    let agent = |reviewer: &&Reviewer| matches!(reviewer, Reviewer::Agent { .. });
    reviewers.iter().position(|reviewer| agent(&reviewer) && !asked(reviewer))
}

/// What the reviews so far come to; `None` while it is open.
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
    /// An agent's review.
    pub(super) fn reviewed(&mut self, at: usize, mut review: Review) -> Result<(), String> {
        let Some((phase, state)) = self.phase(at) else { return Err("no such phase".to_owned()) };
        let next = next_agent(phase, state);
        let Doer::Consensus { reviewers, .. } = &phase.doer else {
            return Err(format!("phase `{}` asks no reviewers", phase.id));
        };
        let next = next.and_then(|next| reviewers.get(next)).map(Reviewer::name);
        if next != Some(review.by.as_str()) || !self.index.at_work.contains(&at) {
            return Err(format!("`{}` is not the next to review", review.by));
        }
        if review.decision == VoteDecision::Rejected {
            review.conditions.clear();
        }
        self.change(at, |state| state.reviews.push(review));
        self.tally(at);
        Ok(())
    }

    /// Ends the phase when its reviews have come to something.
    fn tally(&mut self, at: usize) {
        let Some((phase, state)) = self.phase(at) else { return };
        let Doer::Consensus { checklist, quorum, reviewers, .. } = &phase.doer else { return };
        let Some(decision) = decided(*quorum, reviewers.len(), &state.reviews) else { return };
        let done = conclude(decision, checklist, &state.reviews);
        self.change(at, |state| {
            state.findings = Value::Null;
            state.done = Some(Arc::new(done));
            state.stage = AttemptStage::After(0);
        });
        self.advance(at);
    }

    /// The hold at which the people among the reviewers are asked.
    pub(super) fn ask_reviewers(
        &self,
        at: usize,
        phase: &Phase,
        state: &PhaseState,
    ) -> HoldRequest {
        let Doer::Consensus { checklist, question, quorum, reviewers } = &phase.doer else {
            return self.held(at, Trigger::ConsensusRequested, String::new());
        };
        let mut held = self.held(at, Trigger::ConsensusRequested, question.clone());
        let said = |decision| u32::try_from(count(&state.reviews, decision)).unwrap_or(u32::MAX);
        let all = u32::try_from(reviewers.len()).unwrap_or(u32::MAX);
        held.approvals = quorum.saturating_sub(said(VoteDecision::Approved));
        held.rejections = all
            .saturating_sub(*quorum)
            .saturating_add(1)
            .saturating_sub(said(VoteDecision::Rejected))
            .max(1);
        let people = reviewers.iter().filter(|one| matches!(one, Reviewer::Person { .. }));
        held.reviewers = people.map(|one| one.name().to_owned()).collect();
        held.checklist.clone_from(checklist);
        held.evidence = json!({
            "phases": self.evidence(phase),
            "quorum": quorum,
            "reviewers": reviewers.iter().map(Reviewer::name).collect::<Vec<_>>(),
            "reviews": state.reviews.iter().map(shown).collect::<Vec<_>>(),
        });
        held
    }

    /// What came of the phases that one builds on.
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

    /// The people among the reviewers have answered.
    pub(super) fn reviewers_answered(&mut self, at: usize, votes: &[Vote]) {
        let reviews = votes.iter().map(|vote| Review {
            by: vote.by.clone(),
            conditions: vote.conditions.clone(),
            decision: vote.decision,
            findings: json!([vote.reason]),
            reason: vote.reason.clone(),
        });
        let reviews: Vec<Review> = reviews.collect();
        self.change(at, |state| state.reviews.extend(reviews));
        self.tally(at);
    }
}

fn shown(review: &Review) -> Value {
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

/// What the reviews come to, as the answer of their phase.
fn conclude(decision: VoteDecision, checklist: &[String], reviews: &[Review]) -> PhaseResult {
    let conditions: Vec<String> = match decision {
        VoteDecision::Approved => reviews.iter().flat_map(|one| one.conditions.clone()).collect(),
        VoteDecision::Rejected => Vec::new(),
    };
    let against = reviews.iter().filter(|one| one.decision == decision);
    let reasons: Vec<String> =
        against.clone().map(|one| format!("{}: {}", one.by, one.reason)).collect();
    let findings: Vec<Value> = match decision {
        VoteDecision::Approved => conditions.iter().map(|one| json!(one)).collect(),
        VoteDecision::Rejected => against.map(|one| one.findings.clone()).collect(),
    };
    let reason = reasons.join("; ");
    PhaseResult {
        answer: json!({
            "checklist": checklist,
            "conditions": conditions,
            "findings": findings,
            "reason": reason,
            "reviews": reviews.iter().map(shown).collect::<Vec<_>>(),
            "verdict": verdict(decision, &conditions),
        }),
        calls: Vec::new(),
        change: None,
        duration_ms: 0,
        facts: BTreeMap::new(),
        failure: None,
        governance: None,
        outputs: BTreeMap::new(),
        summary: reason,
        usage: Usage::default(),
    }
}
