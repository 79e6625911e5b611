//! Runs of plans with the shape of the shipped loops, with and without failures.

use serde_json::json;
use windlass_kernel::run::VoteDecision::Approved;
use windlass_kernel::run::plan::{Effect, PhaseCondition};
use windlass_kernel::run::{Next, Work};

use crate::run::harness::{Act, Lab, Script, changed, done, failure};
use crate::run::plans::{diamond, driver, gate, hold, phase, redo, serial, spine, stop, with};

pub fn walk(plan: windlass_kernel::run::plan::Plan, script: Script) -> Vec<String> {
    script.walk(&mut Lab::new(plan))
}

/// `start` and `done` of these phases, each in this attempt.
fn tries(rows: &[(&str, u32)]) -> Vec<String> {
    rows.iter()
        .flat_map(|(name, attempt)| {
            [format!("start {name} {attempt}"), format!("done {name} {attempt}")]
        })
        .collect()
}

fn sequence(parts: &[&[String]]) -> Vec<String> {
    parts.concat()
}

pub fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

fn until_review(first: &str, attempt: u32) -> Vec<String> {
    let all = ["hydrate", "policy", "design", "build", "review"];
    let from = all.iter().position(|name| *name == first).unwrap();
    tries(&all[from..].iter().map(|name| (*name, attempt)).collect::<Vec<_>>())
}

fn answer(text: &str) -> Act {
    Act::Done(done(json!({"verdict": "needs_revision", "findings": [text], "text": text})))
}

pub fn design(text: &str) -> Act {
    Act::Done(done(json!({"text": text})))
}

#[test]
fn a_calm_spine_passes() {
    let expected = sequence(&[
        &lines(&["begun"]),
        &until_review("hydrate", 1),
        &tries(&[("steward", 1)]),
        &lines(&["ended PASS pass"]),
    ]);
    assert_eq!(walk(spine(), Script::new()), expected);
}

#[test]
fn a_review_sends_back_twice_then_causes_a_hold() {
    let script = Script::new()
        .at("design", 1, design("one"))
        .at("design", 2, design("two"))
        .at("design", 3, design("three"))
        .at("review", 1, answer("x"))
        .at("review", 2, answer("x"))
        .at("review", 3, answer("x"))
        .votes(&[("ann", Approved)]);
    let expected = sequence(&[
        &lines(&["begun"]),
        &until_review("hydrate", 1),
        &lines(&["back review/gate needs_revision -> design 1"]),
        &until_review("design", 2),
        &lines(&["back review/gate needs_revision -> design 2"]),
        &until_review("design", 3),
        &lines(&["held 1 ESCALATION_REQUESTED at review for 1", "ann APPROVED"]),
        &lines(&["resumed", "continued"]),
        &tries(&[("steward", 1)]),
        &lines(&["ended PASS pass"]),
    ]);
    assert_eq!(walk(spine(), script), expected);
}

#[test]
fn findings_are_passed_to_the_redone_phase() {
    let mut lab = Lab::new(spine());
    let script = Script::new().at("review", 1, answer("too long")).at("design", 2, Act::Wait);
    assert!(script.walk(&mut lab).ends_with(&lines(&["held 1 CALL_APPROVAL at design for 1"])));
    let design = lab.run.position("design").unwrap();
    assert_eq!(lab.run.phases[design].findings, json!(["too long"]));
    assert_eq!(lab.run.phases[lab.run.position("build").unwrap()].findings, json!(null));
}

#[test]
fn a_rejection_blocks_and_an_escalation_needs_two_approvals() {
    let rejected = walk(spine(), Script::new().at("review", 1, Act::Say("rejected")));
    let expected = sequence(&[
        &lines(&["begun"]),
        &until_review("hydrate", 1),
        &lines(&["ended BLOCKED gate_rejected"]),
    ]);
    assert_eq!(rejected, expected);
    let script = Script::new()
        .at("review", 1, Act::Say("escalate"))
        .votes(&[("ann", Approved), ("bob", Approved)]);
    let expected = sequence(&[
        &lines(&["begun"]),
        &until_review("hydrate", 1),
        &lines(&["held 1 ESCALATION_REQUESTED at review for 2", "ann APPROVED", "bob APPROVED"]),
        &lines(&["resumed", "continued"]),
        &tries(&[("steward", 1)]),
        &lines(&["ended PASS pass"]),
    ]);
    assert_eq!(walk(spine(), script), expected);
}

