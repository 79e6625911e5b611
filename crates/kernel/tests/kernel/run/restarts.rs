//! Restarts after a process died.

use serde_json::json;
use windlass_kernel::run::VoteDecision::{Approved, Rejected};
use windlass_kernel::run::plan::{CheckTiming, Doer, Effect, Plan};
use windlass_kernel::run::{Event, Next, WaitsFor, Work};

use crate::run::harness::{Act, Lab, Script, done, ended, invoke};
use crate::run::plans::{agent, builtin, check, command, diamond, person, phase, serial, with};

fn one(doer: Doer) -> Plan {
    serial(vec![with(phase("a", &[]), |phase| phase.doer = doer), phase("b", &["a"])])
}

#[test]
fn repeatable_work_is_repeated_after_a_restart() {
    for doer in [agent(), builtin(), command(true)] {
        let mut lab = Lab::new(one(doer));
        let told = Script::new().at("a", 1, Act::Die).walk(&mut lab);
        assert_eq!(
            told,
            [
                "begun",
                "start a 1",
                "invoke a 1",
                "restarted",
                "done a 1",
                "start b 1",
                "done b 1",
                "ended PASS pass",
            ]
        );
        // The day between crash and restart is not working time.
        assert_eq!(lab.run.spent.wall_ms, 3000);
    }
}

#[test]
fn a_program_that_is_not_repeatable_causes_a_hold() {
    let script = Script::new().at("a", 1, Act::Die).votes(&[("ann", Approved)]);
    let told = script.walk(&mut Lab::new(one(command(false))));
    assert_eq!(
        told[2..],
        [
            "invoke a 1",
            "restarted",
            "held 1 UNCERTAIN_EFFECT at a for 1",
            "ann APPROVED",
            "resumed",
            "continued",
            "done a 1",
            "start b 1",
            "done b 1",
            "ended PASS pass",
        ]
    );
    let script = Script::new().at("a", 1, Act::Die).votes(&[("ann", Rejected)]);
    let told = script.walk(&mut Lab::new(one(command(false))));
    assert_eq!(told.last().unwrap(), "ended BLOCKED checkpoint_rejected");
}

#[test]
fn a_check_that_is_not_repeatable_causes_a_hold() {
    for at in [CheckTiming::Before, CheckTiming::After] {
        let plan = with(one(agent()), |plan| {
            let mut one = check("x", at, &[("ok", Effect::Continue)]);
            one.doer = command(false);
            plan.phases[0].checks = vec![one];
        });
        let script = Script::new().at("a/x", 1, Act::Die).votes(&[("ann", Approved)]);
        let told = script.walk(&mut Lab::new(plan));
        let from = told.iter().position(|line| line == "restarted").unwrap();
        assert_eq!(told[from + 1], "held 1 UNCERTAIN_EFFECT at a for 1");
        assert_eq!(told[from + 5], "checked a/x 1 ok");
        assert_eq!(told.last().unwrap(), "ended PASS pass");
    }
}

#[test]
fn a_crash_between_two_pieces_of_work_leaves_nothing_uncertain() {
    let mut lab = Lab::new(one(command(false)));
    for event in [Event::Begun {}, Event::PhaseStarted { phase: "a".into(), attempt: 1 }] {
        lab.record(event);
    }
    lab.record(Event::Restarted { by: "ann".into() });
    assert_eq!(lab.run.next(), Next::Perform(vec![Work::Do { phase: 0, attempt: 1 }]));
}

