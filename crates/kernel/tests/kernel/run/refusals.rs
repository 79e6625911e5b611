//! Events that are impossible in the current state, and invalid plans.

use serde_json::json;
use windlass_kernel::run::plan::{
    BudgetedResource, CheckTiming, Effect, PHASES_MAX, PhaseCondition, Plan, RunOutcome, Trigger,
};
use windlass_kernel::run::{Event, HoldRequest, Next, PhaseResult, Usage, WaitsFor};

use crate::run::harness::{Act, Lab, Script, done, invoke, started};
use crate::run::plans::{
    check, command, diamond, gate, hold, parallel, person, phase, redo, serial, spine, stop, with,
};

/// Asserts that an event is refused for this reason.
#[track_caller]
fn refused(lab: &Lab, event: &Event, why: &str) {
    let error = lab.takes(event).unwrap_err();
    assert!(error.contains(why), "{error}");
}

fn begun(plan: Plan) -> Lab {
    with(Lab::new(plan), |lab| lab.record(Event::Begun {}))
}

fn start(phase: &str, attempt: u32) -> Event {
    Event::PhaseStarted { phase: phase.into(), attempt }
}

fn phase_done(phase: &str, attempt: u32, done: PhaseResult) -> Event {
    Event::PhaseDone { phase: phase.into(), attempt, done: Box::new(done) }
}

fn checked(check: &str) -> Event {
    Event::Checked {
        phase: "a".into(),
        attempt: 1,
        check: check.into(),
        verdict: "ok".into(),
        reason: String::new(),
        findings: json!(null),
        usage: Usage::default(),
        duration_ms: 0,
    }
}

