//! A rejection that sends a run back: an earlier phase is done again, with findings that people wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use super::payload::{HoldRequest, SendBack, Vote, VoteDecision};
use super::plan::{Doer, PhaseCondition, Plan, Trigger};
use super::state::Run;
use super::votes::{Hold, Resolution};

/// The most findings of one answer.
const FINDINGS_MAX: usize = 200;

impl Hold {
    /// Whether enough people rejected, and each of them sent the run back.
    #[must_use]
    pub fn is_sent_back(&self) -> bool {
        let mut rejections = self.rejections();
        self.resolution() == Resolution::Rejected && rejections.all(|vote| vote.send_back.is_some())
    }

    fn rejections(&self) -> impl Iterator<Item = &Vote> {
        let votes = self.votes.iter().map(|(vote, _)| vote);
        votes.filter(|vote| vote.decision == VoteDecision::Rejected)
    }
}

impl Run {
    /// The phases to which a person can send a run back from a hold, in the order of the plan.
    pub fn redo_targets(&self, held: &HoldRequest) -> Vec<&str> {
        let phases = self.all_phases().map(|(phase, _)| phase.id.as_str());
        phases.filter(|phase| self.redo_target(held, phase).is_ok()).collect()
    }

    /// The phase to which a run goes back unless the person names one: for a call, the one that made it; otherwise the
    /// last one before the hold that an agent did, or else a program.
    #[must_use]
    pub fn redo_default(&self, held: &HoldRequest) -> Option<&str> {
        let targets = self.redo_targets(held);
        let here = targets.iter().copied().find(|target| *target == held.phase);
        if held.trigger == Trigger::CallApproval && here.is_some() {
            return here;
        }
        let is_agents = |target: &str| {
            let phase = self.position(target).and_then(|position| self.phase(position));
            phase.is_some_and(|(phase, _)| matches!(phase.doer, Doer::Agent { .. }))
        };
        let mut before = targets.iter().rev().copied().filter(|target| *target != held.phase);
        let last = before.clone().next();
        before.find(|target| is_agents(target)).or(last).or(here)
    }

    /// The position of a phase to which a person can send a run back from a hold.
    ///
    /// # Errors
    /// The reason why they cannot.
    pub fn redo_target(&self, held: &HoldRequest, to: &str) -> Result<usize, String> {
        let about_work = match held.trigger {
            Trigger::CallApproval
            | Trigger::ConsensusRequested
            | Trigger::EscalationRequested
            | Trigger::PersonRequested
            | Trigger::WaiverRequested => true,
            Trigger::AgentUnavailable
            | Trigger::BudgetExhausted
            | Trigger::MergeConflict
            | Trigger::RestartRequested
            | Trigger::RolledBack
            | Trigger::SetupFailed
            | Trigger::UncertainEffect => false,
        };
        if !about_work || self.plan().is_some_and(Plan::is_session) {
            return Err("this hold does not ask about the work of a phase".to_owned());
        }
        let target = self.phase_index(to)?;
        let Some((phase, state)) = self.phase(target) else {
            return Err(format!("there is no phase `{to}`"));
        };
        let reads_findings = match &phase.doer {
            Doer::Agent { .. } | Doer::Command { .. } => true,
            Doer::Builtin { .. } | Doer::Consensus { .. } | Doer::Person { .. } => false,
        };
        if !reads_findings || phase.when == PhaseCondition::Intervention {
            return Err(format!("phase `{to}` is not done by an agent or a program"));
        }
        if state.attempt == 0 {
            return Err(format!("phase `{to}` has not been done yet"));
        }
        let from = self.phase_index(&held.phase)?;
        if !self.with_followers(BTreeSet::from([target])).contains(&from) {
            return Err(format!("phase `{}` does not follow phase `{to}`", held.phase));
        }
        Ok(target)
    }

    /// Refuses an answer that sends the run back in a way that is not possible.
    pub(super) fn check_send_back(&self, held: &HoldRequest, vote: &Vote) -> Result<(), String> {
        let Some(SendBack { findings, to }) = &vote.send_back else { return Ok(()) };
        if vote.decision != VoteDecision::Rejected {
            return Err("only a rejection sends a run back".to_owned());
        }
        if findings.len() > FINDINGS_MAX || findings.iter().any(|one| one.trim().is_empty()) {
            return Err(format!("it has more than {FINDINGS_MAX} findings, or an empty one"));
        }
        self.redo_target(held, to).map(drop)
    }

    /// Makes the phases pending again to which people sent the run back, and all that follow them.
    pub(super) fn redo(&mut self, hold: &Hold) -> Result<(), String> {
        let mut asked: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for vote in hold.rejections() {
            let Some(SendBack { findings, to }) = &vote.send_back else { continue };
            let target = self.redo_target(&hold.held, to)?;
            let by = &vote.by.name;
            let reason = std::iter::once(format!("{by}: {}", vote.reason));
            asked.entry(target).or_default().extend(reason.chain(findings.iter().cloned()));
        }
        let again = self.with_followers(asked.keys().copied().collect());
        again.into_iter().for_each(|place| self.reset(place));
        for (target, findings) in asked {
            self.change(target, |state| state.findings = json!(findings));
            self.add_to_history(target);
        }
        Ok(())
    }

    /// These phases, and all that depend on them.
    pub(super) fn with_followers(&self, mut phases: BTreeSet<usize>) -> BTreeSet<usize> {
        let graph = Arc::clone(&self.index.graph);
        let mut open: Vec<usize> = phases.iter().copied().collect();
        while let Some(place) = open.pop() {
            let followers = graph.followers.get(place).into_iter().flatten();
            open.extend(followers.filter(|follower| phases.insert(**follower)));
        }
        phases
    }
}
