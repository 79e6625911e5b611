//! Random plans, random outcomes, random crashes: a run always ends or waits, and passes only when all
//! of it was done.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;
use windlass_kernel::run::plan::{
    CheckTiming, Concurrency, Effect, OnRestart, Phase, PhaseCondition, Plan, RunOutcome, Trigger,
};
use windlass_kernel::run::{HoldRequest, PhaseStatus, VoteDecision};
use windlass_testkit::soak;

use crate::crash::Life;
use crate::phase_executor::{Act, Piece, well};
use crate::plans::{agent, builtin, check, command, gate, hold, person, phase, plan, redo};
use crate::sweep::{Scenario, check_invariants, live, remains, scenario};
use crate::world::{World, new_run};

/// What a phase is made of.
#[derive(Clone, Debug)]
struct Spec {
    doer: u8,
    needs: u8,
    check: u8,
    gate: u8,
    when: u8,
}

fn spec() -> impl Strategy<Value = Spec> {
    (0..6u8, any::<u8>(), 0..5u8, 0..5u8, 0..8u8)
        .prop_map(|(doer, needs, check, gate, when)| Spec { doer, needs, check, gate, when })
}

fn name(at: usize) -> String {
    format!("p{at}")
}

/// A phase that can be followed: it needs, and goes back to, only what comes before it.
fn phase_of(at: usize, spec: &Spec, earlier: &[Phase]) -> Phase {
    let needs: Vec<String> = (0..at)
        .filter(|before| spec.needs & (1 << before) != 0 || before + 1 == at)
        .map(name)
        .collect();
    let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
    let doer = match spec.doer {
        0 => builtin(),
        1 => agent(),
        2 => command(true),
        3 => command(false),
        4 => person(1),
        _ => person(2),
    };
    let mut made = phase(&name(at), &needs, doer);
    let back_to = earlier.last().filter(|phase| phase.when == PhaseCondition::Always);
    let back_to = back_to.map_or(made.id.clone(), |phase| phase.id.clone());
    let ask = || hold(Trigger::EscalationRequested);
    let verdicts = |kind: u8| match kind {
        1 => vec![("approved", Effect::Continue), ("pass", Effect::Continue), ("odd", ask())],
        2 => vec![
            ("approved", Effect::Continue),
            ("pass", Effect::Continue),
            ("odd", redo(&back_to, 2, ask())),
            ("failed", redo(&back_to, 1, Effect::Block)),
            ("rejected", redo(&back_to, 1, Effect::Block)),
        ],
        3 => vec![
            ("approved", Effect::Continue),
            ("pass", Effect::Continue),
            ("odd", Effect::Block),
            ("failed", hold(Trigger::WaiverRequested)),
        ],
        _ => vec![
            ("approved", Effect::Continue),
            ("pass", Effect::Continue),
            (
                "odd",
                Effect::Stop { outcome: RunOutcome::WaiverRequested, reason: "odd".to_owned() },
            ),
        ],
    };
    if spec.check > 0 {
        let place =
            if spec.check.is_multiple_of(2) { CheckTiming::Before } else { CheckTiming::After };
        let doer = if spec.check > 2 { command(false) } else { builtin() };
        made.checks = vec![check("c", place, doer, &verdicts(spec.check))];
    }
    if spec.gate > 0 {
        made.gate = gate("g", &verdicts(spec.gate));
    }
    made.when = match spec.when {
        0 => PhaseCondition::Intervention,
        1 => PhaseCondition::Fact { fact: "none".to_owned(), one_of: vec!["x".to_owned()] },
        _ => PhaseCondition::Always,
    };
    made
}

fn plan_of(specs: &[Spec], serial: bool, on_restart: OnRestart) -> Plan {
    let mut phases: Vec<Phase> = Vec::new();
    for (at, spec) in specs.iter().enumerate() {
        let made = phase_of(at, spec, &phases);
        phases.push(made);
    }
    let mut plan = plan(phases);
    plan.concurrency = if serial { Concurrency::Serial } else { Concurrency::Parallel };
    plan.on_restart = on_restart;
    plan
}

