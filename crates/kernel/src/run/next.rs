//! The next step of a run, derived from the recorded state alone.

use serde_json::{Value, json};

use super::checkpoint::{KeptEnd, checkpoint_name};
use super::consensus::next_agent;
use super::event::Event;
use super::index::needs_confirmation;
use super::payload::{HoldRequest, WaitsFor};
use super::plan::{
    BudgetedResource, Concurrency, Doer, Phase, PhaseCondition, RunOutcome, Trigger,
};
use super::state::{AttemptStage, PhaseState, PhaseStatus, Run, Waiting};
use crate::State;

/// The next step of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing is recorded yet.
    Nothing,
    /// Record this event; nothing is performed.
    Record(Box<Event>),
    /// Perform each of these once, and record the results.
    Perform(Vec<Work>),
    /// Wait for a person to answer the hold, or for the run to be resumed.
    Wait,
    /// The run has ended.
    Done,
}

/// Work to be performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Perform a check.
    Check {
        /// The index of the phase in the plan.
        phase: usize,
        /// The index of the check in the phase.
        check: usize,
        /// The attempt.
        attempt: u32,
    },
    /// Let an agent review in a consensus phase.
    Review {
        /// The index of the phase in the plan.
        phase: usize,
        /// The index of the agent among the reviewers.
        reviewer: usize,
        /// The attempt.
        attempt: u32,
    },
    /// Merge the separate work tree of a phase into the workspace.
    Merge {
        /// The index of the phase in the plan.
        phase: usize,
        /// The attempt.
        attempt: u32,
    },
    /// Restore the workspace for a rollback.
    Restore,
    /// Make the work tree of the run ready.
    Setup,
    /// Perform the work of the phase.
    Do {
        /// The index of the phase in the plan.
        phase: usize,
        /// The attempt.
        attempt: u32,
    },
}

/// The part of a budget, in tenths, after which a warning is recorded.
const WARN_TENTHS: u64 = 8;

impl Run {
    /// Returns the next step.
    #[must_use]
    pub fn next(&self) -> Next {
        match self.head.state {
            None => Next::Nothing,
            Some(State::Init) => record(Event::Begun {}),
            Some(State::Checkpoint) => Next::Wait,
            Some(State::Resumed) => record(Event::Continued {}),
            Some(State::Running) => self.next_of_running(),
            Some(
                State::Terminal
                | State::Granted
                | State::Withdrawn
                | State::Due
                | State::Settled
                | State::Pending
                | State::Authorized
                | State::Executing
                | State::Completed
                | State::Failed
                | State::Denied,
            ) => Next::Done,
        }
    }

    fn next_of_running(&self) -> Next {
        if self.rollback.is_some() {
            return Next::Perform(vec![Work::Restore]);
        }
        if self.paused {
            if let Some(KeptEnd { outcome, reason, detail }) = self.kept_end() {
                let (reason, detail) = (reason.clone(), detail.clone());
                return record(Event::Ended { outcome: *outcome, reason, detail });
            }
            return record(self.rollback_hold());
        }
        if let Some(next) = self.next_of_setup() {
            return next;
        }
        let idle = self.index.at_work.is_empty();
        // Work in progress is completed before the run goes on hold, goes back or ends.
        if let Some(event) = self.first_stop() {
            return if idle { record(event) } else { Next::Perform(self.pending_work()) };
        }
        if let Some(event) = self.warning() {
            return record(event);
        }
        let parallel = self.plan().is_some_and(|plan| plan.concurrency == Concurrency::Parallel);
        if (idle || parallel)
            && let Some(event) = self.next_phase()
        {
            let stops = matches!(event, Event::Held(_) | Event::Ended { .. });
            return if stops && !idle { Next::Perform(self.pending_work()) } else { record(event) };
        }
        if idle { record(self.end()) } else { Next::Perform(self.pending_work()) }
    }

    /// The work for the phases in progress; merges are performed one at a time.
    fn pending_work(&self) -> Vec<Work> {
        // Whoever writes in the workspace has read it: a merge would be written over.
        let merge = self.next_merge().filter(|_| !self.is_written_to());
        let of = |position: &usize| {
            let (planned, state) = self.phase(*position)?;
            let (phase, attempt) = (*position, state.attempt);
            if let Some(reviewer) = next_agent(planned, state) {
                return Some(Work::Review { phase, reviewer, attempt });
            }
            Some(match state.stage {
                AttemptStage::Merge if merge != Some(phase) => return None,
                AttemptStage::Merge => Work::Merge { phase, attempt },
                AttemptStage::Before(check) | AttemptStage::After(check) => {
                    Work::Check { phase, check, attempt }
                }
                AttemptStage::Work | AttemptStage::Gate => Work::Do { phase, attempt },
            })
        };
        self.index.at_work.iter().filter_map(of).collect()
    }

