//! Folds the events of holds, and the effect of people's answers.

use serde_json::{Value, json};

use super::consensus::{APPROVED, REJECTED};
use super::index::needs_confirmation;
use super::payload::{HoldRequest, PhaseResult, Revocation, Usage, VoteDecision, WaitsFor};
use super::plan::{BudgetedResource, Doer, Effect, Plan, Trigger};
use super::state::{AttemptStage, JudgedBy, PhaseStatus, Run};
use super::votes::{Hold, Resolution};
use crate::{Digest, Timestamp};

impl Run {
    /// Marks the invocations that were open when the process died: they may have taken effect.
    pub(super) fn interrupted(&mut self) {
        let open = std::mem::take(&mut self.index.open);
        for position in open.into_values() {
            self.change(position, |state| {
                state.open_invocation = None;
                state.open_audit = None;
                state.open_subagents.clear();
                state.invoked = Usage::default();
                state.uncertain = true;
            });
        }
        // Repeated work reports its usage itself.
        for position in self.index.at_work.clone() {
            self.change(position, |state| state.invoked = Usage::default());
        }
    }

    pub(super) fn put_on_hold(
        &mut self,
        held: &HoldRequest,
        shown: Digest,
        ts: Timestamp,
    ) -> Result<(), String> {
        if held.number != self.holds.saturating_add(1) {
            return Err(format!("hold {} is not the next one", held.number));
        }
        let position = self.phase_index(&held.phase)?;
        // In a run that was just rolled back, the phases to be judged again have no work in progress.
        let idle = self.index.at_work.is_empty()
            || held.trigger == Trigger::RolledBack
            // Nothing drives a session: its client goes on.
            || self.plan().is_some_and(Plan::is_session);
        if held.trigger == Trigger::RestartRequested {
            self.interrupted();
        } else if !idle {
            return Err("work is still in progress".to_owned());
        }
        if !self.has_cause(position, held) {
            return Err(format!("phase `{}` has no cause for this hold", held.phase));
        }
        self.holds = held.number;
        // The workspace as it was when the run stopped, including interrupted work.
        self.set_change(held.change.as_ref());
        let excluded = self.excluded(held);
        self.hold = Some(Hold { excluded, ..Hold::new(held.clone(), shown, ts, Vec::new()) });
        Ok(())
    }

    /// Who started the run cannot be one of several who approve, unless the loop says so: by a setting, or by
    /// naming its reviewers.
    fn excluded(&self, held: &HoldRequest) -> Option<String> {
        let plan = self.plan()?;
        let is_excluded =
            held.approvals > 1 && held.reviewers.is_empty() && !plan.hold.starter_counts;
        is_excluded.then(|| self.started.as_ref().map(|started| started.by.clone()))?
    }

    /// Withdraws a person's answer. Once the run was resumed it is too late.
    pub(super) fn revoke(&mut self, revoked: &Revocation) -> Result<(), String> {
        let is_signed = revoked.is_signed(&self.head);
        let hold = self.hold.as_mut().ok_or("the run is not on hold")?;
        if revoked.shown != hold.shown {
            return Err("the withdrawal refers to another hold".to_owned());
        }
        if !is_signed {
            return Err("the signature of the withdrawal is not valid".to_owned());
        }
        let before = hold.votes.clone();
        hold.votes.retain(|(vote, _)| vote.by.key != revoked.by.key);
        if hold.votes.len() == before.len() {
            return Err("the person has not answered".to_owned());
        }
        hold.before_revocation = before;
        Ok(())
    }