fn interrupted(plan: Plan) -> Lab {
    let mut lab = Lab::new(plan);
    lab.record(Event::Begun {});
    lab.record(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    lab.now += 500;
    lab.record(invoke(&lab, "a", 1));
    lab.now += 86_400_000;
    lab
}

#[test]
fn a_loop_may_let_a_person_decide_on_a_restart() {
    let mut lab = interrupted(one(agent()));
    lab.record(lab.run.restart_hold());
    assert_eq!(lab.run.spent.wall_ms, 500);
    let told = Script::new().votes(&[("ann", Approved)]).walk(&mut lab);
    assert_eq!(
        told,
        [
            "ann APPROVED",
            "resumed",
            "continued",
            "done a 1",
            "start b 1",
            "done b 1",
            "ended PASS pass"
        ]
    );
    // An uncertain effect still causes a hold.
    let mut lab = interrupted(one(command(false)));
    lab.record(lab.run.restart_hold());
    let told = Script::new().votes(&[("ann", Approved), ("bob", Approved)]).walk(&mut lab);
    assert_eq!(
        told[..4],
        ["ann APPROVED", "resumed", "continued", "held 2 UNCERTAIN_EFFECT at a for 1"]
    );
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

#[test]
fn a_call_on_hold_stays_on_hold_after_a_restart() {
    let mut lab = Lab::new(one(agent()));
    lab.record(Event::Begun {});
    lab.record(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    let call = windlass_kernel::TraceId(crate::run::harness::id(9));
    lab.record(Event::Waiting {
        phase: "a".into(),
        attempt: 1,
        change: None,
        evidence: serde_json::Value::Null,
        question: "q".into(),
        waits_for: WaitsFor::Call { call },
    });
    lab.record(lab.run.restart_hold());
    let told = Script::new().votes(&[("ann", Approved), ("bob", Approved)]).walk(&mut lab);
    assert_eq!(told[3], "held 2 CALL_APPROVAL at a for 1");
    assert_eq!(told[7], "done a 1");
}

#[test]
fn a_loop_may_end_a_run_whose_process_died() {
    let mut lab = interrupted(one(agent()));
    lab.record(ended("TERMINATED"));
    assert_eq!(lab.run.next(), Next::Done);
    assert_eq!(lab.run.spent.wall_ms, 500);
}

#[test]
fn a_crash_before_the_run_continues_counts_no_time() {
    // After `started` and after `resumed`, another process appends the next entry.
    let mut lab = Lab::new(serial(vec![with(phase("a", &[]), |phase| phase.doer = person(1))]));
    lab.now += 86_400_000;
    lab.record(Event::Begun {});
    Script::new().walk(&mut lab);
    lab.record(lab.vote("ann", Approved));
    lab.record(Event::Resumed { by: "ann".into(), worked_ms: None });
    lab.now += 86_400_000;
    lab.record(Event::Continued {});
    assert_eq!(lab.run.spent.wall_ms, 0);
}

#[test]
fn the_call_that_an_answer_makes_is_working_time() {
    let mut lab = Lab::new(serial(vec![with(phase("a", &[]), |phase| phase.doer = person(1))]));
    lab.record(Event::Begun {});
    Script::new().walk(&mut lab);
    let before = lab.run.spent.wall_ms;
    lab.record(lab.vote("ann", Approved));
    lab.record(Event::Resumed { by: "ann".into(), worked_ms: Some(90_000) });
    lab.record(Event::Continued {});
    assert_eq!(lab.run.spent.wall_ms, before + 90_000);
}

#[test]
fn a_clock_set_back_does_not_count_twice() {
    let mut lab = Lab::new(one(agent()));
    lab.record(Event::Begun {});
    let note = || Event::Noted { what: windlass_kernel::run::NoteKind::Telemetry, body: json!({}) };
    for step in [1000, -800, 300, 500, 100] {
        lab.now += step;
        lab.record(note());
    }
    assert_eq!(lab.run.spent.wall_ms, 1100);
}

#[test]
fn branches_are_interrupted_together() {
    let mut lab = Lab::new(with(diamond(), |plan| plan.phases[2].doer = command(false)));
    while !matches!(lab.run.next(), Next::Perform(works) if works.len() == 2) {
        match lab.run.next() {
            Next::Record(event) => lab.record(*event),
            _ => lab.record(Event::PhaseDone {
                phase: "a".into(),
                attempt: 1,
                done: Box::new(done(json!({}))),
            }),
        }
    }
    lab.record(invoke(&lab, "b", 1));
    lab.record(invoke(&lab, "c", 1));
    assert!(lab.takes(&invoke(&lab, "b", 1)).is_err(), "one invocation of a phase at a time");
    lab.record(Event::Restarted { by: "ann".into() });
    // The agent continues; only then does the program cause a hold.
    let told = Script::new().votes(&[("ann", Approved)]).walk(&mut lab);
    assert_eq!(
        told,
        [
            "done b 1",
            "held 1 UNCERTAIN_EFFECT at c for 1",
            "ann APPROVED",
            "resumed",
            "continued",
            "done c 1",
            "start d 1",
            "done d 1",
            "ended PASS pass",
        ]
    );
}
