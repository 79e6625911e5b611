//! What comes next, from the recorded state alone.

use serde_json::{Value, json};

use super::consensus::next_agent;
use super::event::Event;
use super::index::needs_confirmation;
use super::payload::Held;
use super::plan::{
    BudgetedResource, Concurrency, Doer, Phase, PhaseCondition, RunOutcome, Trigger,
};
use super::state::{AttemptStage, PhaseState, PhaseStatus, Run};
use crate::{State, Timestamp};

/// What the recorded state asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing is recorded yet.
    Nothing,
    /// Record this; nothing outside happens.
    Record(Box<Event>),
    /// Do all of these, each once, and record what came of each.
    Perform(Vec<Work>),
    /// A person must answer, or the answer must be taken up.
    Wait,
    /// Nothing more: the run has ended.
    Done,
}

/// Something to be done outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Make a check.
    Check {
        /// The phase, by its place in the plan.
        phase: usize,
        /// The check, by its place in the phase.
        check: usize,
        /// The try.
        attempt: u32,
    },
    /// Have an agent review what is to be agreed on.
    Review {
        /// The phase, by its place in the plan.
        phase: usize,
        /// The agent, by its place among the reviewers.
        reviewer: usize,
        /// The try.
        attempt: u32,
    },
    /// Make a phase's own work tree part of the workspace.
    Merge {
        /// The phase, by its place in the plan.
        phase: usize,
        /// The try.
        attempt: u32,
    },
    /// Bring the workspace back to where a rollback leads.
    Restore,
    /// Do the phase's work.
    Do {
        /// The phase, by its place in the plan.
        phase: usize,
        /// The try.
        attempt: u32,
    },
}

/// Four fifths.
const WARN_TENTHS: u64 = 8;