    /// Whether the phase has a cause for a hold with this trigger and these numbers of answers.
    fn has_cause(&self, position: usize, held: &HoldRequest) -> bool {
        let Some((phase, state)) = self.phase(position) else { return false };
        let running = state.status == PhaseStatus::Running && state.pending_verdict.is_none();
        let waiting = state.waiting.as_ref().map(|waiting| waiting.waits_for);
        let mut approvals = self.plan().map_or(1, |plan| plan.hold.approvals);
        let mut rejections = 1;
        let cause = match held.trigger {
            Trigger::RestartRequested => true,
            Trigger::RolledBack => self.paused,
            Trigger::SetupFailed => self.setup.failure.is_some(),
            // The branch of a session is the person's own; only its close knows of a conflict.
            Trigger::MergeConflict => {
                let is_session = self.plan().is_some_and(Plan::is_session);
                running && (state.branch.conflict.is_some() || is_session)
            }
            Trigger::ConsensusRequested => {
                let asked = self.ask_reviewers(position, phase, state);
                (approvals, rejections) = (asked.approvals, asked.rejections);
                running
                    && matches!(phase.doer, Doer::Consensus { .. })
                    && self.index.stops.contains(&position)
                    && asked.reviewers == held.reviewers
            }
            Trigger::BudgetExhausted => {
                let waits_for = held.resource.map(|resource| WaitsFor::Budget { resource });
                held.resource.is_some_and(|resource| self.limit(resource).is_some())
                    && (self.index.stops.is_empty() || (running && waits_for == waiting))
            }
            Trigger::CallApproval => {
                let waits_for = held.call.map(|call| WaitsFor::Call { call });
                running && waits_for.is_some() && waits_for == waiting
            }
            Trigger::AgentUnavailable => {
                approvals = 1;
                running && matches!(waiting, Some(WaitsFor::Agent { .. }))
            }
            Trigger::PersonRequested => match &phase.doer {
                Doer::Person { approvals: people, .. } => {
                    approvals = *people;
                    running && state.stage == AttemptStage::Work
                }
                Doer::Agent { .. }
                | Doer::Builtin { .. }
                | Doer::Command { .. }
                | Doer::Consensus { .. } => false,
            },
            Trigger::UncertainEffect => running && needs_confirmation(phase, state),
            Trigger::EscalationRequested | Trigger::WaiverRequested => {
                let Some(pending) = &state.pending_verdict else { return false };
                let effect = Self::effect(phase, pending);
                match effect.map(|effect| self.resolved(position, pending.judged_by, effect)) {
                    Some(Effect::Hold { approvals: people, trigger }) => {
                        approvals = people.unwrap_or(approvals);
                        *trigger == held.trigger
                            && held.source == Some(Self::source_name(phase, pending.judged_by))
                    }
                    Some(
                        Effect::Block
                        | Effect::Continue
                        | Effect::Intervene { .. }
                        | Effect::Redo { .. }
                        | Effect::Stop { .. },
                    )
                    | None => false,
                }
            }
        };
        cause && held.approvals == approvals && held.rejections == rejections
    }

