//! Plans with the shape of the shipped loops.

use windlass_kernel::run::plan::{
    Check, CheckTiming, Concurrency, Doer, Effect, Gate, OnRestart, Phase, PhaseCondition, Plan,
    Reviewer, Trigger,
};
use windlass_testkit::plans;
pub use windlass_testkit::plans::{
    agent, builtin, command, person, plan as serial, redo, stop, verdicts,
};

/// Reviewers whose names begin with `a` are agents, all others are people.
pub fn consensus(quorum: u32, reviewers: &[&str]) -> Doer {
    let reviewer = |name: &&str| match name.strip_prefix('a') {
        Some(_) => Reviewer::Agent { agent: (*name).to_owned(), prompt: None },
        None => Reviewer::Person { name: (*name).to_owned() },
    };
    Doer::Consensus {
        checklist: vec!["is it right?".into()],
        question: "do you agree?".into(),
        quorum,
        reviewers: reviewers.iter().map(reviewer).collect(),
    }
}

/// A gate that declares all verdicts of reviewers.
pub fn agreed(rejected: Effect) -> Option<Gate> {
    gate(&[
        ("approved", Effect::Continue),
        ("approved_with_conditions", Effect::Continue),
        ("rejected", rejected),
    ])
}

/// A phase that an agent does.
pub fn phase(id: &str, needs: &[&str]) -> Phase {
    plans::phase(id, needs, agent())
}

pub fn parallel(phases: Vec<Phase>) -> Plan {
    Plan { concurrency: Concurrency::Parallel, ..serial(phases) }
}

pub fn gate(rows: &[(&str, Effect)]) -> Option<Gate> {
    plans::gate("gate", rows)
}

/// A check that a command makes.
pub fn check(id: &str, at: CheckTiming, rows: &[(&str, Effect)]) -> Check {
    plans::check(id, at, command(true), rows)
}

pub const fn hold() -> Effect {
    plans::hold(Trigger::EscalationRequested)
}

pub fn with<T>(mut value: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut value);
    value
}

/// hydrate, policy, design, build, review, steward.
pub fn spine() -> Plan {
    let review = gate(&[
        ("approved", Effect::Continue),
        ("needs_revision", redo("design", 2, hold())),
        ("rejected", Effect::Block),
        ("escalate", Effect::Hold { approvals: Some(2), trigger: Trigger::EscalationRequested }),
    ]);
    serial(vec![
        with(phase("hydrate", &[]), |phase| phase.doer = builtin()),
        with(phase("policy", &["hydrate"]), |phase| phase.doer = builtin()),
        phase("design", &["policy"]),
        phase("build", &["design"]),
        with(phase("review", &["build"]), |phase| phase.gate = review),
        with(phase("steward", &["review"]), |phase| phase.doer = builtin()),
    ])
}

/// Phases 0 to 10 and 2a; 7 is the intervention for 6, once.
pub fn driver() -> Plan {
    let verification = gate(&[
        ("ok", Effect::Continue),
        ("intervene", Effect::Intervene { phase: "p7".into(), then: Box::new(stop("HALT")) }),
        ("halt", stop("HALT")),
    ]);
    let context =
        PhaseCondition::Fact { fact: "intent".into(), one_of: vec!["generate_context".into()] };
    let mut phases = vec![phase("p0", &[]), phase("p1", &["p0"]), phase("p2", &["p1"])];
    phases.push(with(phase("p2a", &["p2"]), |phase| phase.when = context));
    phases.push(phase("p3", &["p2a"]));
    phases.push(phase("p4", &["p3"]));
    phases.push(phase("p5", &["p4"]));
    phases.push(with(phase("p6", &["p5"]), |phase| phase.gate = verification));
    phases.push(with(phase("p7", &["p5"]), |phase| phase.when = PhaseCondition::Intervention));
    phases.push(phase("p8", &["p6", "p7"]));
    phases.push(phase("p9", &["p8"]));
    phases.push(phase("p10", &["p9"]));
    with(serial(phases), |plan| plan.on_restart = OnRestart::Terminate)
}

/// a, then b and c in parallel, then d.
pub fn diamond() -> Plan {
    let phases =
        vec![phase("a", &[]), phase("b", &["a"]), phase("c", &["a"]), phase("d", &["b", "c"])];
    parallel(phases)
}
