//! Plans to test with.

use windlass_kernel::run::plan::{
    Budget, CheckTiming, Concurrency, Effect, OnRestart, PhaseCondition, Plan, Requirement,
    RunOutcome, Trigger,
};
pub use windlass_testkit::plans::{
    agent, builtin, check, command, gate, hold, person, phase, plan, redo,
};

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