    /// Applies the answers to a hold.
    pub(super) fn resume(&mut self) -> Result<(), String> {
        let hold = self.hold.take().ok_or("the run is not on hold")?;
        let held = &hold.held;
        let decision = match hold.resolution() {
            // Whether an agent can be reached is not for a person to decide.
            Resolution::Open if held.trigger == Trigger::AgentUnavailable => VoteDecision::Approved,
            Resolution::Open => return Err("the hold has not been answered".to_owned()),
            Resolution::Approved => VoteDecision::Approved,
            Resolution::Rejected if hold.is_sent_back() => return self.redo(&hold),
            Resolution::Rejected if self.rejection_is_a_verdict(held) => VoteDecision::Rejected,
            Resolution::Rejected => return Err("the hold was rejected".to_owned()),
        };
        let position = self.phase_index(&held.phase)?;
        if decision == VoteDecision::Approved && held.trigger != Trigger::AgentUnavailable {
            self.set_reviewed(held.change.as_ref());
        }
        match held.trigger {
            Trigger::BudgetExhausted => {
                if let Some(resource) = held.resource {
                    self.grant(position, resource);
                }
                self.change(position, |state| state.waiting = None);
            }
            Trigger::PersonRequested => {
                self.person_answered(position, &hold, decision);
                self.finish_attempt(position);
            }
            Trigger::ConsensusRequested => {
                let votes: Vec<_> = hold.votes.iter().map(|(vote, _)| vote.clone()).collect();
                self.reviewers_answered(position, &votes);
                self.finish_attempt(position);
            }
            Trigger::MergeConflict => self.conflict_resolved(position),
            Trigger::RolledBack => self.paused = false,
            Trigger::AgentUnavailable => self.change(position, |state| state.waiting = None),
            // The call is made before the work goes on.
            Trigger::CallApproval => self.change(position, |state| {
                state.waiting = None;
                state.interrupted = true;
            }),
            Trigger::SetupFailed => self.repeat_setup(),
            // A hold with another cause follows by itself.
            Trigger::RestartRequested => {}
            Trigger::UncertainEffect => self.change(position, |state| {
                state.uncertain = false;
                state.interrupted = true;
            }),
            Trigger::EscalationRequested | Trigger::WaiverRequested => {
                let pending =
                    self.phases.get(position).and_then(|state| state.pending_verdict.as_ref());
                match pending.map(|pending| pending.judged_by) {
                    // A failed attempt is repeated; a judged one passes.
                    Some(JudgedBy::Failure) => self.reset(position),
                    Some(source) => self.pass(position, source),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Grants the planned amount of a resource once more, in addition to the used amount.
    fn grant(&mut self, position: usize, resource: BudgetedResource) {
        let Some(limit) = self.limit(resource) else { return };
        let planned = self.plan().and_then(|plan| plan.budget.limit(resource)).unwrap_or_default();
        let used = match resource {
            BudgetedResource::Attempts => {
                self.phases.get(position).map_or(0, |state| u64::from(state.attempt))
            }
            BudgetedResource::ChangedLines
            | BudgetedResource::CostMicros
            | BudgetedResource::Tokens
            | BudgetedResource::WallMs => self.used(resource),
        };
        self.granted.insert(resource, limit.max(used).saturating_add(planned));
        self.warned.remove(&resource);
    }

    fn person_answered(&mut self, position: usize, hold: &Hold, decision: VoteDecision) {
        let people: Vec<Value> = hold
            .votes
            .iter()
            .map(|(vote, ts)| json!({"by": vote.by.name, "at": ts, "reason": vote.reason}))
            .collect();
        let verdict = match decision {
            VoteDecision::Approved => APPROVED,
            VoteDecision::Rejected => REJECTED,
        };
        let reasons: Vec<&str> = hold.votes.iter().map(|(vote, _)| vote.reason.as_str()).collect();
        let reason = reasons.join("; ");
        let answer =
            json!({"verdict": verdict, "reason": reason, "findings": [reason], "people": people});
        self.end_work(position, PhaseResult { answer, summary: reason, ..PhaseResult::default() });
    }

    /// Whether a run whose hold was rejected goes on: people sent it back, or its loop says what follows.
    #[must_use]
    pub fn continues_after_rejection(&self, hold: &Hold) -> bool {
        hold.is_sent_back() || self.rejection_is_a_verdict(&hold.held)
    }

    /// Whether the loop declares an effect for a rejection, so that the run can continue after it.
    #[must_use]
    pub fn rejection_is_a_verdict(&self, held: &HoldRequest) -> bool {
        matches!(held.trigger, Trigger::PersonRequested | Trigger::ConsensusRequested)
            && self
                .position(&held.phase)
                .and_then(|position| self.phase(position))
                .and_then(|(phase, _)| phase.gate.as_ref())
                .is_some_and(|gate| gate.verdicts.contains_key(REJECTED))
    }

    /// When the run goes on by itself: it waits for an agent that could not be reached, and the time of the next
    /// try is known.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let hold = self.hold.as_ref().filter(|hold| hold.resolution() != Resolution::Rejected)?;
        let (_, state) = self.phase(self.position(&hold.held.phase)?)?;
        match state.waiting.as_ref()?.waits_for {
            WaitsFor::Agent { until } if state.unavailable <= self.plan()?.hold.retries => until,
            WaitsFor::Agent { .. } | WaitsFor::Budget { .. } | WaitsFor::Call { .. } => None,
        }
    }
}
