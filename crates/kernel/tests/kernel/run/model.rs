//! Invariants after every event of every run, checked without the index of the run itself.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::CheckpointId;
use windlass_kernel::run::plan::{
    BudgetedResource, CheckTiming, Concurrency, Effect, PhaseCondition, Plan, RunOutcome, Trigger,
};
use windlass_kernel::run::{
    AttemptStage, Event, HoldRequest, PhaseStatus, Run, Usage, VoteDecision,
};

use crate::run::harness::Lab;
use crate::run::history::{History, tallied};
use crate::run::random::max_to;

/// The model of a run, built from its events.
#[derive(Default)]
pub struct Model {
    /// The working time according to the clock of the test.
    pub wall_ms: u64,
    tokens: u64,
    cost: u64,
    invoked: BTreeMap<u64, (String, Usage)>,
    grants: u64,
    hold: Option<(HoldRequest, BTreeSet<String>, bool)>,
    /// The checks and gates that an attempt has passed.
    passed: BTreeSet<(String, u32, String)>,
    approved: BTreeSet<(String, u32)>,
    back: BTreeMap<(String, String, String), u32>,
    invocation_of: BTreeMap<u64, String>,
    history: History,
    /// The number of times that each check or gate had sent the run back, at each checkpoint.
    backs: BTreeMap<CheckpointId, BTreeMap<(String, String, String), u32>>,
}

pub const fn settled(status: PhaseStatus) -> bool {
    matches!(status, PhaseStatus::Complete | PhaseStatus::Skipped)
}

impl Model {
    /// Applies one event and asserts the invariants before and after it.
    pub fn watch(&mut self, before: &Run, event: &Event, lab: &Lab) {
        let plan = lab.run.plan().unwrap().clone();
        let back = matches!(event, Event::RollbackBegun(_));
        assert!(before.ended.is_none() || back, "something follows the end");
        self.history.watch(before, event, &lab.run);
        match event {
            Event::PhaseStarted { phase, attempt } => {
                self.started(before, &plan, phase, *attempt);
            }
            Event::PhaseSkipped { phase, .. } => {
                let (planned, _) = before.phase(before.position(phase).unwrap()).unwrap();
                assert_ne!(planned.when, PhaseCondition::Always, "{phase} was skipped");
            }
            Event::Checked { phase, attempt, check, verdict, usage, .. } => {
                self.used(phase, *usage);
                let (planned, _) = before.phase(before.position(phase).unwrap()).unwrap();
                let one = planned.checks.iter().find(|one| one.id == *check).unwrap();
                if one.verdicts.get(verdict) == Some(&Effect::Continue) {
                    self.passed.insert((phase.clone(), *attempt, format!("check {check}")));
                }
            }
            Event::InvocationStarted { phase, invocation, .. } => {
                self.invocation_of.insert(*invocation, phase.clone());
            }
            Event::InvocationEnded { invocation, usage, .. } => {
                let phase = self.invocation_of.remove(invocation).unwrap();
                self.invoked.insert(*invocation, (phase, *usage));
                self.tokens += usage.tokens();
                self.cost += usage.cost_micros;
            }
            Event::PhaseDone { phase, attempt, done } => {
                self.used(phase, done.usage);
                let (planned, _) = before.phase(before.position(phase).unwrap()).unwrap();
                assert!(
                    done.failure.is_some() || planned.gate.is_none() || done.answer.is_object()
                );
                let verdict = done.answer["verdict"].as_str().unwrap_or_default();
                let gate = planned.gate.as_ref();
                let ok =
                    gate.is_none_or(|gate| gate.verdicts.get(verdict) == Some(&Effect::Continue));
                if ok && done.failure.is_none() {
                    self.passed.insert((phase.clone(), *attempt, "gate".into()));
                }
            }
            Event::Reviewed { phase, attempt, usage, .. } => {
                self.used(phase, *usage);
                self.agreed(&lab.run, phase, *attempt);
            }
            Event::Checkpointed(checkpoint) => {
                self.backs.insert(checkpoint.id, self.back.clone());
            }
            Event::RollbackBegun(_) => {
                self.died();
                self.hold = None;
            }
            Event::RolledBack { .. } => {
                self.back = self.backs[&before.pending_rollback().unwrap().checkpoint].clone();
                self.taken_back(&lab.run);
            }
            Event::Waiting { phase, .. } => self.used(phase, Usage::default()),
            Event::SentBack { phase, source, to, count: told, .. } => {
                let all = self.back.iter().filter(|((of, by, _), _)| of == phase && by == source);
                let all: u32 = all.map(|(_, count)| count).sum();
                assert!(*told <= all + 1, "{phase}/{source} has not sent back {told} times");
                let key = (phase.clone(), source.clone(), to.clone());
                let count = self.back.entry(key).or_default();
                *count += 1;
                let (planned, _) = before.phase(before.position(phase).unwrap()).unwrap();
                let gate = planned.gate.iter().map(|gate| (&gate.id, &gate.verdicts));
                let checks = planned.checks.iter().map(|one| (&one.id, &one.verdicts));
                // A gate and a check with the same name are different; a failure counts for the gate.
                let max: u32 = gate
                    .chain(checks)
                    .filter(|(id, _)| *id == source || source == "failed")
                    .map(|(_, all)| max_to(all, to))
                    .sum();
                assert!(*count <= max, "{phase} sent back {count} times");
            }
            Event::Held(held) => self.hold = Some(((**held).clone(), BTreeSet::new(), false)),
            Event::Revoked(revoked) => {
                let (_, people, over) = self.hold.as_mut().unwrap();
                assert!(people.remove(&revoked.by.name), "only an answer is withdrawn");
                *over = false;
            }
            Event::Voted(vote) => {
                let (held, people, over) = self.hold.as_mut().unwrap();
                assert!(!*over, "a hold is answered once");
                assert!(people.insert(vote.by.name.clone()), "one person voted twice");
                let votes = &lab.run.hold.as_ref().unwrap().votes;
                let said = |what| votes.iter().filter(move |(one, _)| one.decision == what);
                *over = said(VoteDecision::Rejected).count() as u32 >= held.rejections
                    || said(VoteDecision::Approved).count() as u32 >= held.approvals;
            }
            Event::Resumed { .. } => self.resumed(before, &lab.run),
            Event::Restarted { .. } => self.died(),
            Event::Ended { outcome, .. } => {
                if *outcome == RunOutcome::Pass {
                    assert!(before.phases.iter().all(|state| settled(state.status)));
                    assert!(self.hold.is_none());
                }
            }
            Event::Started(_)
            | Event::Begun {}
            | Event::Warned { .. }
            | Event::Continued {}
            | Event::CommitPrepared { .. }
            | Event::MergePrepared { .. }
            | Event::Merged { .. }
            | Event::Conflicted { .. }
            | Event::Setup(_)
            | Event::Integration(_)
            | Event::Noted { .. } => {}
        }
        self.always(before, &plan, lab, matches!(event, Event::RolledBack { .. }));
    }