fn held_of(lab: &Lab) -> HoldRequest {
    match lab.run.next() {
        Next::Record(event) => match *event {
            Event::Held(held) => *held,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_phase_starts_when_ready_and_with_its_next_attempt() {
    let lab = begun(diamond());
    refused(&lab, &start("b", 1), "not ready to start");
    refused(&lab, &start("z", 1), "no phase");
    refused(&lab, &start("a", 2), "not the next one");
    refused(&lab, &start("a", 0), "not the next one");
    let mut lab = lab;
    lab.record(start("a", 1));
    refused(&lab, &start("a", 1), "not ready to start");
    refused(&lab, &start("a", 2), "not ready to start");
    let two = vec![phase("a", &[]), phase("b", &[])];
    let mut lab = begun(serial(two.clone()));
    lab.record(start("a", 1));
    refused(&lab, &start("b", 1), "another phase");
    let mut lab = begun(parallel(two));
    lab.record(start("a", 1));
    assert_eq!(lab.takes(&start("b", 1)), Ok(()));
}

#[test]
fn no_phase_starts_while_the_run_stops_or_beyond_its_budget() {
    let two = vec![with(phase("a", &[]), |phase| phase.doer = person(1)), phase("b", &[])];
    let mut lab = begun(parallel(two));
    lab.record(start("a", 1));
    refused(&lab, &start("b", 1), "not ready to start");
    let plan = with(
        serial(vec![with(phase("a", &[]), |phase| {
            phase.gate = gate(&[("ok", Effect::Continue), ("no", redo("a", 9, Effect::Block))]);
        })]),
        |plan| plan.budget.attempts = Some(1),
    );
    let mut lab = begun(plan);
    Script::new().at("a", 1, Act::Say("no")).walk(&mut lab);
    let before_hold = Lab { run: lab.refolded(), ..lab.clone() };
    assert_eq!(before_hold.told().last().unwrap(), "held 1 BUDGET_EXHAUSTED attempts at a for 1");
    // Without the hold, the second attempt is not allowed.
    let mut lab = begun(lab.run.plan().unwrap().clone());
    lab.record(start("a", 1));
    lab.record(phase_done("a", 1, done(json!({"verdict": "no"}))));
    let Next::Record(back) = lab.run.next() else { panic!() };
    lab.record(*back);
    refused(&lab, &start("a", 2), "used all its attempts");
}

#[test]
fn only_phases_whose_condition_is_not_met_are_skipped() {
    let fact = PhaseCondition::Fact { fact: "f".into(), one_of: vec!["1".into()] };
    let lab = begun(serial(vec![
        phase("a", &[]),
        with(phase("b", &[]), |phase| phase.when = fact),
        with(phase("c", &["b"]), |phase| phase.when = PhaseCondition::Intervention),
    ]));
    let skip = |name: &str| Event::PhaseSkipped { phase: name.into(), reason: "r".into() };
    refused(&lab, &skip("a"), "must not be skipped");
    refused(&lab, &skip("c"), "not ready to start");
    refused(&lab, &start("b", 1), "must be skipped");
    assert_eq!(lab.takes(&skip("b")), Ok(()));
}

#[test]
fn work_ends_once_and_only_while_in_progress() {
    let checks = vec![
        check("x", CheckTiming::Before, &[("ok", Effect::Continue)]),
        check("y", CheckTiming::Before, &[("ok", Effect::Continue)]),
    ];
    let mut lab = begun(serial(vec![with(phase("a", &[]), |phase| phase.checks = checks)]));
    let done = || done(json!({}));
    refused(&lab, &phase_done("a", 1, done()), "not in progress");
    lab.record(start("a", 1));
    refused(&lab, &phase_done("a", 1, done()), "not in progress");
    refused(&lab, &checked("y"), "not the next one");
    refused(&lab, &checked("z"), "no check");
    lab.record(checked("x"));
    refused(&lab, &checked("x"), "not the next one");
    lab.record(checked("y"));
    refused(&lab, &checked("y"), "not the next one");
    refused(&lab, &phase_done("a", 2, done()), "not in progress");
    lab.record(phase_done("a", 1, done()));
    refused(&lab, &phase_done("a", 1, done()), "not in progress");
    refused(&lab, &invoke(&lab, "a", 1), "not in progress");
}

#[test]
fn a_person_phase_and_a_call_on_hold_are_not_ended_by_work() {
    let mut lab = begun(serial(vec![with(phase("a", &[]), |phase| phase.doer = person(1))]));
    lab.record(start("a", 1));
    refused(&lab, &phase_done("a", 1, done(json!({}))), "ends by answers or reviews");
    refused(&lab, &invoke(&lab, "a", 1), "no work in progress");
    let mut lab = begun(serial(vec![phase("a", &[])]));
    lab.record(start("a", 1));
    let call = windlass_kernel::TraceId(crate::run::harness::id(5));
    let waiting = Event::Waiting {
        phase: "a".into(),
        attempt: 1,
        change: None,
        evidence: serde_json::Value::Null,
        question: "q".into(),
        waits_for: WaitsFor::Call { call },
    };
    lab.record(waiting.clone());
    refused(&lab, &waiting, "no work in progress");
    refused(&lab, &phase_done("a", 1, done(json!({}))), "not in progress");
    let mut lab = begun(serial(vec![with(phase("a", &[]), |phase| phase.doer = command(false))]));
    lab.record(start("a", 1));
    lab.record(invoke(&lab, "a", 1));
    refused(&lab, &invoke(&lab, "a", 1), "another invocation is open");
    lab.record(Event::Restarted { by: "ann".into() });
    refused(&lab, &phase_done("a", 1, done(json!({}))), "not in progress");
    refused(&lab, &invoke(&lab, "a", 1), "no work in progress");
}

#[test]
fn invocations_are_numbered_without_gaps() {
    let mut lab = begun(serial(vec![phase("a", &[])]));
    lab.record(start("a", 1));
    for number in [0, 2, u64::MAX >> 12] {
        let Event::InvocationStarted { phase, attempt, agent, runner, model, .. } =
            invoke(&lab, "a", 1)
        else {
            unreachable!()
        };
        let (invocation, parent) = (number, None);
        let event =
            Event::InvocationStarted { phase, attempt, invocation, agent, runner, model, parent };
        refused(&lab, &event, "not the next one");
    }
}

/// The start of a subagent.
fn subagent(lab: &Lab, of: u64) -> Event {
    match invoke(lab, "a", 1) {
        Event::InvocationStarted { phase, attempt, invocation, agent, runner, model, .. } => {
            let parent = Some(of);
            Event::InvocationStarted { phase, attempt, invocation, agent, runner, model, parent }
        }
        other => other,
    }
}

#[test]
fn subagents_are_two_deep_and_belong_to_an_open_invocation() {
    let mut lab = begun(serial(vec![phase("a", &[])]));
    lab.record(start("a", 1));
    refused(&lab, &subagent(&lab, 1), "no open invocation 1");
    lab.record(invoke(&lab, "a", 1));
    lab.record(subagent(&lab, 1));
    lab.record(subagent(&lab, 1));
    lab.record(subagent(&lab, 2));
    refused(&lab, &subagent(&lab, 4), "at most 2 deep");
    refused(&lab, &subagent(&lab, 9), "no open invocation 9");
    let ended = |invocation: u64| Event::InvocationEnded {
        invocation,
        result: windlass_kernel::run::InvocationResult::Success,
        usage: Usage { input_tokens: 10, ..Usage::default() },
        duration_ms: 1,
        note: String::new(),
    };
    lab.record(ended(4));
    lab.record(ended(2));
    refused(&lab, &ended(2), "no such invocation");
    refused(&lab, &subagent(&lab, 2), "no open invocation 2");
    assert_eq!(lab.run.phases[0].open_invocation, Some(1), "its own goes on");
    assert_eq!(lab.run.spent.tokens, 20, "their use is the run's");
    // What a dead process left open is closed.
    lab.record(Event::Restarted { by: "ann".into() });
    refused(&lab, &ended(3), "no such invocation");
}

#[test]
fn a_run_is_sent_back_only_according_to_the_verdict() {
    let mut lab = Lab::new(with(spine(), |plan| {
        plan.phases[4].gate = gate(&[
            ("approved", Effect::Continue),
            ("needs_revision", redo("design", 1, redo("build", 1, Effect::Block))),
        ]);
    }));
    let mut reviewed = None;
    while reviewed.is_none() {
        match lab.run.next() {
            Next::Record(event) if matches!(*event, Event::SentBack { .. }) => {
                reviewed = Some(*event)
            }
            Next::Record(event) => lab.record(*event),
            _ => {
                let state = |name: &str| lab.run.phases[lab.run.position(name).unwrap()].status;
                let running = windlass_kernel::run::PhaseStatus::Running;
                let names = ["hydrate", "policy", "design", "build", "review"];
                let name = names.into_iter().find(|name| state(name) == running).unwrap();
                lab.record(phase_done(name, 1, done(json!({"verdict": "needs_revision"}))));
            }
        }
    }
    let good = reviewed.unwrap();
    assert_eq!(lab.takes(&good), Ok(()));
    let Event::SentBack { phase, source, verdict, to, count, fingerprint } = good else { panic!() };
    let event = |phase: &str, source: &str, verdict: &str, to: &str, count: u32| Event::SentBack {
        phase: phase.into(),
        source: source.into(),
        verdict: verdict.into(),
        to: to.into(),
        count,
        fingerprint,
    };
    assert_eq!((phase.as_str(), to.as_str(), count), ("review", "design", 1));
    refused(&lab, &event("build", &source, &verdict, &to, 1), "has no pending verdict");
    for bad in [
        event(&phase, "other", &verdict, &to, 1),
        event(&phase, &source, "approved", &to, 1),
        event(&phase, &source, &verdict, "build", 1),
        event(&phase, &source, &verdict, &to, 2),
    ] {
        refused(&lab, &bad, "does not send the run back this way");
    }
    refused(&lab, &event(&phase, &source, &verdict, "nowhere", 1), "no phase");
}

#[test]
fn a_hold_has_a_cause() {
    let mut lab = begun(serial(vec![phase("a", &[]), phase("b", &["a"])]));
    let Event::Held(restart) = lab.run.restart_hold() else { panic!() };
    for trigger in Trigger::ALL {
        let held = HoldRequest { trigger, ..(*restart).clone() };
        let taken = lab.takes(&Event::Held(Box::new(held)));
        assert_eq!(taken.is_ok(), trigger == Trigger::RestartRequested, "{trigger:?}");
    }
    lab.record(start("a", 1));
    for trigger in Trigger::ALL {
        let held = HoldRequest { trigger, ..(*restart).clone() };
        let taken = lab.takes(&Event::Held(Box::new(held)));
        assert_eq!(taken.is_ok(), trigger == Trigger::RestartRequested, "{trigger:?}");
    }
    for held in [
        HoldRequest { number: 2, ..(*restart).clone() },
        HoldRequest { number: 0, ..(*restart).clone() },
        HoldRequest { approvals: 0, ..(*restart).clone() },
        HoldRequest { approvals: 2, ..(*restart).clone() },
        HoldRequest { phase: "z".into(), ..(*restart).clone() },
    ] {
        assert!(lab.takes(&Event::Held(Box::new(held))).is_err());
    }
}

#[test]
fn a_hold_needs_the_declared_approvals_and_a_cause() {
    let mut lab = begun(serial(vec![with(phase("a", &[]), |phase| phase.doer = person(2))]));
    lab.record(start("a", 1));
    let good = held_of(&lab);
    assert_eq!(lab.takes(&Event::Held(Box::new(good.clone()))), Ok(()));
    for bad in [
        HoldRequest { approvals: 1, ..good.clone() },
        HoldRequest { trigger: Trigger::EscalationRequested, ..good.clone() },
        HoldRequest {
            trigger: Trigger::BudgetExhausted,
            resource: Some(BudgetedResource::Tokens),
            ..good
        },
    ] {
        refused(&lab, &Event::Held(Box::new(bad)), "no cause");
    }
    let effect = Effect::Hold { approvals: Some(2), trigger: Trigger::WaiverRequested };
    let mut lab = begun(serial(vec![with(phase("a", &[]), |phase| {
        phase.gate = gate(&[("ok", Effect::Continue), ("w", effect), ("b", Effect::Block)]);
    })]));
    lab.record(start("a", 1));
    let blocked = with(lab.clone(), |lab| {
        lab.record(phase_done("a", 1, done(json!({"verdict": "b"}))));
    });
    lab.record(phase_done("a", 1, done(json!({"verdict": "w"}))));
    let good = held_of(&lab);
    assert_eq!(lab.takes(&Event::Held(Box::new(good.clone()))), Ok(()));
    // A verdict that blocks cannot cause a hold instead.
    refused(&blocked, &Event::Held(Box::new(good.clone())), "no cause");
    for bad in [
        HoldRequest { approvals: 1, ..good.clone() },
        HoldRequest { trigger: Trigger::EscalationRequested, ..good.clone() },
        HoldRequest { source: None, ..good },
    ] {
        refused(&lab, &Event::Held(Box::new(bad)), "no cause");
    }
}

#[test]
fn a_run_passes_only_when_complete_and_warns_only_about_limits() {
    let lab = begun(with(serial(vec![phase("a", &[])]), |plan| plan.budget.tokens = Some(9)));
    let ended = |outcome| Event::Ended { outcome, reason: "r".into(), detail: String::new() };
    refused(&lab, &ended(RunOutcome::Pass), "not all phases");
    for outcome in RunOutcome::ALL.into_iter().filter(|one| *one != RunOutcome::Pass) {
        assert_eq!(lab.takes(&ended(outcome)), Ok(()));
    }
    let warned = |resource| Event::Warned { resource, used: 8, limit: 9 };
    refused(&lab, &warned(BudgetedResource::WallMs), "warning is already recorded");
    let lab = with(lab, |lab| lab.record(warned(BudgetedResource::Tokens)));
    refused(&lab, &warned(BudgetedResource::Tokens), "warning is already recorded");
}

#[test]
fn invalid_plans_are_refused() {
    let of_gate = |effect: Effect| {
        serial(vec![
            phase("a", &[]),
            with(phase("b", &[]), |phase| phase.gate = gate(&[("v", effect)])),
        ])
    };
    let intervene =
        |name: &str| Effect::Intervene { phase: name.into(), then: Box::new(stop("s")) };
    let follower = with(of_gate(intervene("c")), |plan| {
        plan.phases
            .push(with(phase("c", &["b"]), |phase| phase.when = PhaseCondition::Intervention));
    });
    let redo_mend = with(of_gate(redo("a", 1, Effect::Block)), |plan| {
        plan.phases[0].when = PhaseCondition::Intervention;
        plan.phases[1].needs = vec!["a".into()];
    });
    let ask = |trigger| Effect::Hold { approvals: None, trigger };
    let many = || (0..=PHASES_MAX).map(|at| phase(&format!("p{at}"), &[])).collect();
    let checks = |phase: &mut windlass_kernel::run::plan::Phase| {
        phase.checks =
            vec![check("x", CheckTiming::Before, &[]), check("x", CheckTiming::After, &[])];
    };
    for (plan, why) in [
        (serial(vec![]), "1 to 10000 phases"),
        (serial(many()), "1 to 10000 phases"),
        (serial(vec![phase("a", &[]), phase("a", &[])]), "two phases"),
        (serial(vec![phase("a", &["a"])]), "listed before"),
        (serial(vec![phase("a", &["b"]), phase("b", &[])]), "listed before"),
        (serial(vec![with(phase("a", &[]), |phase| phase.doer = person(0))]), "one approval"),
        (serial(vec![with(phase("a", &[]), checks)]), "two checks"),
        (with(spine(), |plan| plan.hold.approvals = 0), "one approval"),
        (with(spine(), |plan| plan.budget.tokens = Some(0)), "budget of tokens is zero"),
        (of_gate(redo("z", 1, Effect::Block)), "no phase"),
        (of_gate(redo("a", 1, Effect::Block)), "does not come before"),
        (of_gate(redo("b", 1, redo("a", 1, Effect::Block))), "does not come before"),
        (of_gate(intervene("a")), "not an intervention"),
        (follower, "depends on the phase"),
        (redo_mend, "cannot be redone"),
        (of_gate(ask(Trigger::PersonRequested)), "cannot cause a hold"),
        (of_gate(ask(Trigger::BudgetExhausted)), "cannot cause a hold"),
        (
            of_gate(Effect::Hold { approvals: Some(0), trigger: Trigger::WaiverRequested }),
            "one approval",
        ),
        (
            of_gate(Effect::Stop { outcome: RunOutcome::Pass, reason: "r".into() }),
            "cannot end a run with PASS",
        ),
    ] {
        refused(&Lab::empty(), &started(plan), why);
    }
    let asked = with(check("x", CheckTiming::Before, &[]), |check| check.doer = person(1));
    let by_person = serial(vec![with(phase("a", &[]), |phase| phase.checks = vec![asked])]);
    refused(&Lab::empty(), &started(by_person), "done by a person");
    assert_eq!(Lab::empty().takes(&started(of_gate(hold()))), Ok(()));
}
