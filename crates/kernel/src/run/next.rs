//! What comes next, from the recorded state alone.

use serde_json::{Value, json};

use super::event::{Event, Held};
use super::plan::{Concurrency, Doer, Effect, Phase, Resource, RunOutcome, Trigger, When};
use super::state::{Judged, PhaseState, PhaseStatus, Run, Source, Stage};
use crate::{Digest, State, Timestamp, canon};

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
        let works = self.works();
        let stopping = self.first_stop();
        // What is under way is brought to its end before anything stops, goes back or is added.
        if let Some(event) = stopping {
            return if works.is_empty() { record(event) } else { Next::Perform(works) };
        }
        if let Some(event) = self.warning() {
            return record(event);
        }
        let parallel = self.plan().is_some_and(|plan| plan.concurrency == Concurrency::Parallel);
        if (works.is_empty() || parallel)
            && let Some(event) = self.next_phase()
        {
            let stops = matches!(event, Event::Held(_) | Event::Ended { .. });
            return if stops && !works.is_empty() { Next::Perform(works) } else { record(event) };
        }
        if works.is_empty() { record(self.end()) } else { Next::Perform(works) }
    }

    /// What is to be done for the phases under way.
    fn works(&self) -> Vec<Work> {
        let running = self.all_phases().enumerate().filter(|(_, (_, state))| {
            state.status == PhaseStatus::Running
                && state.judged.is_none()
                && state.waiting.is_none()
                && !state.uncertain
        });
        running
            .filter_map(|(at, (phase, state))| {
                let attempt = state.attempt;
                match state.stage {
                    Stage::Before(check) | Stage::After(check) => {
                        Some(Work::Check { phase: at, check, attempt })
                    }
                    Stage::Work => match phase.doer {
                        Doer::Person { .. } => None,
                        Doer::Agent { .. } | Doer::Builtin { .. } | Doer::Command { .. } => {
                            Some(Work::Do { phase: at, attempt })
                        }
                    },
                    Stage::Gate => None,
                }
            })
            .collect()
    }

    /// What keeps the run from just going on, of the first phase that has something.
    fn first_stop(&self) -> Option<Event> {
        self.all_phases()
            .enumerate()
            .find_map(|(at, (phase, state))| self.stop_at(at, phase, state))
    }

    fn stop_at(&self, at: usize, phase: &Phase, state: &PhaseState) -> Option<Event> {
        if let Some(judged) = &state.judged {
            return Some(self.effect_of(at, phase, judged));
        }
        if state.status != PhaseStatus::Running {
            return None;
        }
        if let Some((call, question)) = &state.waiting {
            let mut held = self.held(at, Trigger::CallApproval, question.clone());
            held.call = Some(*call);
            return Some(Event::Held(Box::new(held)));
        }
        match &phase.doer {
            Doer::Command { repeatable: false, .. } if state.uncertain => {
                let question = format!(
                    "phase `{}` was interrupted and may have taken effect; approve to do it again",
                    phase.id
                );
                Some(Event::Held(Box::new(self.held(at, Trigger::UncertainEffect, question))))
            }
            Doer::Person { approvals, question } if state.stage == Stage::Work => {
                let mut held = self.held(at, Trigger::PersonRequested, question.clone());
                held.approvals = *approvals;
                Some(Event::Held(Box::new(held)))
            }
            Doer::Agent { .. }
            | Doer::Builtin { .. }
            | Doer::Command { .. }
            | Doer::Person { .. } => None,
        }
    }

    fn effect_of(&self, at: usize, phase: &Phase, judged: &Judged) -> Event {
        match Self::effect(phase, judged) {
            Some(effect) => self.apply_effect(at, phase, judged, effect),
            None if judged.source == Source::Failure => self.block(phase, judged),
            // Only what the loop gave a meaning counts.
            None => ended(
                RunOutcome::Blocked,
                "unsupported_verdict",
                format!(
                    "`{}` of phase `{}` said `{}`, which is none of its verdicts",
                    Self::source_name(phase, judged.source),
                    phase.id,
                    judged.verdict
                ),
            ),
        }
    }

    fn apply_effect(&self, at: usize, phase: &Phase, judged: &Judged, effect: &Effect) -> Event {
        let source = Self::source_name(phase, judged.source);
        let sent = self.sent_back.get(&(at, source.clone())).map(Vec::as_slice).unwrap_or_default();
        let send_back = |to: &str, fingerprint| Event::SentBack {
            phase: phase.id.clone(),
            source: source.clone(),
            verdict: judged.verdict.clone(),
            to: to.to_owned(),
            count: u32::try_from(sent.len()).unwrap_or(u32::MAX).saturating_add(1),
            fingerprint,
        };
        match effect {
            // Letting it go on was applied with the verdict; a failure cannot be let go on.
            Effect::Continue | Effect::Block => self.block(phase, judged),
            Effect::Stop { outcome, reason } => ended(*outcome, reason, judged.reason.clone()),
            Effect::Hold { approvals, trigger } => {
                let question = if judged.reason.is_empty() {
                    format!("`{source}` of phase `{}` said `{}`", phase.id, judged.verdict)
                } else {
                    judged.reason.clone()
                };
                let mut held = self.held(at, *trigger, question);
                held.approvals = approvals.unwrap_or(held.approvals);
                held.source = Some(source.clone());
                held.evidence = json!({"verdict": judged.verdict, "findings": judged.findings, "sent_back": sent.len()});
                Event::Held(Box::new(held))
            }
            Effect::Intervene { phase: to, .. } if sent.is_empty() => send_back(to, None),
            Effect::Intervene { then, .. } => self.apply_effect(at, phase, judged, then),
            Effect::Redo { max, phase: to, then } => {
                if sent.len() >= usize::try_from(*max).unwrap_or(usize::MAX) {
                    return self.apply_effect(at, phase, judged, then);
                }
                let fingerprint = self.fingerprint(to);
                if let Some(event) = no_progress(sent, fingerprint, phase) {
                    return event;
                }
                send_back(to, fingerprint)
            }
        }
    }

    /// What the work looks like: the changed files, or, while nothing is changed, what was answered.
    fn fingerprint(&self, from: &str) -> Option<Digest> {
        match &self.change {
            Some(change) if !change.files.is_empty() => Some(change.diff_digest),
            _ => {
                let at = self.position(from)?;
                let done = self.phases.get(at)?.done.as_ref()?;
                canon::digest(&done.answer).ok()
            }
        }
    }

    fn block(&self, phase: &Phase, judged: &Judged) -> Event {
        let reason = match judged.source {
            Source::Failure => "mission_failed".to_owned(),
            Source::Gate | Source::Check(_) => {
                format!("{}_{}", Self::source_name(phase, judged.source), judged.verdict)
            }
        };
        let detail = if judged.reason.is_empty() {
            format!("phase `{}`: {}", phase.id, judged.verdict)
        } else {
            format!("phase `{}`: {}", phase.id, judged.reason)
        };
        ended(RunOutcome::Blocked, &reason, detail)
    }

    fn held(&self, at: usize, trigger: Trigger, question: String) -> Held {
        let rule = self.plan().map(|plan| plan.hold).unwrap_or_default();
        let expires_at = rule.expires_ms.zip(self.last_at).and_then(|(after, last)| {
            let after = i64::try_from(after).ok()?;
            Timestamp::from_unix_ms(last.unix_ms().checked_add(after)?).ok()
        });
        Held {
            approvals: rule.approvals,
            call: None,
            change: self.change.clone(),
            expires_at,
            evidence: Value::Null,
            number: self.holds + 1,
            phase: self.phase(at).map(|(phase, _)| phase.id.clone()).unwrap_or_default(),
            source: None,
            question,
            resource: None,
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

    fn warning(&self) -> Option<Event> {
        Resource::ALL.into_iter().find_map(|resource| {
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
    fn exhausted(&self, attempt: u32) -> Option<Resource> {
        Resource::ALL.into_iter().find(|resource| {
            let Some(limit) = self.limit(*resource) else { return false };
            match resource {
                Resource::Attempts => u64::from(attempt) > limit,
                Resource::ChangedLines => self.used(*resource) > limit,
                Resource::CostMicros | Resource::Tokens | Resource::WallMs => {
                    self.used(*resource) >= limit
                }
            }
        })
    }

    /// What starts or skips the next phase that is ready.
    fn next_phase(&self) -> Option<Event> {
        let (at, (phase, state)) = self
            .all_phases()
            .enumerate()
            .find(|(at, (_, state))| state.status == PhaseStatus::Pending && self.is_ready(*at))?;
        if !self.is_wanted(phase, state) {
            let reason = match &phase.when {
                When::Fact { fact, .. } => format!("`{fact}` is {}", self.fact(fact)),
                When::Intervention => "no intervention is needed".to_owned(),
                When::Always => String::new(),
            };
            return Some(Event::PhaseSkipped { phase: phase.id.clone(), reason });
        }
        let attempt = state.attempt + 1;
        if self.spent.unaccounted && self.limit(Resource::Tokens).is_some() {
            return Some(ended(
                RunOutcome::Blocked,
                "token_accounting_unavailable",
                "tokens are limited, and an invocation did not say how many it used".to_owned(),
            ));
        }
        if let Some(resource) = self.exhausted(attempt) {
            return Some(self.out_of(at, resource, attempt));
        }
        Some(Event::PhaseStarted { phase: phase.id.clone(), attempt })
    }

    fn fact(&self, name: &str) -> String {
        self.facts.get(name).map_or_else(|| "not known".to_owned(), |value| format!("`{value}`"))
    }

    fn is_wanted(&self, phase: &Phase, state: &PhaseState) -> bool {
        match &phase.when {
            When::Always => true,
            When::Fact { fact, one_of } => {
                self.facts.get(fact).is_some_and(|value| one_of.contains(value))
            }
            When::Intervention => state.forced,
        }
    }

    fn out_of(&self, at: usize, resource: Resource, attempt: u32) -> Event {
        let limit = self.limit(resource).unwrap_or_default();
        let used = match resource {
            Resource::Attempts => u64::from(attempt),
            Resource::ChangedLines | Resource::CostMicros | Resource::Tokens | Resource::WallMs => {
                self.used(resource)
            }
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
        let last = self.phases.len().saturating_sub(1);
        if let Some(resource) =
            [Resource::ChangedLines, Resource::Tokens, Resource::CostMicros].into_iter().find(
                |resource| self.limit(*resource).is_some_and(|limit| self.used(*resource) > limit),
            )
        {
            return self.out_of(last, resource, 0);
        }
        ended(RunOutcome::Pass, "pass", String::new())
    }
}

/// The end of a run whose redone work is what was sent back before.
fn no_progress(sent: &[Option<Digest>], now: Option<Digest>, phase: &Phase) -> Option<Event> {
    let now = now?;
    let detail = |what: &str| format!("phase `{}` sends back {what}", phase.id);
    match sent {
        [.., last] if *last == Some(now) => Some(ended(
            RunOutcome::Blocked,
            "no_progress",
            detail("the same work that it sent back before"),
        )),
        [.., before, _] if *before == Some(now) => Some(ended(
            RunOutcome::Blocked,
            "oscillation_detected",
            detail("work that alternates between two states"),
        )),
        _ => None,
    }
}

fn ended(outcome: RunOutcome, reason: &str, detail: String) -> Event {
    Event::Ended { outcome, reason: reason.to_owned(), detail }
}

fn record(event: Event) -> Next {
    Next::Record(Box::new(event))
}
