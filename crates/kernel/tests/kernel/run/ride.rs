//! One random run of one random plan, checked by the model.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_kernel::run::plan::{Plan, Trigger};
use windlass_kernel::run::{
    Event, InvocationResult, Next, PhaseResult, Resolution, Usage, VoteDecision, WaitsFor, Work,
};
use windlass_kernel::{Digest, State, TraceId};
use windlass_testkit::people;

use crate::run::harness::{Lab, changed, done, ended, failure, id, invoke, started};
use crate::run::keeping::reviewer_name;
use crate::run::model::Model;
use crate::run::random::Choices;

pub struct Ride {
    pub lab: Lab,
    model: Model,
    choices: Choices,
    under_way: BTreeSet<Work>,
    rollbacks: usize,
}

impl Ride {
    pub fn new(plan: Plan, oracle: &[u8]) -> Self {
        let choices = Choices::new(oracle);
        let mut ride = Self {
            lab: Lab::empty(),
            model: Model::default(),
            choices,
            under_way: BTreeSet::new(),
            rollbacks: 0,
        };
        ride.record(started(plan));
        ride
    }

    fn record(&mut self, event: Event) {
        self.record_only(event);
        if let Some(checkpoint) = self.lab.due_checkpoint() {
            self.record_only(checkpoint);
        }
    }

    fn record_only(&mut self, event: Event) {
        let before = self.lab.run.clone();
        self.lab.record_only(event.clone());
        self.model.watch(&before, &event, &self.lab);
    }

    /// Working time passes.
    fn work(&mut self) {
        let ms = 100 * (1 + self.choices.pick(20));
        self.lab.now += i64::try_from(ms).unwrap();
        self.model.wall_ms += u64::try_from(ms).unwrap();
    }

    /// Time passes that is not working time.
    fn idle(&mut self) {
        self.lab.now += 10_000_000;
    }

    pub fn run(&mut self, events_max: usize) {
        while self.lab.events.len() <= events_max * (1 + self.rollbacks) {
            let next = self.lab.run.next();
            assert_eq!(next, self.lab.run.next());
            // The process may die at any point.
            if self.choices.chance(24) {
                self.die();
                continue;
            }
            // A person may roll back the run at any point.
            let back = if next == Next::Done { 3 } else { 48 };
            if self.choices.chance(back) && self.roll_back() {
                continue;
            }
            if self.lab.run.head.state == Some(State::Resumed) && self.choices.chance(64) {
                self.record(ended("POLICY_CHANGED_MID_RUN"));
                continue;
            }
            match next {
                Next::Nothing => panic!("nothing was recorded"),
                Next::Record(event) => {
                    if matches!(
                        *event,
                        Event::Held(_) | Event::SentBack { .. } | Event::Ended { .. }
                    ) {
                        let told = self.lab.told();
                        assert!(self.under_way.is_empty(), "{event:?} while at work: {told:#?}");
                    }
                    self.record(*event);
                }
                Next::Perform(works) => self.perform(&works),
                Next::Wait => self.answer(),
                Next::Done => return,
            }
        }
        panic!("it does not end: {:#?}\n{:#?}", self.lab.run.plan(), self.lab.told());
    }

    fn die(&mut self) {
        self.under_way.clear();
        self.idle();
        if self.lab.run.head.state != Some(State::Running) {
            return;
        }
        if self.choices.chance(3) && self.lab.run.pending_rollback().is_none() {
            self.model.died();
            self.record(self.lab.run.restart_hold());
        } else {
            self.record(Event::Restarted { by: "ann".into() });
        }
    }

    /// All requested work is in progress; one piece of it ends or makes a step.
    fn perform(&mut self, works: &[Work]) {
        let asked: BTreeSet<Work> = works.iter().copied().collect();
        assert_eq!(asked.len(), works.len(), "asked for twice");
        assert!(asked.is_superset(&self.under_way), "work under way was forgotten");
        // A merge is made by whoever asks what is next, and waits while a phase writes in the workspace.
        let is_begun = |work: &Work| !matches!(work, Work::Merge { .. });
        self.under_way = asked.into_iter().filter(is_begun).collect();
        let work = works[self.choices.pick(works.len())];
        let (at, attempt, check) = match work {
            Work::Check { phase, check, attempt } => (phase, attempt, Some(check)),
            Work::Do { phase, attempt } => (phase, attempt, None),
            Work::Review { phase, attempt, .. } => (phase, attempt, None),
            Work::Merge { phase, .. } => return self.merge(work, phase),
            Work::Restore => return self.restore(),
            Work::Setup => unreachable!("no plan of these tests has a setup"),
        };
        let (phase, state) = self.lab.run.phase(at).unwrap();
        let (name, open) = (phase.id.clone(), state.open_invocation);
        let judge = match check {
            Some(check) => Some(&phase.checks[check].verdicts),
            None => phase.gate.as_ref().map(|gate| &gate.verdicts),
        };
        let known: Vec<String> = judge.into_iter().flat_map(|all| all.keys().cloned()).collect();
        let check = check.map(|check| phase.checks[check].id.clone());
        self.work();
        match (open, self.choices.pick(4)) {
            (None, 1 | 2) if !self.choices.is_spent() => {
                return self.record(invoke(&self.lab, &name, attempt));
            }
            (Some(invocation), _) => {
                let (result, usage) = (InvocationResult::Success, self.usage());
                let note = String::new();
                let duration_ms = 1;
                return self.record(Event::InvocationEnded {
                    invocation,
                    result,
                    usage,
                    duration_ms,
                    note,
                });
            }
            (None, _) => {}
        }
        self.under_way.remove(&work);
        if self.choices.chance(12) {
            let waits_for = match self.choices.chance(2) {
                true => WaitsFor::Call { call: TraceId(id(77)) },
                false => WaitsFor::Agent { until: None },
            };
            return self.record(Event::Waiting {
                phase: name,
                attempt,
                change: None,
                evidence: serde_json::Value::Null,
                question: "q".into(),
                waits_for,
            });
        }
        if let Work::Review { phase, reviewer, .. } = work {
            return self.review(phase, reviewer);
        }
        let verdict = match self.choices.pick(40) {
            39 => "nonsense".to_owned(),
            _ if known.is_empty() => String::new(),
            // The first one continues.
            _ => known[self.choices.pick(known.len())].clone(),
        };
        let usage = self.usage();
        let event = match check {
            Some(check) => Event::Checked {
                phase: name,
                attempt,
                check,
                verdict,
                reason: String::new(),
                findings: json!([]),
                usage,
                duration_ms: 1,
            },
            None => {
                let done = Box::new(self.done(&verdict, usage));
                Event::PhaseDone { phase: name, attempt, done }
            }
        };
        self.record(event);
    }

