//! People who send a run back: an earlier phase is done again with what they found.

use serde_json::json;
use windlass_kernel::run::VoteDecision::{Approved, Rejected};
use windlass_kernel::run::plan::{Effect, Plan};
use windlass_kernel::run::{Event, Next, SendBack, Vote, VoteDecision, WaitsFor};
use windlass_testkit::people;

use crate::run::harness::{Act, Lab, Script, ended};
use crate::run::plans::{command, gate, hold, person, phase, serial, spine, with};

/// Two phases of agents, one of a person, and one after it.
fn asked() -> Plan {
    let sign = with(phase("sign", &["b"]), |phase| phase.doer = person(1));
    serial(vec![phase("a", &[]), phase("b", &["a"]), sign, phase("c", &["sign"])])
}

fn held(plan: Plan) -> Lab {
    let mut lab = Lab::new(plan);
    Script::new().walk(&mut lab);
    assert_eq!(lab.run.next(), Next::Wait);
    lab
}

fn back(lab: &Lab, by: &str, to: &str, findings: &[&str]) -> Event {
    let findings = findings.iter().map(|one| (*one).to_owned()).collect();
    let back = SendBack { findings, to: to.to_owned() };
    let shown = lab.run.hold.as_ref().unwrap().shown;
    Event::Voted(people::vote_back(&lab.run.head, by, back, shown))
}

fn resumed() -> Event {
    Event::Resumed { by: "ann".into(), worked_ms: None }
}

#[test]
fn a_run_goes_back_to_the_phase_with_the_findings_and_all_that_follows_is_done_again() {
    let mut lab = held(asked());
    lab.record(back(&lab, "ann", "b", &["x.rs:3: no", "y.rs:1: twice"]));
    assert!(lab.takes(&ended("checkpoint_rejected")).is_ok(), "a person may still give it up");
    lab.record(resumed());
    let state =
        |lab: &Lab, at: usize| (lab.run.phases[at].status.as_str(), lab.run.phases[at].attempt);
    assert_eq!(state(&lab, 0), ("complete", 1));
    assert_eq!(state(&lab, 1), ("pending", 1));
    assert_eq!(state(&lab, 2), ("pending", 1));
    assert_eq!(lab.run.phases[1].findings, json!(["ann: because", "x.rs:3: no", "y.rs:1: twice"]));
    let told = Script::new().votes(&[("ann", Approved)]).walk(&mut lab);
    assert_eq!(
        told,
        [
            "continued",
            "start b 2",
            "done b 2",
            "start sign 2",
            "held 2 PERSON_REQUESTED at sign for 1",
            "ann APPROVED",
            "resumed",
            "continued",
            "start c 1",
            "done c 1",
            "ended PASS pass",
        ]
    );
    assert_eq!(lab.run.phases[1].findings, json!(null), "what was done is not found again");
    assert_eq!(lab.refolded(), lab.run);
}

#[test]
fn only_work_that_led_to_the_hold_can_be_done_again() {
    let lab = held(asked());
    assert_eq!(lab.run.redo_targets(&lab.run.hold.as_ref().unwrap().held), ["a", "b"]);
    for (to, why) in [
        ("sign", "not done by an agent"),
        ("c", "has not been done yet"),
        ("zzz", "no phase"),
        ("", "no phase"),
    ] {
        let refused = lab.takes(&back(&lab, "ann", to, &[])).unwrap_err();
        assert!(refused.contains(why), "{to}: {refused}");
    }
    for findings in [vec![" "; 1], vec!["x"; 201]] {
        assert!(lab.takes(&back(&lab, "ann", "b", &findings)).unwrap_err().contains("findings"));
    }
    // Others that do not lead there are not done again.
    let parallel = with(asked(), |plan| plan.phases[1].needs.clear());
    let plan = with(parallel, |plan| plan.phases[2].needs = vec!["b".into()]);
    let lab = held(plan);
    assert!(lab.takes(&back(&lab, "ann", "a", &[])).unwrap_err().contains("does not follow"));
}

