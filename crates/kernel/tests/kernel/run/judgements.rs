//! The effects of verdicts and failures.

use serde_json::json;
use windlass_kernel::run::VoteDecision::Approved;
use windlass_kernel::run::plan::{CheckTiming, Effect, PhaseCondition};

use crate::run::harness::{Act, Script, done, failure};
use crate::run::loops::{design, lines, walk};
use crate::run::plans::{check, gate, hold, phase, redo, serial, spine, verdicts, with};

#[test]
fn checks_are_done_before_and_after_the_work() {
    let plan = serial(vec![with(phase("a", &[]), |phase| {
        let rows = [("ok", Effect::Continue), ("bad", redo("a", 1, hold()))];
        phase.checks =
            vec![check("x", CheckTiming::After, &rows), check("y", CheckTiming::Before, &rows)];
        phase.gate = gate(&[("ok", Effect::Continue)]);
    })]);
    let expected = lines(&[
        "begun",
        "start a 1",
        "checked a/y 1 ok",
        "done a 1",
        "checked a/x 1 ok",
        "ended PASS pass",
    ]);
    assert_eq!(walk(plan.clone(), Script::new()), expected);
    let script = Script::new()
        .at("a/x", 1, Act::Say("bad"))
        .at("a", 1, design_ok("one"))
        .at("a/y", 2, Act::Say("bad"))
        .at("a/y", 3, Act::Say("bad"))
        .at("a", 3, design_ok("three"))
        .votes(&[("ann", Approved)]);
    let mut two = plan;
    two.phases[0].checks[1].verdicts =
        verdicts(&[("ok", Effect::Continue), ("bad", redo("a", 1, hold()))]);
    let told = walk(two, script);
    let expected = lines(&[
        "begun",
        "start a 1",
        "checked a/y 1 ok",
        "done a 1",
        "checked a/x 1 bad",
        "back a/x bad -> a 1",
        "start a 2",
        "checked a/y 2 bad",
        "back a/y bad -> a 1",
        "start a 3",
        "checked a/y 3 bad",
        "held 1 ESCALATION_REQUESTED at a for 1",
        "ann APPROVED",
        "resumed",
        "continued",
        "done a 3",
        "checked a/x 3 ok",
        "ended PASS pass",
    ]);
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    assert_eq!(told, expected);
}

fn design_ok(text: &str) -> Act {
    Act::Done(done(json!({"verdict": "ok", "text": text})))
}

#[test]
fn an_exhausted_effect_is_replaced_by_the_next() {
    let plan = with(spine(), |plan| {
        let then = redo("design", 1, Effect::Block);
        plan.phases[4].gate =
            gate(&[("approved", Effect::Continue), ("no", redo("build", 1, then))]);
    });
    let mut script = Script::new();
    for attempt in 1..=3 {
        script = script.at("review", attempt, Act::Say("no"));
    }
    for (attempt, text) in [(1, "a"), (2, "b"), (3, "c")] {
        script = script.at("build", attempt, design(text));
    }
    let told = walk(plan, script);
    let back: Vec<&String> = told.iter().filter(|line| line.starts_with("back")).collect();
    assert_eq!(back, ["back review/gate no -> build 1", "back review/gate no -> design 2"]);
    assert_eq!(told.last().unwrap(), "ended BLOCKED gate_no");
}

#[test]
fn a_failure_ends_the_run_unless_the_gate_declares_another_effect() {
    let told = walk(spine(), Script::new().at("build", 1, Act::Done(failure("timeout"))));
    assert_eq!(told[told.len() - 2..], ["failed build 1 timeout", "ended BLOCKED mission_failed"]);
    let mapped = |effect: Effect| {
        with(spine(), |plan| {
            plan.phases[3].gate = gate(&[("approved", Effect::Continue), ("failed", effect)]);
        })
    };
    let once = Script::new().at("build", 1, Act::Done(failure("timeout")));
    let told = walk(mapped(redo("build", 1, Effect::Block)), once.clone());
    assert!(told.contains(&"back build/failed timeout -> build 1".to_owned()), "{told:#?}");
    assert_eq!(told.last().unwrap(), "ended PASS pass");
    // A failure cannot continue.
    let told = walk(mapped(Effect::Continue), once.clone());
    assert_eq!(told.last().unwrap(), "ended BLOCKED mission_failed");
    let told = walk(mapped(hold()), once.votes(&[("ann", Approved)]));
    let from = told.iter().position(|line| line == "continued").unwrap();
    assert_eq!(told[from + 1..from + 3], ["start build 2", "done build 2"]);
}

#[test]
fn a_redo_repeats_only_dependent_phases() {
    // a and x are independent; c needs both; c sends back to a.
    let plan = serial(vec![
        phase("a", &[]),
        phase("x", &[]),
        with(phase("n", &["x"]), |phase| {
            phase.when = PhaseCondition::Fact { fact: "f".into(), one_of: vec![] }
        }),
        with(phase("c", &["a", "n"]), |phase| {
            phase.gate = gate(&[("ok", Effect::Continue), ("no", redo("a", 1, Effect::Block))]);
        }),
    ]);
    let told = walk(plan, Script::new().at("c", 1, Act::Say("no")));
    let from = told.iter().position(|line| line.starts_with("back")).unwrap();
    assert_eq!(
        told[from + 1..],
        ["start a 2", "done a 2", "start c 2", "done c 2", "ended PASS pass"]
    );
}