    /// Rolls back the run to any of its checkpoints, if it has any.
    fn roll_back(&mut self) -> bool {
        let count = self.lab.run.checkpoints.len();
        if count == 0 || self.lab.run.pending_rollback().is_some() {
            return false;
        }
        self.idle();
        self.under_way.clear();
        self.rollbacks += 1;
        let checkpoint = self.lab.run.checkpoints[self.choices.pick(count)].clone();
        let wish = self.lab.wish(&checkpoint, self.choices.chance(2));
        self.record(Event::RollbackBegun(Box::new(wish)));
        true
    }

    fn restore(&mut self) {
        self.under_way.clear();
        self.work();
        let lines = self.choices.pick(30);
        let change = self.choices.chance(2).then(|| changed(&format!("{lines}"), lines as u64));
        self.record(Event::RolledBack { change });
    }

    fn merge(&mut self, work: Work, at: usize) {
        self.work();
        let prepared = self.lab.run.phase(at).unwrap().1.branch.merging.is_some();
        if !prepared && !self.choices.chance(4) {
            return self.record(self.lab.merge_prepared(at));
        }
        self.under_way.remove(&work);
        let event = if prepared { self.lab.merged(at) } else { self.lab.conflicted(at) };
        self.record(event);
    }

    fn review(&mut self, at: usize, reviewer: usize) {
        let name = reviewer_name(&self.lab.run, at, reviewer);
        let verdict = ["approved", "approved_with_conditions", "rejected", "nonsense"];
        let verdict = verdict[self.choices.pick(4)];
        self.record(self.lab.review(at, &name, verdict));
    }

    fn usage(&mut self) -> Usage {
        Usage {
            cost_micros: self.choices.pick(16) as u64,
            input_tokens: self.choices.pick(16) as u64,
            output_tokens: self.choices.pick(4) as u64,
            unaccounted: self.choices.chance(128),
        }
    }

    fn done(&mut self, verdict: &str, usage: Usage) -> PhaseResult {
        let text = self.choices.pick(4);
        let mut done = match self.choices.pick(16) {
            15 => failure("timeout"),
            _ => done(json!({"verdict": verdict, "text": text})),
        };
        if self.choices.chance(4) {
            let lines = self.choices.pick(30);
            done.change = Some(changed(&format!("{lines}"), lines as u64));
        }
        if self.choices.chance(4) {
            done.facts.insert("f".into(), self.choices.pick(2).to_string());
        }
        done.usage = usage;
        done
    }

    fn answer(&mut self) {
        assert!(self.under_way.is_empty());
        self.idle();
        let hold = self.lab.run.hold.clone().unwrap();
        match hold.resolution() {
            Resolution::Open => {
                let decision = if self.choices.chance(20) {
                    VoteDecision::Rejected
                } else {
                    VoteDecision::Approved
                };
                let named = hold.held.reviewers.get(hold.votes.len());
                let by = named.cloned().unwrap_or_else(|| format!("person {}", hold.votes.len()));
                self.try_to_cheat(&by);
                self.record(self.lab.vote(&by, decision));
            }
            Resolution::Rejected if !self.lab.run.rejection_is_a_verdict(&hold.held) => {
                self.record(ended("checkpoint_rejected"));
            }
            Resolution::Approved | Resolution::Rejected => {
                assert!(self.lab.takes(&self.lab.vote("late", VoteDecision::Rejected)).is_err());
                self.record(Event::Resumed { by: "ann".into(), worked_ms: None });
            }
        }
    }

    fn try_to_cheat(&self, by: &str) {
        let hold = self.lab.run.hold.as_ref().unwrap();
        let vote = |by: &str, shown| {
            let approved = VoteDecision::Approved;
            Event::Voted(people::vote(&self.lab.run.head, by, approved, "", &[], shown))
        };
        assert!(self.lab.takes(&vote(by, Digest::of(b"something else"))).is_err());
        for (earlier, _) in &hold.votes {
            assert!(self.lab.takes(&vote(&earlier.by.name, hold.shown)).is_err());
        }
        // Only a run that waits for its agent goes on without an answer.
        let resumed = self.lab.takes(&Event::Resumed { by: by.to_owned(), worked_ms: None });
        assert_eq!(resumed.is_ok(), hold.held.trigger == Trigger::AgentUnavailable);
    }
}