impl Run {
    /// Says what comes next.
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
            return record(self.rollback_hold());
        }
        let idle = self.index.at_work.is_empty();
        // What is under way is brought to its end before anything stops, goes back or is added.
        if let Some(event) = self.first_stop() {
            return if idle { record(event) } else { Next::Perform(self.works()) };
        }
        if let Some(event) = self.warning() {
            return record(event);
        }
        let parallel = self.plan().is_some_and(|plan| plan.concurrency == Concurrency::Parallel);
        if (idle || parallel)
            && let Some(event) = self.next_phase()
        {
            let stops = matches!(event, Event::Held(_) | Event::Ended { .. });
            return if stops && !idle { Next::Perform(self.works()) } else { record(event) };
        }
        if idle { record(self.end()) } else { Next::Perform(self.works()) }
    }

    /// What is to be done for the phases under way; merges one after the other.
    fn works(&self) -> Vec<Work> {
        let merge = self.next_merge();
        let of = |at: &usize| {
            let (planned, state) = self.phase(*at)?;
            let (phase, attempt) = (*at, state.attempt);
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

    /// What keeps the run from just going on, of the first phase that has something.
    fn first_stop(&self) -> Option<Event> {
        let at = *self.index.stops.first()?;
        let (phase, state) = self.phase(at)?;
        if let Some(judged) = &state.pending_verdict {
            return Some(self.effect_of(at, phase, judged));
        }
        Some(Event::Held(Box::new(self.stop_at(at, phase, state))))
    }

    fn stop_at(&self, at: usize, phase: &Phase, state: &PhaseState) -> HoldRequest {
        if let Some((call, question)) = &state.waiting {
            let mut held = self.held(at, Trigger::CallApproval, question.clone());
            held.call = Some(*call);
            return held;
        }
        if let Some(conflict) = &state.branch.conflict {
            return self.ask_to_merge(at, &phase.id, conflict);
        }
        match &phase.doer {
            Doer::Consensus { .. } if state.stage == AttemptStage::Work => {
                self.ask_reviewers(at, phase, state)
            }
            Doer::Person { approvals, question } if !needs_confirmation(phase, state) => {
                let mut held = self.held(at, Trigger::PersonRequested, question.clone());
                held.approvals = *approvals;
                held
            }
            Doer::Agent { .. }
            | Doer::Builtin { .. }
            | Doer::Command { .. }
            | Doer::Consensus { .. }
            | Doer::Person { .. } => {
                let question = format!(
                    "phase `{}` was interrupted and may have taken effect; approve to do it again",
                    phase.id
                );
                self.held(at, Trigger::UncertainEffect, question)
            }
        }
    }

    pub(super) fn held(&self, at: usize, trigger: Trigger, question: String) -> HoldRequest {
        let rule = self.plan().map(|plan| plan.hold).unwrap_or_default();
        let expires_at = rule.expires_ms.zip(self.last_at).and_then(|(after, last)| {
            let after = i64::try_from(after).ok()?;
            Timestamp::from_unix_ms(last.unix_ms().checked_add(after)?).ok()
        });
        HoldRequest {
            approvals: rule.approvals,
            call: None,
            change: self.change.clone(),
            checklist: Vec::new(),
            expires_at,
            evidence: Value::Null,
            number: self.holds.saturating_add(1),
            phase: self.phase(at).map(|(phase, _)| phase.id.clone()).unwrap_or_default(),
            source: None,
            question,
            rejections: 1,
            resource: None,
            reviewers: Vec::new(),
            step_index: u32::try_from(at).unwrap_or(u32::MAX),
            trigger,
        }
    }

    /// The hold of a run whose process died, for loops that leave it to a person.
    #[must_use]
    pub fn restart_hold(&self) -> Event {
        let unsettled = |state: &PhaseState| !state.settled();
        let running = self.phases.iter().position(|state| state.status == PhaseStatus::Running);
        let at = running.or_else(|| self.phases.iter().position(unsettled)).unwrap_or_default();
        let name = self.phase(at).map(|(phase, _)| phase.id.as_str()).unwrap_or_default();
        let question =
            format!("the run's process died at phase `{name}`; approve to go on from there");
        Event::Held(Box::new(self.held(at, Trigger::RestartRequested, question)))
    }

    /// The hold of a run that a person has taken back.
    fn rollback_hold(&self) -> Event {
        let checkpoint = self.checkpoints.last();
        let at = checkpoint.map_or(0, |checkpoint| checkpoint.phase);
        let name = self.phase(at).map(|(phase, _)| phase.id.as_str()).unwrap_or_default();
        let source = checkpoint
            .and_then(|checkpoint| checkpoint.parent)
            .and_then(|parent| self.checkpoint(parent));
        let to = source
            .map(|checkpoint| format!("{}_{name}_v{}", checkpoint.at.as_str(), checkpoint.version));
        let question = format!(
            "the run was taken back to {}; approve to go on from there",
            to.unwrap_or_else(|| name.to_owned())
        );
        Event::Held(Box::new(self.held(at, Trigger::RolledBack, question)))
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

    /// The budget that keeps a try of a phase from starting.
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

    /// The end of a run whose tokens are limited and were not counted.
    fn uncounted(&self) -> Option<Event> {
        let uncounted = self.spent.unaccounted && self.limit(BudgetedResource::Tokens).is_some();
        uncounted.then(|| {
            ended(
                RunOutcome::Blocked,
                "token_accounting_unavailable",
                "tokens are limited, and an invocation did not say how many it used".to_owned(),
            )
        })
    }

    /// What starts or skips the next phase that is ready.
    fn next_phase(&self) -> Option<Event> {
        let at = *self.index.ready.first()?;
        let (phase, state) = self.phase(at)?;
        if !self.is_wanted(phase, state) {
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
            return Some(self.out_of(at, resource, attempt));
        }
        Some(Event::PhaseStarted { phase: phase.id.clone(), attempt })
    }

    fn fact(&self, name: &str) -> String {
        self.facts.get(name).map_or_else(|| "not known".to_owned(), |value| format!("`{value}`"))
    }

    fn out_of(&self, at: usize, resource: BudgetedResource, attempt: u32) -> Event {
        let limit = self.limit(resource).unwrap_or_default();
        let used = match resource {
            BudgetedResource::Attempts => u64::from(attempt),
            BudgetedResource::ChangedLines
            | BudgetedResource::CostMicros
            | BudgetedResource::Tokens
            | BudgetedResource::WallMs => self.used(resource),
        };
        let question = format!(
            "the budget of {} is used up ({used} of {limit}); approve to grant as much again",
            resource.as_str()
        );
        let mut held = self.held(at, Trigger::BudgetExhausted, question);
        held.resource = Some(resource);
        held.evidence = json!({"used": used, "limit": limit});
        Event::Held(Box::new(held))
    }

    /// The end of a run in which nothing is left to do.
    fn end(&self) -> Event {
        if self.index.unsettled > 0 {
            let detail = "a phase is left that can never begin".to_owned();
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
        ]
        .iter()
        .find(|r| over(r))
        {
            Some(resource) => self.out_of(last, *resource, 0),
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