#[test]
fn what_is_sent_back_is_signed_and_is_a_rejection() {
    let lab = held(asked());
    let Event::Voted(good) = back(&lab, "ann", "b", &["x"]) else { unreachable!() };
    let other = SendBack { findings: vec!["y".into()], to: "b".into() };
    for bad in [
        Vote { send_back: Some(other), ..(*good).clone() },
        Vote { send_back: None, ..(*good).clone() },
    ] {
        assert!(lab.takes(&Event::Voted(Box::new(bad))).unwrap_err().contains("signature"));
    }
    let approved = Vote { decision: VoteDecision::Approved, ..*good };
    assert!(lab.takes(&Event::Voted(Box::new(approved))).unwrap_err().contains("only a rejection"));
}

#[test]
fn all_who_reject_must_send_back_and_what_they_found_is_joined() {
    let two = |plan: &mut Plan| plan.phases[2].doer = person(2);
    // One who rejects is enough for a person phase; an approval before it changes nothing.
    let mut lab = held(with(asked(), two));
    lab.record(lab.vote("bob", Approved));
    lab.record(back(&lab, "ann", "a", &["one"]));
    lab.record(resumed());
    assert_eq!(lab.run.phases[0].findings, json!(["ann: because", "one"]));
    assert_eq!(lab.run.phases[1].status.as_str(), "pending");
    // Whoever rejects without sending back ends the run.
    let mut lab = held(with(asked(), two));
    lab.record(lab.vote("ann", Rejected));
    assert!(lab.takes(&resumed()).unwrap_err().contains("was rejected"));
}

#[test]
fn an_escalation_goes_back_to_the_work_before_it() {
    let mut lab = Lab::new(spine());
    Script::new().at("review", 1, Act::Say("escalate")).walk(&mut lab);
    let held = &lab.run.hold.as_ref().unwrap().held;
    assert_eq!(held.phase, "review");
    assert_eq!(lab.run.redo_default(held), Some("build"), "the work is done again, not its review");
    let plan = with(serial(vec![phase("a", &[]), phase("b", &["a"])]), |plan| {
        plan.phases[1].gate = gate(&[("no", Effect::Block), ("ask", hold())]);
    });
    let mut lab = Lab::new(plan);
    Script::new().at("b", 1, Act::Say("ask")).walk(&mut lab);
    let held = lab.run.hold.clone().unwrap().held;
    assert_eq!(lab.run.redo_default(&held), Some("a"));
    lab.record(back(&lab, "ann", "a", &["better"]));
    lab.record(resumed());
    assert_eq!(lab.run.phases[0].findings, json!(["ann: because", "better"]));
    assert_eq!(lab.refolded(), lab.run);
}

#[test]
fn an_agent_is_asked_before_a_program_that_only_measures() {
    let measured = with(asked(), |plan| plan.phases[1].doer = command(true));
    let lab = held(measured);
    let asked = lab.run.hold.clone().unwrap().held;
    assert_eq!(lab.run.redo_targets(&asked), ["a", "b"]);
    assert_eq!(lab.run.redo_default(&asked), Some("a"));
}

#[test]
fn the_work_whose_call_waits_is_done_again_and_a_budget_hold_is_not_about_work() {
    let mut lab = Lab::new(asked());
    Script::new().at("b", 1, Act::Wait).walk(&mut lab);
    let held = lab.run.hold.clone().unwrap().held;
    assert!(matches!(held.call.map(|call| WaitsFor::Call { call }), Some(WaitsFor::Call { .. })));
    assert_eq!(lab.run.redo_default(&held), Some("b"));
    lab.record(back(&lab, "ann", "b", &["do not call that"]));
    lab.record(resumed());
    let told = Script::new().votes(&[("ann", Approved)]).walk(&mut lab);
    assert!(told.contains(&"start b 2".to_owned()), "{told:?}");
    assert_eq!(told.last().unwrap(), "ended PASS pass");
    let mut lab = Lab::new(with(asked(), |plan| plan.budget.attempts = Some(1)));
    Script::new().walk(&mut lab);
    lab.record(back(&lab, "ann", "b", &[]));
    lab.record(resumed());
    Script::new().walk(&mut lab);
    let held = lab.run.hold.clone().unwrap().held;
    assert_eq!(held.trigger.as_str(), "BUDGET_EXHAUSTED", "a person grants another attempt");
    assert!(lab.run.redo_targets(&held).is_empty());
}
