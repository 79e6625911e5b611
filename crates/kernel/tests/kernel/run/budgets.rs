//! Budgets: one warning, a hold when exhausted, and the grants of people.

use serde_json::json;
use windlass_kernel::run::VoteDecision::Approved;
use windlass_kernel::run::plan::{Budget, BudgetedResource, Effect, Plan};
use windlass_kernel::run::{Event, InvocationResult, PhaseResult, Usage};

use crate::run::harness::{Act, Lab, Script, changed, done, invoke, tokens};
use crate::run::plans::{gate, phase, redo, serial, with};

fn three(budget: Budget) -> Plan {
    let phases = vec![phase("a", &[]), phase("b", &["a"]), phase("c", &["b"])];
    with(serial(phases), |plan| plan.budget = budget)
}

fn using(usage: Usage) -> Act {
    Act::Done(PhaseResult { usage, ..done(json!({})) })
}

fn cost(cost_micros: u64) -> Usage {
    Usage { cost_micros, ..Usage::default() }
}

#[test]
fn tokens_and_cost_warn_once_and_hold_when_exhausted() {
    for (budget, name, usage) in [
        (Budget { tokens: Some(100), ..Budget::default() }, "tokens", tokens as fn(u64) -> Usage),
        (Budget { cost_micros: Some(100), ..Budget::default() }, "cost_micros", cost),
    ] {
        let script = Script::new()
            .at("a", 1, using(usage(80)))
            .at("b", 1, using(usage(20)))
            .at("c", 1, using(usage(60)))
            .votes(&[("ann", Approved)]);
        let mut lab = Lab::new(three(budget));
        let told = script.walk(&mut lab);
        assert_eq!(
            told,
            [
                "begun",
                "start a 1",
                "done a 1",
                &format!("warned {name} 80/100"),
                "start b 1",
                "done b 1",
                &format!("held 1 BUDGET_EXHAUSTED {name} at c for 1"),
                "ann APPROVED",
                "resumed",
                "continued",
                "start c 1",
                "done c 1",
                &format!("warned {name} 160/200"),
                "ended PASS pass",
            ]
        );
    }
}

