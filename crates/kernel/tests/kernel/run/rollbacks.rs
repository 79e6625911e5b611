//! Rollbacks to earlier and later checkpoints, from any state.

use serde_json::json;
use windlass_kernel::State;
use windlass_kernel::run::VoteDecision::{Approved, Rejected};
use windlass_kernel::run::plan::{CheckTiming, Effect, PhaseCondition, Plan};
use windlass_kernel::run::{AttemptStage, CheckpointKind, Event, Next, Rollback, Work};

use crate::run::checkpoints::kept;
use crate::run::harness::{Act, Lab, Script, changed, done, ended, failure};
use crate::run::plans::{check, gate, hold, person, phase, redo, serial, stop, with};

fn three() -> Plan {
    kept(serial(vec![phase("a", &[]), phase("b", &["a"]), phase("c", &["b"])]))
}

/// A run that has ended.
fn through(plan: Plan) -> Lab {
    with(Lab::new(plan), |lab| {
        Script::new().walk(lab);
        assert_eq!(lab.run.head.state, Some(State::Terminal));
    })
}

fn statuses(lab: &Lab) -> Vec<&'static str> {
    lab.run.phases.iter().map(|state| state.status.as_str()).collect()
}

fn begin(rollback: Rollback) -> Event {
    Event::RollbackBegun(Box::new(rollback))
}

#[test]
fn a_rollback_to_before_a_phase_repeats_it() {
    let mut lab = through(three());
    let checkpoint = lab.checkpoint("PRE_b_v1");
    assert_eq!(lab.run.archived_by(&checkpoint), ["b", "c"]);
    lab.roll_back(&checkpoint, true);
    assert_eq!(statuses(&lab), ["complete", "pending", "pending"]);
    assert_eq!(lab.run.ended, None);
    let told = Script::new().walk(&mut lab);
    assert_eq!(
        told,
        [
            "start b 2",
            "PRE_b_v3 started",
            "done b 2",
            "POST_b_v2 succeeded",
            "start c 2",
            "PRE_c_v2 started",
            "done c 2",
            "POST_c_v2 succeeded",
            "ended PASS pass",
        ]
    );
    assert_eq!(
        lab.line(),
        [
            "PRE_a_v1",
            "POST_a_v1",
            "PRE_b_v1",
            "PRE_b_v2",
            "PRE_b_v3",
            "POST_b_v2",
            "PRE_c_v2",
            "POST_c_v2"
        ]
    );
    let marker = lab.checkpoint("PRE_b_v2");
    assert_eq!((marker.kind, marker.parent), (CheckpointKind::Rollback, Some(checkpoint.id)));
}

