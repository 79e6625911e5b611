//! Plans to test with.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{
    Budget, Check, CheckTiming, Concurrency, Doer, Effect, Gate, HoldRule, OnRestart, Phase,
    PhaseCondition, Plan, Requirement, RunOutcome, Trigger,
};

pub fn builtin() -> Doer {
    Doer::Builtin { name: "any".to_owned(), with: BTreeMap::new() }
}

pub fn agent() -> Doer {
    Doer::Agent { agent: "someone".to_owned(), prompt: None }
}

pub fn command(repeatable: bool) -> Doer {
    Doer::Command { argv: vec!["true".to_owned()], repeatable, timeout_ms: 1000 }
}

pub fn person(approvals: u32) -> Doer {
    Doer::Person { approvals, question: "is it good?".to_owned() }
}

pub fn phase(id: &str, needs: &[&str], doer: Doer) -> Phase {
    Phase {
        branch: false,
        checks: Vec::new(),
        doer,
        gate: None,
        id: id.to_owned(),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        outputs: Vec::new(),
        when: PhaseCondition::Always,
    }
}

pub fn verdicts(list: &[(&str, Effect)]) -> BTreeMap<String, Effect> {
    list.iter().map(|(verdict, effect)| ((*verdict).to_owned(), effect.clone())).collect()
}

pub fn gate(id: &str, list: &[(&str, Effect)]) -> Option<Gate> {
    Some(Gate { id: id.to_owned(), verdicts: verdicts(list) })
}

pub fn check(id: &str, at: CheckTiming, doer: Doer, list: &[(&str, Effect)]) -> Check {
    Check { at, doer, id: id.to_owned(), verdicts: verdicts(list) }
}

pub const fn hold(trigger: Trigger) -> Effect {
    Effect::Hold { approvals: None, trigger }
}

pub fn redo(phase: &str, max: u32, then: Effect) -> Effect {
    Effect::Redo { max, phase: phase.to_owned(), then: Box::new(then) }
}

pub fn plan(phases: Vec<Phase>) -> Plan {
    Plan {
        budget: Budget::default(),
        checkpoints: false,
        concurrency: Concurrency::Serial,
        governance: Default::default(),
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

/// As the shipped spine.
pub fn spine() -> Plan {
    let mut build = phase("build", &["design"], agent());
    build.checks = vec![check(
        "scope",
        CheckTiming::After,
        builtin(),
        &[("pass", Effect::Continue), ("violation", hold(Trigger::WaiverRequested))],
    )];
    let mut review = phase("review", &["build"], agent());
    review.gate = gate(
        "review",
        &[
            ("approved", Effect::Continue),
            ("needs_revision", redo("design", 2, hold(Trigger::EscalationRequested))),
            ("rejected", Effect::Block),
            ("escalate", hold(Trigger::EscalationRequested)),
        ],
    );
    let mut plan = plan(vec![
        phase("hydrate", &[], builtin()),
        phase("policy", &["hydrate"], builtin()),
        phase("design", &["policy"], agent()),
        build,
        review,
        phase("steward", &["review"], builtin()),
    ]);
    plan.id = "spine".to_owned();
    plan.on_restart = OnRestart::Hold;
    plan.require = vec![Requirement::CleanRepo];
    plan.budget = Budget { attempts: Some(5), tokens: Some(100_000), ..Budget::default() };
    plan
}

/// As the driver: checks around the work, one intervention, nothing survives a death.
pub fn driver() -> Plan {
    let mut work = phase("work", &["prepare"], command(false));
    work.checks = vec![
        check("ready", CheckTiming::Before, builtin(), &[("pass", Effect::Continue)]),
        check("sound", CheckTiming::After, command(true), &[("pass", Effect::Continue)]),
    ];
    work.gate = gate(
        "work",
        &[
            ("approved", Effect::Continue),
            (
                "broken",
                Effect::Intervene { phase: "mend".to_owned(), then: Box::new(Effect::Block) },
            ),
            (
                "enough",
                Effect::Stop {
                    outcome: RunOutcome::EscalationRequested,
                    reason: "enough".to_owned(),
                },
            ),
        ],
    );
    let mut mend = phase("mend", &["prepare"], agent());
    mend.when = PhaseCondition::Intervention;
    let mut plan = plan(vec![
        phase("prepare", &[], builtin()),
        mend,
        work,
        phase("close", &["work"], builtin()),
    ]);
    plan.id = "driver".to_owned();
    plan.on_restart = OnRestart::Terminate;
    plan.require = vec![Requirement::Single];
    plan
}

/// Two branches that can run side by side.
pub fn diamond() -> Plan {
    let mut plan = plan(vec![
        phase("first", &[], builtin()),
        phase("left", &["first"], agent()),
        phase("right", &["first"], command(false)),
        phase("last", &["left", "right"], builtin()),
    ]);
    plan.concurrency = Concurrency::Parallel;
    plan
}