#[test]
fn one_unit_below_four_fifths_does_not_warn_and_one_below_the_limit_does_not_hold() {
    let budget = Budget { tokens: Some(100), ..Budget::default() };
    let script = Script::new().at("a", 1, using(tokens(79))).at("b", 1, using(tokens(20)));
    let told = script.walk(&mut Lab::new(three(budget)));
    assert_eq!(told[3..6], ["start b 1", "done b 1", "warned tokens 99/100"]);
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

#[test]
fn one_grant_is_enough_however_much_was_used() {
    let budget = Budget { tokens: Some(100), ..Budget::default() };
    let script = Script::new().at("a", 1, using(tokens(1_000_000))).votes(&[("ann", Approved)]);
    let mut lab = Lab::new(three(budget));
    let told = script.walk(&mut lab);
    assert_eq!(told.iter().filter(|line| line.starts_with("held")).count(), 1);
    assert_eq!(lab.run.limit(BudgetedResource::Tokens), Some(1_000_100));
}

#[test]
fn an_overdraft_by_the_last_phase_causes_a_hold_before_the_end() {
    let budget = Budget { tokens: Some(100), ..Budget::default() };
    let script = Script::new().at("c", 1, using(tokens(101))).votes(&[("ann", Approved)]);
    let told = script.walk(&mut Lab::new(three(budget)));
    assert_eq!(
        told[told.len() - 6..],
        [
            "warned tokens 101/100",
            "held 1 BUDGET_EXHAUSTED tokens at c for 1",
            "ann APPROVED",
            "resumed",
            "continued",
            "ended PASS pass",
        ]
    );
}

#[test]
fn changed_lines_may_reach_but_not_exceed_their_limit() {
    let budget = Budget { changed_lines: Some(10), ..Budget::default() };
    let lines =
        |count| Act::Done(PhaseResult { change: Some(changed("d", count)), ..done(json!({})) });
    let told = Script::new().at("a", 1, lines(10)).walk(&mut Lab::new(three(budget)));
    assert_eq!(told.last().unwrap(), "ended PASS pass");
    let script = Script::new().at("a", 1, lines(11)).votes(&[("ann", Approved)]);
    let mut lab = Lab::new(three(budget));
    let told = script.walk(&mut lab);
    assert_eq!(told[4], "held 1 BUDGET_EXHAUSTED changed_lines at b for 1");
    assert_eq!(lab.run.limit(BudgetedResource::ChangedLines), Some(21));
    // Lines are counted over the whole diff, so reverting lines reduces the count.
    let script = Script::new().at("a", 1, lines(9)).at("b", 1, lines(2));
    let mut lab = Lab::new(three(budget));
    assert_eq!(script.walk(&mut lab).last().unwrap(), "ended PASS pass");
    assert_eq!(lab.run.spent.changed_lines, 2);
}

#[test]
fn wall_time_is_working_time_only() {
    let budget = Budget { wall_ms: Some(2000), ..Budget::default() };
    let script = Script::new().votes(&[("ann", Approved)]);
    let mut lab = Lab::new(three(budget));
    let told = script.walk(&mut lab);
    assert_eq!(
        told[3..10],
        [
            "start b 1",
            "done b 1",
            "warned wall_ms 2000/2000",
            "held 1 BUDGET_EXHAUSTED wall_ms at c for 1",
            "ann APPROVED",
            "resumed",
            "continued",
        ]
    );
    // Two hours on hold cost nothing.
    assert_eq!(lab.run.spent.wall_ms, 3000);
    assert_eq!(lab.run.limit(BudgetedResource::WallMs), Some(4000));
}

#[test]
fn a_last_phase_that_takes_too_long_is_held_like_any_other_budget() {
    let budget = Budget { wall_ms: Some(2500), ..Budget::default() };
    let told = Script::new().votes(&[("ann", Approved)]).walk(&mut Lab::new(three(budget)));
    let held = "held 1 BUDGET_EXHAUSTED wall_ms at c for 1";
    assert!(told.contains(&held.to_owned()), "{told:#?}");
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

#[test]
fn attempts_are_counted_per_phase() {
    let rows = [("ok", Effect::Continue), ("no", redo("a", 9, Effect::Block))];
    let budget = Budget { attempts: Some(2), ..Budget::default() };
    let plan = with(three(budget), |plan| plan.phases[2].gate = gate(&rows));
    let mut script = Script::new().votes(&[("ann", Approved)]);
    for (attempt, text) in [(1, "x"), (2, "y"), (3, "z")] {
        script = script.at("a", attempt, Act::Done(done(json!({"t": text}))));
    }
    let script = script.at("c", 1, Act::Say("no")).at("c", 2, Act::Say("no"));
    let mut lab = Lab::new(plan);
    let told = script.walk(&mut lab);
    let from = told.iter().position(|line| line.starts_with("held")).unwrap();
    assert_eq!(
        told[from..from + 6],
        [
            "held 1 BUDGET_EXHAUSTED attempts at a for 1",
            "ann APPROVED",
            "resumed",
            "continued",
            "start a 3",
            "done a 3",
        ]
    );
    // The grant is for the loop, not for the one phase.
    assert_eq!(told[from + 6], "start b 3");
    assert_eq!(told.last().unwrap(), "ended PASS pass");
    assert!(lab.events.iter().all(|(event, _)| !matches!(event, Event::Warned { .. })));
}

#[test]
fn uncounted_tokens_with_a_limit_end_the_run() {
    let unaccounted = Usage { unaccounted: true, ..Usage::default() };
    let budget = Budget { tokens: Some(100), ..Budget::default() };
    for name in ["a", "c"] {
        let script = Script::new().at(name, 1, using(unaccounted));
        let told = script.walk(&mut Lab::new(three(budget)));
        assert_eq!(told[told.len() - 2], format!("done {name} 1"));
        assert_eq!(told.last().unwrap(), "ended BLOCKED token_accounting_unavailable");
    }
    let free = Budget { cost_micros: Some(100), ..Budget::default() };
    let told = Script::new().at("a", 1, using(unaccounted)).walk(&mut Lab::new(three(free)));
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

#[test]
fn the_usage_of_an_invocation_is_counted_once() {
    let mut lab = Lab::new(three(Budget::default()));
    lab.record(Event::Begun {});
    lab.record(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    for (number, used) in [(1, 30), (2, 12)] {
        lab.record(invoke(&lab, "a", 1));
        lab.record(ended(number, used));
        assert_eq!(lab.run.phases[0].open_invocation, None);
    }
    assert_eq!(lab.run.spent.tokens, 42);
    // Two of the fifty belong to no invocation.
    let all = PhaseResult { usage: tokens(44), ..done(json!({})) };
    lab.record(Event::PhaseDone { phase: "a".into(), attempt: 1, done: Box::new(all) });
    assert_eq!(lab.run.spent.tokens, 44);
    lab.record(Event::PhaseStarted { phase: "b".into(), attempt: 1 });
    lab.record(invoke(&lab, "b", 1));
    assert!(!lab.run.spent.unaccounted);
    // Work that ends with an open invocation has uncounted usage.
    let none = Box::new(done(json!({})));
    lab.record(Event::PhaseDone { phase: "b".into(), attempt: 1, done: none });
    assert!(lab.run.spent.unaccounted);
    assert!(lab.takes(&ended(3, 1)).unwrap_err().contains("no such invocation"));
}

fn ended(invocation: u64, used: u64) -> Event {
    Event::InvocationEnded {
        invocation,
        result: InvocationResult::Success,
        usage: tokens(used),
        duration_ms: 1,
        note: String::new(),
    }
}