    /// Whether the work of a phase is in progress in the workspace of the run.
    fn is_written_to(&self) -> bool {
        self.index.at_work.iter().filter_map(|position| self.phase(*position)).any(
            |(phase, state)| {
                let works = match phase.doer {
                    Doer::Agent { .. } | Doer::Builtin { .. } | Doer::Command { .. } => true,
                    Doer::Person { .. } | Doer::Consensus { .. } => false,
                };
                works && !phase.branch && state.stage == AttemptStage::Work
            },
        )
    }

    /// The event of the first phase that stops the run, if there is one.
    fn first_stop(&self) -> Option<Event> {
        let position = *self.index.stops.first()?;
        let (phase, state) = self.phase(position)?;
        if let Some(pending) = &state.pending_verdict {
            return Some(self.effect_of(position, phase, pending));
        }
        Some(Event::Held(Box::new(self.hold_at(position, phase, state))))
    }

    fn hold_at(&self, position: usize, phase: &Phase, state: &PhaseState) -> HoldRequest {
        if let Some(Waiting { waits_for, evidence, question }) = &state.waiting {
            let (trigger, call) = match waits_for {
                WaitsFor::Call { call } => (Trigger::CallApproval, Some(*call)),
                WaitsFor::Agent { .. } => (Trigger::AgentUnavailable, None),
                WaitsFor::Budget { resource } => {
                    let mut held = self.budget_request(position, *resource, state.attempt);
                    if let Some(note) = evidence.get("note").and_then(Value::as_str) {
                        held.question = format!("{}; {note}", held.question);
                    }
                    return held;
                }
            };
            let mut held = self.held(position, trigger, question.clone());
            held.call = call;
            held.evidence = Value::clone(evidence);
            if trigger == Trigger::AgentUnavailable {
                // Nobody is late: the run waits for the agent, not for a person.
                held.approvals = 1;
                held.expires_at = None;
            }
            return held;
        }
        if let Some(conflict) = &state.branch.conflict {
            return self.ask_to_merge(position, &phase.id, conflict);
        }
        match &phase.doer {
            Doer::Consensus { .. } if state.stage == AttemptStage::Work => {
                self.ask_reviewers(position, phase, state)
            }
            Doer::Person { approvals, question } if !needs_confirmation(phase, state) => {
                let mut held = self.held(position, Trigger::PersonRequested, question.clone());
                held.approvals = *approvals;
                held
            }
            Doer::Agent { .. }
            | Doer::Builtin { .. }
            | Doer::Command { .. }
            | Doer::Consensus { .. }
            | Doer::Person { .. } => {
                let question = format!(
                    "phase `{}` was interrupted and may have taken effect; approve to repeat it",
                    phase.id
                );
                self.held(position, Trigger::UncertainEffect, question)
            }
        }
    }

    pub(super) fn held(&self, position: usize, trigger: Trigger, question: String) -> HoldRequest {
        let rule = self.plan().map(|plan| plan.hold).unwrap_or_default();
        HoldRequest {
            approvals: rule.approvals,
            call: None,
            change: self.change.clone(),
            checklist: Vec::new(),
            // Whoever records it knows better when it begins.
            expires_at: self.last_at.and_then(|last| rule.expires_at(last)),
            evidence: Value::Null,
            number: self.holds.saturating_add(1),
            phase: self.phase(position).map(|(phase, _)| phase.id.clone()).unwrap_or_default(),
            source: None,
            question,
            rejections: 1,
            resource: None,
            reviewers: Vec::new(),
            step_index: u32::try_from(position).unwrap_or(u32::MAX),
            trigger,
        }
    }

    /// The hold of a run whose process died, for loops in which a person decides on the restart.
    #[must_use]
    pub fn restart_hold(&self) -> Event {
        let unsettled = |state: &PhaseState| !state.settled();
        let running = self.phases.iter().position(|state| state.status == PhaseStatus::Running);
        let position =
            running.or_else(|| self.phases.iter().position(unsettled)).unwrap_or_default();
        let name = self.phase(position).map(|(phase, _)| phase.id.as_str()).unwrap_or_default();
        let question =
            format!("the run's process died at phase `{name}`; approve to continue from there");
        Event::Held(Box::new(self.held(position, Trigger::RestartRequested, question)))
    }

    /// The hold of a run that a person has rolled back.
    fn rollback_hold(&self) -> Event {
        let checkpoint = self.checkpoints.last();
        let position = checkpoint.map_or(0, |checkpoint| checkpoint.phase);
        let name = self.phase(position).map(|(phase, _)| phase.id.as_str()).unwrap_or_default();
        let source = checkpoint
            .and_then(|checkpoint| checkpoint.parent)
            .and_then(|parent| self.checkpoint(parent));
        let to = source.map(|checkpoint| checkpoint_name(checkpoint.at, name, checkpoint.version));
        let question = format!(
            "the run was rolled back to {}; approve to continue from there",
            to.unwrap_or_else(|| name.to_owned())
        );
        Event::Held(Box::new(self.held(position, Trigger::RolledBack, question)))
    }