    /// The process has died: usage of invocations does not count for repeated work.
    pub fn died(&mut self) {
        self.invoked.clear();
        self.invocation_of.clear();
    }

    fn used(&mut self, phase: &str, usage: Usage) {
        let mut invoked = Usage::default();
        self.invoked.retain(|_, (of, used)| {
            if of == phase {
                invoked = invoked.plus(*used);
            }
            of != phase
        });
        self.tokens += usage.input_tokens.saturating_sub(invoked.input_tokens)
            + usage.output_tokens.saturating_sub(invoked.output_tokens);
        self.cost += usage.cost_micros.saturating_sub(invoked.cost_micros);
    }

    fn started(&self, before: &Run, plan: &Plan, phase: &str, attempt: u32) {
        let at = before.position(phase).unwrap();
        let planned = &plan.phases[at];
        for need in &planned.needs {
            let state = &before.phases[before.position(need).unwrap()];
            assert!(settled(state.status), "{phase} began before {need}");
        }
        assert_eq!(before.phases[at].status, PhaseStatus::Pending);
        assert_eq!(before.phases[at].attempt + 1, attempt);
        if let Some(limit) = plan.budget.attempts {
            assert!(u64::from(attempt) <= limit * (1 + self.grants), "{phase} was tried too often");
        }
        if plan.concurrency == Concurrency::Serial {
            let running = |status| status == PhaseStatus::Running || status == PhaseStatus::Failed;
            assert!(!before.phases.iter().any(|state| running(state.status)));
        }
    }

    /// The result of the reviews is the verdict of their phase.
    fn agreed(&mut self, run: &Run, phase: &str, attempt: u32) {
        let (planned, state) = run.phase(run.position(phase).unwrap()).unwrap();
        let verdict = tallied(planned, &state.reviews);
        assert_eq!(verdict.is_some(), state.done.is_some(), "{:?}", state.reviews);
        let Some(verdict) = verdict else { return };
        assert_eq!(state.done.as_ref().unwrap().answer["verdict"], verdict);
        if planned.gate.as_ref().unwrap().verdicts.get(verdict) == Some(&Effect::Continue) {
            self.passed.insert((phase.to_owned(), attempt, "gate".into()));
        }
    }