#[test]
fn an_unknown_verdict_is_never_a_pass() {
    for verdict in ["", "Approved", "approved ", "pass", "continue"] {
        let script = Script::new().at(
            "review",
            1,
            Act::Done(done(json!({"verdict": verdict, "findings": []}))),
        );
        let told = walk(spine(), script);
        assert_eq!(told.last().unwrap(), "ended BLOCKED unsupported_verdict", "{verdict}");
    }
    for answer in
        [json!({}), json!({"verdict": 1}), json!({"verdict": ["approved"]}), json!("approved")]
    {
        let told = walk(spine(), Script::new().at("review", 1, Act::Done(done(answer))));
        assert_eq!(told.last().unwrap(), "ended BLOCKED unsupported_verdict");
    }
}

#[test]
fn the_same_work_twice_is_no_progress_and_alternating_work_is_oscillation() {
    let script = Script::new()
        .at("design", 1, design("same"))
        .at("review", 1, answer("x"))
        .at("design", 2, design("same"))
        .at("review", 2, answer("y"));
    assert_eq!(walk(spine(), script).last().unwrap(), "ended BLOCKED no_progress");
    let plan = with(spine(), |plan| {
        plan.phases[4].gate = gate(&[
            ("approved", Effect::Continue),
            ("needs_revision", redo("design", 9, Effect::Block)),
        ]);
    });
    let build = |diff: &str| {
        Act::Done(windlass_kernel::run::PhaseResult {
            change: Some(changed(diff, 1)),
            ..done(json!({}))
        })
    };
    let mut script = Script::new();
    for (attempt, diff) in [(1, "a"), (2, "b"), (3, "a")] {
        script = script.at("build", attempt, build(diff)).at("review", attempt, answer("x"));
    }
    let told = walk(plan.clone(), script);
    assert_eq!(told.last().unwrap(), "ended BLOCKED oscillation_detected");
    assert_eq!(told.iter().filter(|line| line.starts_with("back")).count(), 2);
    // The same answers with another diff each time are progress.
    let mut script = Script::new();
    for (attempt, diff) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        script = script.at("build", attempt, build(diff)).at("review", attempt, answer("x"));
    }
    assert_eq!(walk(plan, script).last().unwrap(), "ended PASS pass");
}

#[test]
fn the_driver_skips_phases_whose_condition_is_not_met() {
    let calm = [("p0", 1), ("p1", 1), ("p2", 1)];
    let rest = [("p3", 1), ("p4", 1), ("p5", 1), ("p6", 1)];
    let end = [("p8", 1), ("p9", 1), ("p10", 1)];
    let expected = sequence(&[
        &lines(&["begun"]),
        &tries(&calm),
        &lines(&["skip p2a: `intent` is not known"]),
        &tries(&rest),
        &lines(&["skip p7: no intervention is needed"]),
        &tries(&end),
        &lines(&["ended PASS pass"]),
    ]);
    assert_eq!(walk(driver(), Script::new()), expected);
    let intent = |value: &str| {
        let facts = [("intent".to_owned(), value.to_owned())].into();
        Act::Done(windlass_kernel::run::PhaseResult { facts, ..done(json!({})) })
    };
    let told = walk(driver(), Script::new().at("p1", 1, intent("generate_context")));
    assert_eq!(told[7..9], ["start p2a 1", "done p2a 1"]);
    let told = walk(driver(), Script::new().at("p1", 1, intent("refactor")));
    assert_eq!(told[7], "skip p2a: `intent` is `refactor`");
}

#[test]
fn the_driver_intervenes_once_then_halts() {
    let before = [("p0", 1), ("p1", 1), ("p2", 1)];
    let first = [("p3", 1), ("p4", 1), ("p5", 1), ("p6", 1)];
    let common = sequence(&[
        &lines(&["begun"]),
        &tries(&before),
        &lines(&["skip p2a: `intent` is not known"]),
        &tries(&first),
        &lines(&["back p6/gate intervene -> p7 1"]),
        &tries(&[("p7", 1), ("p6", 2)]),
    ]);
    let mended = Script::new().at("p6", 1, Act::Say("intervene"));
    let end = tries(&[("p8", 1), ("p9", 1), ("p10", 1)]);
    let expected = sequence(&[&common, &end, &lines(&["ended PASS pass"])]);
    assert_eq!(walk(driver(), mended), expected);
    let twice = Script::new().at("p6", 1, Act::Say("intervene")).at("p6", 2, Act::Say("intervene"));
    assert_eq!(walk(driver(), twice), sequence(&[&common, &lines(&["ended BLOCKED HALT"])]));
}

