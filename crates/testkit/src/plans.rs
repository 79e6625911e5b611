//! Builders of plans, and of what a run records of its start and of its phases.
//!
//! Each makes the plainest value; a test changes what it is about.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_kernel::run::plan::{
    Budget, Check, CheckTiming, Concurrency, Doer, Effect, Gate, Governance, HoldRule, OnRestart,
    Phase, PhaseCondition, Plan, RunOutcome, Trigger,
};
use windlass_kernel::run::{Failure, PhaseResult, Started, Usage};
use windlass_kernel::{Digest, Uuid7};

/// 2026-01-01T00:00:00Z in milliseconds, where the time of tests begins.
pub const START_MS: u64 = 1_767_225_600_000;

/// The id with this number.
#[must_use]
pub const fn id(number: u64) -> Uuid7 {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    Uuid7::from_parts(START_MS, [0, 0, a, b, c, d, e, f, g, h])
}

/// The builtin `any`.
#[must_use]
pub fn builtin() -> Doer {
    Doer::Builtin { name: "any".to_owned(), with: BTreeMap::new() }
}

/// The agent `someone`.
#[must_use]
pub fn agent() -> Doer {
    Doer::Agent { agent: "someone".to_owned(), prompt: None }
}

/// The command `true`.
#[must_use]
pub fn command(repeatable: bool) -> Doer {
    Doer::Command { argv: vec!["true".to_owned()], repeatable, timeout_ms: 1000 }
}

/// People, so many of whom must approve.
#[must_use]
pub fn person(approvals: u32) -> Doer {
    Doer::Person { approvals, question: "is it good?".to_owned() }
}

/// A phase without checks, gate and outputs.
#[must_use]
pub fn phase(id: &str, needs: &[&str], doer: Doer) -> Phase {
    Phase {
        branch: false,
        checks: Vec::new(),
        doer,
        gate: None,
        id: id.to_owned(),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        outputs: Vec::new(),
        title: None,
        when: PhaseCondition::Always,
    }
}

/// A plan whose phases are performed one after the other, without budget, checkpoints and
/// requirements.
#[must_use]
pub fn plan(phases: Vec<Phase>) -> Plan {
    Plan {
        budget: Budget::default(),
        checkpoints: false,
        concurrency: Concurrency::Serial,
        governance: Governance::default(),
        hold: HoldRule::default(),
        id: "test".to_owned(),
        on_restart: OnRestart::Resume,
        phases,
        require: Vec::new(),
        title: "A test".to_owned(),
        variant: None,
        version: "1".to_owned(),
    }
}

/// What follows from each verdict.
#[must_use]
pub fn verdicts(list: &[(&str, Effect)]) -> BTreeMap<String, Effect> {
    list.iter().map(|(verdict, effect)| ((*verdict).to_owned(), effect.clone())).collect()
}

/// A gate with these verdicts.
#[must_use]
pub fn gate(id: &str, list: &[(&str, Effect)]) -> Option<Gate> {
    Some(Gate { id: id.to_owned(), verdicts: verdicts(list) })
}

/// A check with these verdicts.
#[must_use]
pub fn check(id: &str, at: CheckTiming, doer: Doer, list: &[(&str, Effect)]) -> Check {
    Check { at, doer, id: id.to_owned(), pinned: None, verdicts: verdicts(list) }
}

/// A hold that the plan's own number of people answers.
#[must_use]
pub const fn hold(trigger: Trigger) -> Effect {
    Effect::Hold { approvals: None, trigger }
}

/// Going back to a phase, at most `max` times.
#[must_use]
pub fn redo(phase: &str, max: u32, then: Effect) -> Effect {
    Effect::Redo { max, phase: phase.to_owned(), then: Box::new(then) }
}

/// The end of the run, blocked for this reason.
#[must_use]
pub fn stop(reason: &str) -> Effect {
    Effect::Stop { outcome: RunOutcome::Blocked, reason: reason.to_owned() }
}

/// The start of a run of this plan.
#[must_use]
pub fn started(plan: Plan) -> Started {
    Started {
        base: None,
        by: "the starter".to_owned(),
        folder: None,
        inherited: BTreeMap::new(),
        loop_digest: Digest::of(b"loop"),
        options: json!({}),
        plan,
        policy_hash: Digest::of(b"policy"),
        run_id: "run_20260101_000000_00000001".to_owned(),
        setup: None,
        task: json!({ "task": "change something" }),
        worktree: None,
    }
}

/// Work that ended with this answer.
#[must_use]
pub fn done(answer: Value) -> PhaseResult {
    PhaseResult {
        answer,
        calls: Vec::new(),
        change: None,
        duration_ms: 1000,
        facts: BTreeMap::new(),
        failure: None,
        governance: None,
        outputs: BTreeMap::new(),
        summary: "did it".to_owned(),
        usage: Usage::default(),
    }
}

/// Work that failed.
#[must_use]
pub fn failed(class: &str) -> PhaseResult {
    let failure = Failure { class: class.to_owned(), reason: "it broke".to_owned() };
    PhaseResult { failure: Some(failure), ..done(json!({})) }
}