    fn warning(&self) -> Option<Event> {
        BudgetedResource::ALL.into_iter().find_map(|resource| {
            let (used, limit) = (self.used(resource), self.limit(resource)?);
            let due = used.saturating_mul(10) >= limit.saturating_mul(WARN_TENTHS);
            (due && used > 0 && !self.warned.contains(&resource)).then_some(Event::Warned {
                resource,
                used,
                limit,
            })
        })
    }

    /// The exhausted budget that prevents an attempt, if there is one.
    fn exhausted(&self, attempt: u32) -> Option<BudgetedResource> {
        BudgetedResource::ALL.into_iter().find(|resource| {
            let Some(limit) = self.limit(*resource) else { return false };
            match resource {
                BudgetedResource::Attempts => u64::from(attempt) > limit,
                BudgetedResource::ChangedLines => self.used(*resource) > limit,
                BudgetedResource::CostMicros
                | BudgetedResource::Tokens
                | BudgetedResource::WallMs => self.used(*resource) >= limit,
            }
        })
    }

    /// The end of a run with a token limit whose tokens were not counted.
    fn uncounted(&self) -> Option<Event> {
        let uncounted = self.spent.unaccounted && self.limit(BudgetedResource::Tokens).is_some();
        uncounted.then(|| {
            ended(
                RunOutcome::Blocked,
                "token_accounting_unavailable",
                "the run has a token limit, and an invocation did not report how many tokens it used".to_owned(),
            )
        })
    }

    /// The event that starts or skips the next ready phase, or the hold or end that prevents it.
    fn next_phase(&self) -> Option<Event> {
        let position = *self.index.ready.first()?;
        let (phase, state) = self.phase(position)?;
        if !self.condition_is_met(phase, state) {
            let reason = match &phase.when {
                PhaseCondition::Fact { fact, .. } => format!("`{fact}` is {}", self.fact(fact)),
                PhaseCondition::Intervention => "no intervention is needed".to_owned(),
                PhaseCondition::Always => String::new(),
            };
            return Some(Event::PhaseSkipped { phase: phase.id.clone(), reason });
        }
        let attempt = state.attempt.saturating_add(1);
        if let Some(event) = self.uncounted() {
            return Some(event);
        }
        if let Some(resource) = self.exhausted(attempt) {
            return Some(self.budget_hold(position, resource, attempt));
        }
        Some(Event::PhaseStarted { phase: phase.id.clone(), attempt })
    }

    fn fact(&self, name: &str) -> String {
        self.facts.get(name).map_or_else(|| "not known".to_owned(), |value| format!("`{value}`"))
    }

    fn budget_hold(&self, position: usize, resource: BudgetedResource, attempt: u32) -> Event {
        Event::Held(Box::new(self.budget_request(position, resource, attempt)))
    }

    fn budget_request(
        &self,
        position: usize,
        resource: BudgetedResource,
        attempt: u32,
    ) -> HoldRequest {
        let limit = self.limit(resource).unwrap_or_default();
        let used = match resource {
            BudgetedResource::Attempts => u64::from(attempt),
            BudgetedResource::ChangedLines
            | BudgetedResource::CostMicros
            | BudgetedResource::Tokens
            | BudgetedResource::WallMs => self.used(resource),
        };
        let question = format!(
            "the budget of {} is exhausted ({used} of {limit}); approve to grant the same amount again",
            resource.as_str()
        );
        let mut held = self.held(position, Trigger::BudgetExhausted, question);
        held.resource = Some(resource);
        held.evidence = json!({"used": used, "limit": limit});
        held
    }

    /// The end of a run in which no phase is left.
    fn end(&self) -> Event {
        if self.index.unsettled > 0 {
            let detail = "a phase that is not settled can never start".to_owned();
            return ended(RunOutcome::Blocked, "critical_failure", detail);
        }
        if let Some(event) = self.uncounted() {
            return event;
        }
        let last = self.phases.len().saturating_sub(1);
        let over = |resource: &BudgetedResource| {
            self.limit(*resource).is_some_and(|limit| self.used(*resource) > limit)
        };
        match [
            BudgetedResource::ChangedLines,
            BudgetedResource::Tokens,
            BudgetedResource::CostMicros,
            BudgetedResource::WallMs,
        ]
        .iter()
        .find(|r| over(r))
        {
            Some(resource) => self.budget_hold(last, *resource, 0),
            None => ended(RunOutcome::Pass, "pass", String::new()),
        }
    }
}

pub(super) fn ended(outcome: RunOutcome, reason: &str, detail: String) -> Event {
    Event::Ended { outcome, reason: reason.to_owned(), detail }
}

fn record(event: Event) -> Next {
    Next::Record(Box::new(event))
}