#[test]
fn a_failed_intervention_is_repeated_after_an_approval() {
    let plan = with(driver(), |plan| {
        let at = plan.phases.iter().position(|phase| phase.id == "p7").unwrap();
        plan.phases[at].gate = gate(&[("ok", Effect::Continue), ("failed", hold())]);
    });
    let script = Script::new()
        .at("p6", 1, Act::Say("intervene"))
        .at("p7", 1, Act::Done(failure("timeout")))
        .votes(&[("ann", Approved)]);
    let told = walk(plan, script);
    let from = told.iter().position(|line| line.starts_with("failed p7")).unwrap();
    assert_eq!(
        told[from..from + 7],
        [
            "failed p7 1 timeout",
            "held 1 ESCALATION_REQUESTED at p7 for 1",
            "ann APPROVED",
            "resumed",
            "continued",
            "start p7 2",
            "done p7 2"
        ]
    );
    assert_eq!(told[from + 7], "start p6 2");
}

#[test]
fn branches_run_in_parallel() {
    let mut lab = Lab::new(diamond());
    let expected = lines(&[
        "begun",
        "start a 1",
        "done a 1",
        "start b 1",
        "start c 1",
        "done b 1",
        "done c 1",
        "start d 1",
        "done d 1",
        "ended PASS pass",
    ]);
    assert_eq!(Script::new().walk(&mut lab), expected);
    let mut lab = Lab::new(with(diamond(), |plan| {
        plan.phases[1].gate =
            gate(&[("approved", Effect::Continue), ("no", redo("a", 1, stop("s")))]);
    }));
    // b is judged while c is in progress: c is completed, d does not start, then both are redone.
    let script = Script::new().at("b", 1, Act::Say("no"));
    let expected = lines(&[
        "begun",
        "start a 1",
        "done a 1",
        "start b 1",
        "start c 1",
        "done b 1",
        "done c 1",
        "back b/gate no -> a 1",
        "start a 2",
        "done a 2",
        "start b 2",
        "start c 2",
        "done b 2",
        "done c 2",
        "start d 1",
        "done d 1",
        "ended PASS pass",
    ]);
    assert_eq!(script.walk(&mut lab), expected);
}

#[test]
fn work_is_requested_for_all_phases_in_progress() {
    let mut lab = Lab::new(diamond());
    while !matches!(lab.run.next(), Next::Perform(works) if works.len() == 2) {
        match lab.run.next() {
            Next::Record(event) => lab.record(*event),
            Next::Perform(_) => lab.record(windlass_kernel::run::Event::PhaseDone {
                phase: "a".into(),
                attempt: 1,
                done: Box::new(done(json!({}))),
            }),
            other => panic!("{other:?}"),
        }
    }
    let works = vec![Work::Do { phase: 1, attempt: 1 }, Work::Do { phase: 2, attempt: 1 }];
    assert_eq!(lab.run.next(), Next::Perform(works));
}

/// A phase that waits for an intervention continues if the intervention is skipped.
#[test]
fn a_skipped_intervention_unblocks_waiting_phases() {
    let mend = Effect::Intervene { phase: "m".into(), then: Box::new(stop("HALT")) };
    let plan = serial(vec![
        phase("u", &[]),
        with(phase("m", &["u"]), |phase| phase.when = PhaseCondition::Intervention),
        with(phase("y", &["m"]), |phase| {
            phase.gate = gate(&[("ok", Effect::Continue), ("no", redo("u", 1, Effect::Block))]);
        }),
        with(phase("x", &["u"]), |phase| {
            phase.gate = gate(&[("ok", Effect::Continue), ("mend", mend)]);
        }),
    ]);
    let script = Script::new().at("x", 1, Act::Say("mend")).at("y", 2, Act::Say("no"));
    let told = script.walk(&mut Lab::new(plan));
    assert_eq!(told[told.len() - 3..], ["start x 2", "done x 2", "ended PASS pass"]);
}
