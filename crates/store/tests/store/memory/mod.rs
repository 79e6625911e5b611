//! The store in memory keeps the contract, and the suite finds planted bugs.

mod broken;
mod bugs;
mod visitors;

use std::panic::{AssertUnwindSafe, catch_unwind};

use broken::BrokenHarness;
use bugs::{BUGS, Bug};
use windlass_store::conformance::history::{assert_same_history, random_history, run_history};
use windlass_store::conformance::memory::MemoryHarness;
use windlass_store::conformance::{self, CHECKS, Harness};

windlass_store::conformance_tests!(MemoryHarness::default());

/// Whether a store does not pass a check.
fn fails(check: &str, harness: &dyn Harness) -> bool {
    catch_unwind(AssertUnwindSafe(|| conformance::run(check, harness))).is_err()
}

#[test]
fn two_memories_answer_every_history_the_same() {
    for seed in 0..20 {
        assert_same_history(seed, 400, &MemoryHarness::default(), &MemoryHarness::default());
    }
}

#[test]
fn a_history_is_the_same_for_the_same_seed_and_another_for_another() {
    assert_eq!(random_history(7, 100), random_history(7, 100));
    assert_ne!(random_history(7, 100), random_history(8, 100));
    assert_eq!(random_history(7, 100)[..50], random_history(7, 50));
}

/// A history that meets no error, or only errors, compares nothing.
#[test]
fn histories_meet_every_kind_of_answer() {
    let lines: Vec<String> = (0..5)
        .flat_map(|seed| run_history(&MemoryHarness::default(), &random_history(seed, 400)))
        .collect();
    for answer in [
        "-> ok",
        "-> lease",
        "-> released",
        "-> kept",
        "-> no such lease",
        "-> another process",
        "-> STATE_SEQUENCE_GAP",
        "-> STATE_INVALID_TRANSITION",
        "-> STATE_CHECKSUM_MISMATCH",
        "-> STATE_CONCURRENT_EXECUTION",
        "-> STATE_LOCK_ACQUIRE_FAILED",
        "-> IDEMPOTENCY_CONFLICT",
        "-> TRACE_NOT_FOUND",
        "COMPLETED",
        "effect_digest: Some",
        "attempt: 3",
    ] {
        // States are shown by the names of their variants.
        let shown = |line: &String| line.to_uppercase().contains(&answer.to_uppercase());
        assert!(lines.iter().any(shown), "no step answers `{answer}`");
    }
}

#[test]
fn histories_find_bugs_too() {
    for bug in [Bug::SkipsFence, Bug::LosesLastEntry, Bug::RobsTheLiving, Bug::EffectBeforeEnd] {
        let found = (0..5).any(|seed| {
            let same = || {
                assert_same_history(seed, 400, &MemoryHarness::default(), &BrokenHarness::new(bug));
            };
            catch_unwind(AssertUnwindSafe(same)).is_err()
        });
        assert!(found, "no history tells {bug:?} from a sound store");
    }
}

#[test]
fn check_names_are_unique() {
    let mut names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn the_suite_finds_every_bug() {
    for (bug, checks) in BUGS {
        for check in *checks {
            assert!(fails(check, &BrokenHarness::new(*bug)), "`{check}` does not find {bug:?}");
        }
    }
}

#[test]
fn a_wrapper_without_a_bug_passes_all_that_finds_bugs() {
    for (_, checks) in BUGS {
        for check in *checks {
            conformance::run(check, &BrokenHarness::new(Bug::None));
        }
    }
}