    /// Phases judged before the checkpoint are not judged again; a phase that had just ended is.
    fn taken_back(&mut self, run: &Run) {
        for (phase, state) in run.all_phases() {
            let Some(done) = state.done.as_ref().filter(|_| state.status == PhaseStatus::Running)
            else {
                continue;
            };
            let verdict = done.answer["verdict"].as_str().unwrap_or_default();
            let gate = phase.gate.as_ref();
            if gate.is_none_or(|gate| gate.verdicts.get(verdict) == Some(&Effect::Continue)) {
                self.passed.insert((phase.id.clone(), state.attempt, "gate".into()));
            }
            assert!(!matches!(state.stage, AttemptStage::Before(_) | AttemptStage::Work));
            for check in phase.checks.iter().filter(|check| check.at == CheckTiming::Before) {
                let check = format!("check {}", check.id);
                self.passed.insert((phase.id.clone(), state.attempt, check));
            }
        }
    }

    fn resumed(&mut self, before: &Run, after: &Run) {
        let (held, people, over) = self.hold.take().unwrap();
        let waits_for_agent = held.trigger == Trigger::AgentUnavailable;
        assert!(over || waits_for_agent, "taken up before it was answered");
        let at = before.position(&held.phase).unwrap();
        let attempt = before.phases[at].attempt;
        let phase = held.phase.clone();
        match held.trigger {
            Trigger::BudgetExhausted if held.resource == Some(BudgetedResource::Attempts) => {
                self.grants += 1
            }
            Trigger::PersonRequested => {
                let rejected = before.hold.as_ref().unwrap().votes.iter();
                let mut rejected =
                    rejected.filter(|(vote, _)| vote.decision == VoteDecision::Rejected);
                let verdict = if rejected.next().is_some() { "rejected" } else { "approved" };
                assert!(verdict == "rejected" || people.len() as u32 == held.approvals);
                let (planned, _) = before.phase(at).unwrap();
                let gate = planned.gate.as_ref();
                let ok = gate.map_or(verdict == "approved", |gate| {
                    gate.verdicts.get(verdict) == Some(&Effect::Continue)
                });
                if ok {
                    self.passed.insert((phase, attempt, "gate".into()));
                }
            }
            Trigger::EscalationRequested | Trigger::WaiverRequested => {
                // A person approved despite the verdict.
                self.approved.insert((phase, attempt));
            }
            Trigger::ConsensusRequested => self.agreed(after, &phase, attempt),
            Trigger::AgentUnavailable
            | Trigger::BudgetExhausted
            | Trigger::CallApproval
            | Trigger::MergeConflict
            | Trigger::RolledBack
            | Trigger::SetupFailed
            | Trigger::RestartRequested
            | Trigger::UncertainEffect => {}
        }
    }

    fn always(&self, before: &Run, plan: &Plan, lab: &Lab, restored: bool) {
        let run = &lab.run;
        let scratch = lab.refolded();
        assert_eq!(&scratch, run, "the fold of the whole differs");
        assert_eq!(scratch.next(), run.next(), "what comes next is not a function of the record");
        assert_eq!(run.spent.wall_ms, self.wall_ms, "{:#?}", lab.told());
        assert_eq!((run.spent.tokens, run.spent.cost_micros), (self.tokens, self.cost));
        if plan.concurrency == Concurrency::Serial {
            let running = run.phases.iter().filter(|state| state.status == PhaseStatus::Running);
            assert!(running.count() <= 1, "two phases run at once");
        }
        if restored {
            return;
        }
        for ((phase, state), old) in run.all_phases().zip(&before.phases) {
            if state.status != PhaseStatus::Complete || old.status == PhaseStatus::Complete {
                continue;
            }
            let approved = self.approved.contains(&(phase.id.clone(), state.attempt));
            let has = |what: String| {
                self.passed.contains(&(phase.id.clone(), state.attempt, what)) || approved
            };
            assert!(has("gate".into()), "{} is complete unjudged", phase.id);
            for check in &phase.checks {
                assert!(has(format!("check {}", check.id)), "{} of {}", check.id, phase.id);
            }
        }
    }
}