fn dice(seed: u64, thing: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, thing).hash(&mut hasher);
    hasher.finish()
}

/// What comes of a piece of work, the same each time it is done; later tries go well.
fn oracle(seed: u64, piece: &Piece) -> Act {
    let roll = dice(seed, piece) % 10;
    match (roll, &piece.1) {
        _ if piece.2 > 2 => well(piece),
        (0, _) => Act::Panic,
        (1 | 2, None) => Act::Fail("timeout"),
        (1 | 2, Some(_)) => Act::Say(""),
        (3..=5, None) => Act::Answer(json!({"verdict": "odd", "n": dice(seed, &piece.0) % 100})),
        (3..=5, Some(_)) => Act::Say("odd"),
        _ => well(piece),
    }
}

/// People go on after a death; for the rest it depends, but not for ever.
fn decide(seed: u64, held: &HoldRequest) -> VoteDecision {
    match held.trigger {
        Trigger::RestartRequested | Trigger::UncertainEffect => VoteDecision::Approved,
        _ if dice(seed, (&held.phase, held.trigger.as_str())).is_multiple_of(4) => {
            VoteDecision::Rejected
        }
        _ => VoteDecision::Approved,
    }
}

fn check_one(scenario: &Scenario, crashes: &[u32]) -> Result<(), TestCaseError> {
    // A plan that nobody can follow is refused before anything is recorded.
    let calm = World::new();
    let engine = (scenario.engine)(scenario, &calm, &Life::until(None));
    if let Err(error) = engine.start(new_run(scenario.plan.clone())) {
        let on_record = calm.kinds();
        prop_assert!(
            on_record.is_empty(),
            "refused ({:?}), and yet on record: {:?}",
            error,
            on_record
        );
        return Err(TestCaseError::reject("no plan"));
    }
    prop_assert!(live(scenario, &calm, &Life::until(None)));
    let expected = remains(scenario, &calm);
    check_invariants(scenario, &calm, &expected, &[]);
    let world = World::new();
    for at in crashes {
        let _ = live(scenario, &world, &Life::until(Some(*at)));
    }
    prop_assert!(live(scenario, &world, &Life::until(None)));
    check_invariants(scenario, &world, &expected, crashes);
    let engine = (scenario.engine)(scenario, &world, &Life::until(None));
    let run =
        engine.read(world.runs()[0].0).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let ended = run.ended.as_ref().ok_or_else(|| TestCaseError::fail("it has not ended"))?;
    if ended.outcome == RunOutcome::Pass {
        let settled =
            |status: PhaseStatus| matches!(status, PhaseStatus::Complete | PhaseStatus::Skipped);
        prop_assert!(run.phases.iter().all(|phase| settled(phase.status)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 2 / 5, max_global_rejects: ProptestConfig::default().cases * 16, failure_persistence: None, rng_seed: RngSeed::Fixed(soak::property_seed()), ..ProptestConfig::default() })]

    #[test]
    fn any_plan_ends_whatever_happens(
        specs in prop::collection::vec(spec(), 1..6),
        serial in any::<bool>(),
        restart in 0..3u8,
        seed in any::<u64>(),
        crashes in prop::collection::vec(1..60u32, 0..4),
    ) {
        let on_restart =
            [OnRestart::Resume, OnRestart::Hold, OnRestart::Terminate][usize::from(restart)];
        let scenario = Scenario {
            oracle: Arc::new(move |piece: &Piece| oracle(seed, piece)),
            decide: Arc::new(move |held: &HoldRequest| decide(seed, held)),
            same: serial,
            ..scenario("random", plan_of(&specs, serial, on_restart), 0, &[])
        };
        check_one(&scenario, &crashes)?;
    }
}
