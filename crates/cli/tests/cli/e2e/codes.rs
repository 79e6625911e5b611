//! Every public code is met by a scenario, and ends the binary as its page says.

use std::collections::BTreeSet;
use std::sync::Mutex;

use windlass_kernel::Code;

use crate::e2e::run_scenarios::RUN_SCENARIOS;
use crate::e2e::scenarios::{NOT_HERE, SCENARIOS, Scenario};
use crate::e2e::seal_scenarios::SEAL_SCENARIOS;
use crate::harness::repository;

/// All scenarios.
fn scenarios() -> impl Iterator<Item = &'static (Code, Scenario)> {
    SCENARIOS.iter().chain(RUN_SCENARIOS).chain(SEAL_SCENARIOS)
}

/// The exit code that a code's page states first.
fn stated(code: Code) -> i32 {
    let path = repository("docs/errors").join(format!("{code}.md"));
    let page = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("no page for {code}"));
    let section = page.split("## Exit code").nth(1).unwrap_or_else(|| panic!("{code} states none"));
    let number = section.trim_start().split(':').next().unwrap_or_default();
    number.parse().unwrap_or_else(|_| panic!("`{number}` is no exit code of {code}"))
}

#[test]
fn every_code_has_a_scenario_or_a_reason() {
    let met: Vec<Code> = scenarios().map(|(code, _)| *code).collect();
    let left_out: Vec<Code> = NOT_HERE.iter().map(|(code, _)| *code).collect();
    let all: BTreeSet<Code> = Code::ALL.iter().copied().collect();
    assert_eq!(met.iter().chain(&left_out).copied().collect::<BTreeSet<_>>(), all);
    assert_eq!(met.len() + left_out.len(), all.len(), "each in one place only");
    assert!(NOT_HERE.iter().all(|(_, reason)| reason.len() > 20));
}

#[test]
fn every_code_is_shown_and_ends_as_its_page_says() {
    // Most of them wait for something most of the time.
    let (queue, wrong) = (Mutex::new(scenarios()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((code, scenario)) = { queue.lock().unwrap().next() } {
                    wrong.lock().unwrap().extend(wrongs(*code, *scenario));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with what a scenario shows.
fn wrongs(code: Code, scenario: Scenario) -> Vec<String> {
    let mut wrong = Vec::new();
    let outcome = scenario();
    if code == Code::StoreFull && outcome.stderr.contains("unshare") {
        windlass_testkit::skipped("no namespaces here: no disk can be made full");
        return wrong;
    }
    let shown = outcome.text().to_owned() + &outcome.stderr;
    if !shown.contains(&format!("[{code}]")) {
        wrong.push(format!("{code} is not shown:\n{outcome}"));
    }
    if outcome.code != Some(stated(code)) {
        wrong.push(format!("the page of {code} says {}:\n{outcome}", stated(code)));
    }
    wrong
}
