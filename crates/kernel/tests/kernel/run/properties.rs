//! Random runs of random plans: the invariants hold after each event, and every run ends.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use windlass_kernel::run::{Event, Next};

use crate::run::harness::Lab;
use crate::run::random::{back_max, can_lock, random_plan};
use crate::run::ride::Ride;

/// After the end, only a rollback can be recorded.
fn nothing_follows(lab: &Lab) {
    assert_eq!(lab.run.next(), Next::Done);
    for checkpoint in &lab.run.checkpoints {
        assert_eq!(lab.takes(&Event::RollbackBegun(Box::new(lab.wish(checkpoint, true)))), Ok(()));
    }
    let back = |event: &Event| matches!(event, Event::RollbackBegun(_));
    for (event, _) in lab.events.iter().filter(|(event, _)| !back(event)) {
        assert!(lab.takes(event).is_err(), "{event:?} follows the end");
    }
}

/// Drives random runs and counts their events and outcomes.
fn ride(mut runner: TestRunner) -> BTreeMap<String, usize> {
    let reached: RefCell<BTreeMap<String, usize>> = RefCell::default();
    let bytes = |length: usize| proptest::collection::vec(any::<u8>(), 0..length);
    runner
        .run(&(bytes(200), bytes(500)), |(plan, oracle)| {
            let plan = random_plan(&plan);
            let per_try =
                12 + 4 * plan.phases.iter().map(|phase| phase.checks.len()).sum::<usize>();
            let tries = (plan.phases.len() + 1) * (1 + back_max(&plan));
            let events_max = 40 + tries * per_try + 12 * oracle.len();
            let mut ride = Ride::new(plan, &oracle);
            ride.run(events_max);
            prop_assert_eq!(ride.lab.reread(), ride.lab.run.clone());
            nothing_follows(&ride.lab);
            // A plan without a circular wait reaches an end.
            let told = ride.lab.told();
            let stuck = told.iter().any(|line| line.contains("critical_failure"));
            let plan = ride.lab.run.plan().unwrap();
            prop_assert!(!stuck || can_lock(plan), "{plan:#?}\n{told:#?}");
            let mut reached = reached.borrow_mut();
            for (event, _) in &ride.lab.events {
                *reached.entry(what(event)).or_default() += 1;
            }
            Ok(())
        })
        .unwrap();
    reached.into_inner()
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn every_random_run_satisfies_the_model_and_ends() {
    assert!(ride(TestRunner::new(config())).contains_key("started"));
}

/// A test that does not reach a case cannot find errors in it. The runs are the same each time, so the
/// test cannot fail by chance.
#[test]
fn random_runs_cover_all_events_and_outcomes() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = ProptestConfig { cases: 400, ..config() };
    let reached = ride(TestRunner::new_with_rng(config, rng));
    println!("{reached:#?}");
    for kind in [
        "sent_back",
        "waiting",
        "warned",
        "restarted",
        "phase_skipped",
        "BUDGET_EXHAUSTED",
        "CALL_APPROVAL",
        "ESCALATION_REQUESTED",
        "CONSENSUS_REQUESTED",
        "MERGE_CONFLICT",
        "ROLLED_BACK",
        "reviewed",
        "merged",
        "rolled_back",
        "checkpointed",
        "PERSON_REQUESTED",
        "RESTART_REQUESTED",
        "UNCERTAIN_EFFECT",
        "WAIVER_REQUESTED",
        "pass",
        "mission_failed",
        "unsupported_verdict",
        "no_progress",
        "stop",
        "checkpoint_rejected",
        "token_accounting_unavailable",
    ] {
        assert!(reached.contains_key(kind), "no run came to `{kind}`");
    }
}

fn what(event: &Event) -> String {
    match event {
        Event::Held(held) => held.trigger.as_str().to_owned(),
        Event::Ended { reason, .. } => reason.clone(),
        other => other.kind().to_owned(),
    }
}