#[test]
fn a_rollback_to_after_a_phase_keeps_its_result() {
    let mut lab = through(three());
    let before = lab.run.phases[1].clone();
    let checkpoint = lab.checkpoint("POST_b_v1");
    assert_eq!(lab.run.archived_by(&checkpoint), ["c"]);
    lab.roll_back(&checkpoint, true);
    assert_eq!(statuses(&lab), ["complete", "complete", "pending"]);
    assert_eq!(lab.run.phases[1], before);
    let told = Script::new().walk(&mut lab);
    assert_eq!(told[0], "start c 2");
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

#[test]
fn from_wherever_it_stands() {
    let plan = || {
        with(three(), |plan| {
            plan.phases[1].gate = gate(&[("ok", Effect::Continue), ("no", stop("s"))]);
            plan.phases[2].doer = person(1);
        })
    };
    let held = with(Lab::new(plan()), |lab| {
        Script::new().walk(lab);
    });
    let voted = with(held.clone(), |lab| lab.record(lab.vote("ann", Approved)));
    let resumed =
        with(voted.clone(), |lab| lab.record(Event::Resumed { by: "ann".into(), worked_ms: None }));
    let passed = with(resumed.clone(), |lab| {
        Script::new().walk(lab);
    });
    let blocked = with(Lab::new(plan()), |lab| {
        Script::new().at("b", 1, Act::Say("no")).walk(lab);
    });
    let rejected = with(held.clone(), |lab| {
        lab.record(lab.vote("ann", Rejected));
        lab.record(ended("checkpoint_rejected"));
    });
    let working = with(resumed.clone(), |lab| {
        let checkpoint = lab.checkpoint("PRE_b_v1");
        lab.roll_back(&checkpoint, true);
        lab.record(Event::PhaseStarted { phase: "b".into(), attempt: 2 });
        lab.record(crate::run::harness::invoke(lab, "b", 2));
    });
    for (lab, state) in [
        (held, State::Checkpoint),
        (voted, State::Checkpoint),
        (resumed, State::Resumed),
        (passed, State::Terminal),
        (blocked, State::Terminal),
        (rejected, State::Terminal),
        (working, State::Running),
    ] {
        assert_eq!(lab.run.head.state, Some(state));
        for name in ["PRE_a_v1", "POST_a_v1", "PRE_b_v1", "POST_b_v1"] {
            let mut lab = lab.clone();
            let (checkpoint, spent) = (lab.checkpoint(name), lab.run.spent);
            lab.roll_back(&checkpoint, true);
            assert_eq!((&lab.run.hold, &lab.run.ended), (&None, &None));
            assert_eq!(lab.run.spent, spent);
            assert!(lab.run.phases.iter().all(|phase| !phase.uncertain));
            let told = Script::new().votes(&[("bob", Approved)]);
            let blocked = lab.run.phases[1].pending_verdict.is_some();
            if blocked {
                // The verdict is the same again.
                assert!(matches!(lab.run.next(), Next::Record(event)
                    if matches!(*event, Event::Ended { .. })));
                continue;
            }
            assert_eq!(told.walk(&mut lab).last().unwrap(), "ended PASS pass", "{name}");
        }
    }
}

#[test]
fn a_rollback_restores_facts_and_the_workspace() {
    let stating = |value: &str, lines| {
        let mut done = done(json!({}));
        done.facts.insert("f".into(), value.into());
        done.facts.insert(value.into(), "x".into());
        done.change = Some(changed(value, lines));
        Act::Done(done)
    };
    let mut lab = Lab::new(three());
    Script::new()
        .at("a", 1, stating("1", 10))
        .at("b", 1, stating("2", 20))
        .at("c", 1, stating("3", 30))
        .walk(&mut lab);
    let facts = |lab: &Lab| lab.run.facts.keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!((facts(&lab).as_str(), lab.run.spent.changed_lines), ("1 2 3 f", 30));
    for (name, wanted, value) in [
        ("PRE_a_v1", "", None),
        ("PRE_b_v1", "1 f", Some("1")),
        ("POST_b_v1", "1 2 f", Some("2")),
        ("PRE_a_v1", "", None),
        ("POST_c_v1", "1 2 3 f", Some("3")),
        ("POST_a_v1", "1 f", Some("1")),
    ] {
        let checkpoint = lab.checkpoint(name);
        lab.record(begin(lab.wish(&checkpoint, true)));
        lab.record(Event::RolledBack { change: Some(changed("then", 7)) });
        assert_eq!(
            (facts(&lab).as_str(), lab.run.facts.get("f").map(String::as_str)),
            (wanted, value)
        );
        assert_eq!(
            (lab.run.change.clone(), lab.run.spent.changed_lines),
            (Some(changed("then", 7)), 7)
        );
        assert_eq!(lab.run.checkpoints.last().unwrap().kind, CheckpointKind::Rollback);
    }
    lab.record(begin(lab.wish(&lab.checkpoint("PRE_a_v1"), true)));
    assert_eq!(
        lab.run.tree,
        lab.run.checkpoints.last().unwrap().workspace.clone().map(|kept| kept.tree)
    );
    lab.record_only(Event::RolledBack { change: None });
    assert_eq!((&lab.run.change, lab.run.spent.changed_lines), (&None, 0));
    assert_eq!(
        lab.run.tree,
        Some(format!("{} and more", lab.checkpoint("PRE_a_v1").workspace.unwrap().tree))
    );
}

/// The result of an attempt stays the same, however often the run was rolled back in between.
#[test]
fn two_rollbacks_and_a_roll_forward() {
    let say = |text: &str| Act::Done(done(json!({"text": text})));
    let mut lab = Lab::new(three());
    Script::new().at("a", 1, say("first")).walk(&mut lab);
    lab.roll_back(&lab.checkpoint("PRE_a_v1"), true);
    Script::new().at("a", 2, say("second")).walk(&mut lab);
    let text = |lab: &Lab| lab.run.phases[0].done.as_ref().unwrap().answer["text"].clone();
    assert_eq!(text(&lab), "second");
    // To the lineage that was archived.
    lab.roll_back(&lab.checkpoint("PRE_b_v1"), true);
    assert_eq!(
        (text(&lab), statuses(&lab)),
        (json!("first"), vec!["complete", "pending", "pending"])
    );
    // From there on, nothing of the other lineage counts.
    Script::new().walk(&mut lab);
    assert_eq!(text(&lab), "first");
    let later = lab.run.checkpoints.last().unwrap().clone();
    lab.roll_back(&lab.checkpoint("POST_a_v2"), true);
    assert_eq!(text(&lab), "second");
    lab.roll_back(&later, true);
    assert_eq!((text(&lab), statuses(&lab)), (json!("first"), vec!["complete"; 3]));
    assert_eq!(lab.run.phases[0].attempt, 2);
    let told = Script::new().walk(&mut lab);
    assert_eq!(told, ["ended PASS pass"]);
}

#[test]
fn a_rollback_restores_the_counts_of_send_backs() {
    let mut plan = three();
    plan.phases[2].gate = gate(&[("ok", Effect::Continue), ("no", redo("b", 2, stop("enough")))]);
    let mut lab = Lab::new(plan);
    let told = Script::new().at("c", 1, Act::Say("no")).walk(&mut lab);
    assert_eq!(told.iter().filter(|line| line.starts_with("back")).count(), 1);
    // At the checkpoint before, it may be sent back twice again.
    lab.roll_back(&lab.checkpoint("PRE_c_v1"), true);
    let say = |attempt| format!("{attempt}");
    let no = |text: u32| Act::Done(done(json!({"verdict": "no", "text": say(text)})));
    let mut twice = lab.clone();
    let told = Script::new()
        .at("c", 3, no(3))
        .at("b", 3, no(3))
        .at("c", 4, no(4))
        .at("b", 4, no(4))
        .at("c", 5, no(5))
        .walk(&mut twice);
    assert!(told.contains(&"back c/gate no -> b 2".to_owned()), "{told:#?}");
    assert_eq!(told.last().unwrap(), "ended BLOCKED enough");
    // At the one after it, once; also on the archived lineage.
    twice.roll_back(&twice.checkpoint("PRE_b_v2"), true);
    let told = Script::new()
        .at("b", 5, no(1))
        .at("c", 6, no(6))
        .at("b", 6, no(2))
        .at("c", 7, no(7))
        .walk(&mut twice);
    assert!(told.contains(&"back c/gate no -> b 2".to_owned()), "{told:#?}");
    assert_eq!(told.last().unwrap(), "ended BLOCKED enough");
}

#[test]
fn a_rollback_restores_findings() {
    let mut plan = three();
    plan.phases[2].gate = gate(&[("ok", Effect::Continue), ("no", redo("b", 1, stop("enough")))]);
    let mut lab = Lab::new(plan);
    Script::new().at("c", 1, Act::Say("no")).walk(&mut lab);
    lab.roll_back(&lab.checkpoint("PRE_b_v2"), true);
    assert_eq!(lab.run.phases[1].findings, json!(["c 1"]));
    lab.roll_back(&lab.checkpoint("PRE_b_v1"), true);
    assert_eq!(lab.run.phases[1].findings, json!(null));
    lab.roll_back(&lab.checkpoint("PRE_c_v2"), true);
    assert_eq!(lab.run.phases[2].findings, json!(null));
}

/// An attempt that a person approves after a failed one starts without the earlier findings.
#[test]
fn a_rollback_does_not_restore_later_findings() {
    let mut plan = three();
    plan.phases[1].gate = gate(&[("ok", Effect::Continue), ("failed", hold())]);
    plan.phases[2].gate = gate(&[("ok", Effect::Continue), ("no", redo("b", 1, stop("enough")))]);
    let mut lab = Lab::new(plan);
    Script::new()
        .at("c", 1, Act::Say("no"))
        .at("b", 2, Act::Done(failure("timeout")))
        .votes(&[("ann", Approved)])
        .walk(&mut lab);
    for (name, findings) in [("PRE_b_v2", json!(["c 1"])), ("PRE_b_v3", json!(null))] {
        lab.roll_back(&lab.checkpoint(name), true);
        assert_eq!(lab.run.phases[1].findings, findings, "{name}");
    }
}

/// A required intervention is still required.
#[test]
fn a_rollback_repeats_an_intervention() {
    let mend = Effect::Intervene { phase: "mend".into(), then: Box::new(stop("HALT")) };
    let plan = kept(serial(vec![
        phase("a", &[]),
        with(phase("b", &["a"]), |phase| {
            phase.gate = gate(&[("ok", Effect::Continue), ("mend", mend)]);
        }),
        with(phase("mend", &["a"]), |phase| phase.when = PhaseCondition::Intervention),
        phase("c", &["b", "mend"]),
    ]));
    let mut lab = Lab::new(plan);
    Script::new().at("b", 1, Act::Say("mend")).walk(&mut lab);
    for (name, told) in [
        ("PRE_mend_v1", ["start mend 2", "start b 3", "start c 2"].as_slice()),
        ("POST_mend_v1", &["start b 4", "start c 3"]),
        ("PRE_b_v2", &["start b 5", "start c 4"]),
        ("POST_a_v1", &["start b 6", "start c 5"]),
    ] {
        lab.roll_back(&lab.checkpoint(name), true);
        let walked = Script::new().walk(&mut lab);
        let started: Vec<&String> =
            walked.iter().filter(|line| line.starts_with("start")).collect();
        assert_eq!(started, told, "{name}: {walked:#?}");
        assert_eq!(walked.last().unwrap(), "ended PASS pass");
    }
    // At the checkpoint before the verdict, the intervention is possible again.
    lab.roll_back(&lab.checkpoint("PRE_b_v1"), true);
    let walked = Script::new().at("b", 7, Act::Say("mend")).walk(&mut lab);
    assert!(walked.contains(&"start mend 3".to_owned()), "{walked:#?}");
}

#[test]
fn a_rollback_to_the_end_of_a_phase_judges_it_again() {
    let mut plan = three();
    plan.phases[1].checks = vec![
        check("x", CheckTiming::Before, &[("ok", Effect::Continue)]),
        check("y", CheckTiming::After, &[("ok", Effect::Continue), ("no", stop("bad"))]),
    ];
    let mut lab = through(plan);
    let checkpoint = lab.checkpoint("POST_b_v1");
    lab.roll_back(&checkpoint, true);
    assert_eq!(lab.run.next(), Next::Perform(vec![Work::Check { phase: 1, check: 1, attempt: 1 }]));
    let again = Script::new().at("b/y", 1, Act::Say("no")).walk(&mut lab.clone());
    assert_eq!(again, ["checked b/y 1 no", "ended BLOCKED bad"]);
    // Nothing is done before a person answers.
    lab.roll_back(&checkpoint, false);
    let told = Script::new().walk(&mut lab);
    assert_eq!(told, ["held 1 ROLLED_BACK at b for 1"]);
    let question = &lab.run.hold.as_ref().unwrap().held.question;
    assert!(question.contains("POST_b_v1"), "{question}");
    let told = Script::new().votes(&[("ann", Approved)]).walk(&mut lab);
    assert_eq!(told[..4], ["ann APPROVED", "resumed", "continued", "checked b/y 1 ok"]);
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

/// The checkpoint of a rollback has the state of the target.
#[test]
fn a_run_can_be_rolled_back_to_the_checkpoint_of_a_rollback() {
    let mut plan = three();
    plan.phases[1].checks = vec![check("y", CheckTiming::After, &[("ok", Effect::Continue)])];
    let mut lab = through(plan);
    lab.roll_back(&lab.checkpoint("POST_b_v1"), true);
    let marker = lab.run.checkpoints.last().unwrap().clone();
    Script::new().walk(&mut lab);
    assert_eq!(lab.run.archived_by(&marker), ["c"]);
    lab.roll_back(&marker, true);
    assert_eq!(statuses(&lab), ["complete", "running", "pending"]);
    assert_eq!(lab.run.phases[1].stage, AttemptStage::After(0));
    let told = Script::new().walk(&mut lab);
    assert_eq!((told[0].as_str(), told[1].as_str()), ("checked b/y 1 ok", "start c 3"));
}
