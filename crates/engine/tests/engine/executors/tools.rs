//! Tools: what was called before a crash is not called again.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_engine::{Engine, HoldAnswer};
use windlass_journal::verify_store;
use windlass_kernel::run::plan::{OnRestart, Trigger};
use windlass_kernel::run::{Event, VoteDecision};
use windlass_kernel::{Code, State};
use windlass_runtime::Answer;
use windlass_testkit::engine::Votes as _;

use super::{calm, detail, named, with_answers};
use crate::crash::Life;
use crate::holds::approve;
use crate::plans::{agent, phase, plan};
use crate::sweep::{Scenario, explore, scenario};
use crate::world::{World, end, new_run, trace};

fn call(tool: &str) -> Value {
    json!({"tool": tool, "args": {"value": 1}, "intent": "a step of a test"})
}

fn answers(tools: &[&str]) -> Value {
    let calls: Vec<Value> = tools.iter().map(|tool| call(tool)).collect();
    json!({"phases": {"work": [{"calls": calls, "answer": {"summary": "done"}}]}})
}

/// How often a tool really did something.
fn executed(world: &World, tool: &str) -> u32 {
    let tools = world.base.tools.lock();
    tools.runs.iter().filter(|((name, _), _)| name == tool).map(|(_, run)| run.executed).sum()
}

fn dispatched(world: &World, tool: &str) -> usize {
    world.base.tools.lock().dispatches.iter().filter(|one| one.tool == tool).count()
}

fn real_engine(_: &Scenario, world: &World, life: &Arc<Life>) -> Engine {
    super::engine(world, life, Arc::clone(&world.repository) as Arc<_>)
}

#[test]
fn calls_of_a_try_that_died_are_answered_from_the_journal() {
    let mut total = 0;
    for (on_restart, crashes) in [(OnRestart::Resume, 2), (OnRestart::Hold, 1)] {
        let mut plan = plan(vec![phase("work", &[], agent())]);
        plan.on_restart = on_restart;
        let tools = if crashes == 2 {
            json!({"answers": answers(&["world/post"])})
        } else {
            json!({"answers": answers(&["world/add", "world/post", "world/look", "world/ask"])})
        };
        let scenario = Scenario {
            options: tools,
            engine: real_engine,
            ..scenario("tools", plan, crashes, &[])
        };
        total += explore(&scenario, &|world, way| {
            // It does not honour keys, but it can be asked: so it did it once, whatever died.
            assert_eq!(executed(world, "post"), 1, "{way}");
        });
    }
    println!("{total} scenarios with tools");
}

#[test]
fn what_may_not_be_repeated_is_done_as_often_as_people_said() {
    let mut total = 0;
    for on_restart in [OnRestart::Resume, OnRestart::Hold] {
        let mut plan = plan(vec![phase("work", &[], agent())]);
        plan.on_restart = on_restart;
        for (tool, free) in [("burn", 1), ("ask_burn", 0)] {
            let options = json!({"answers": answers(&[&format!("world/{tool}")])});
            let crashes = if on_restart == OnRestart::Resume && free == 0 { 2 } else { 1 };
            let scenario = Scenario {
                options,
                same: false,
                engine: real_engine,
                ..scenario("burning", plan.clone(), crashes, &[])
            };
            total += explore(&scenario, &|world, way| {
                let mut approvals = 0;
                let mut held = false;
                for event in world.only_events() {
                    match event {
                        Event::Held(one) => held = one.trigger == Trigger::CallApproval,
                        Event::Resumed { .. } => approvals += u32::from(held),
                        _ => {}
                    }
                }
                let times = executed(world, tool);
                assert!((1..=free + approvals).contains(&times), "{way}: {times} of {approvals}");
                let Some(Event::Ended { reason, .. }) = world.only_events().pop() else {
                    panic!("{way}: no end");
                };
                assert_eq!(reason, "pass", "{way}");
            });
        }
    }
    println!("{total} scenarios with tools that may not be repeated");
}

#[test]
fn a_waiting_call_is_made_once_when_people_have_approved() {
    let world = World::new();
    let engine = calm(&world);
    let mut plan = plan(vec![phase("work", &[], agent())]);
    plan.hold.approvals = 2;
    let run = engine
        .start(with_answers(plan, answers(&["world/add", "world/ask_burn", "world/post"])))
        .unwrap();
    let held = &run.hold.as_ref().unwrap().held;
    assert_eq!(held.trigger, Trigger::CallApproval);
    assert!(held.question.contains("world/ask_burn"), "{}", held.question);
    assert_eq!((executed(&world, "ask_burn"), executed(&world, "post")), (0, 0));
    // Nobody settles alone what two people must approve.
    let alone = HoldAnswer {
        decision: VoteDecision::Approved,
        by: "ann",
        reason: "it ran",
        shown: None,
        conditions: &[],
        edit: None,
        again: None,
        settled: Some(Answer::Ran),
    };
    let settled = engine.answer(trace(&run), alone).unwrap_err();
    assert_eq!(settled.code(), Code::RequestInvalid);
    // Names and reasons that are too long together for the call's own record.
    let (ann, bob) = ("a".repeat(100), "b".repeat(100));
    let long = "because ".repeat(500);
    let shown = run.hold.as_ref().map(|hold| hold.shown);
    engine.vote(trace(&run), VoteDecision::Approved, &ann, &long, shown, &[]).unwrap();
    engine.vote(trace(&run), VoteDecision::Approved, &bob, &long, shown, &[]).unwrap();
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!(executed(&world, "ask_burn"), 1);
    assert_eq!(dispatched(&world, "add"), 1);
    let calls = &run.phases[0].done.as_ref().unwrap().calls;
    let tools: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
    assert_eq!(tools, ["world/add", "world/ask_burn", "world/post"]);
    world.verify();
}

#[test]
fn a_call_that_people_decided_on_needs_the_record_of_their_hold() {
    let world = World::new();
    let engine = calm(&world);
    let plan = plan(vec![phase("work", &[], agent())]);
    let run = engine.start(with_answers(plan, answers(&["world/ask"]))).unwrap();
    let call = run.hold.as_ref().unwrap().held.call.unwrap();
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    world.verify();
    world.shared().tamper(|tables| {
        tables.traces.remove(&trace(&run));
        tables.entries.remove(&trace(&run));
        tables.replay_points.remove(&trace(&run));
    });
    let report = verify_store(&world.base.store(), &mut |_| {}).unwrap();
    let problems: Vec<_> =
        report.problems.into_iter().map(|one| (one.trace_id, one.message)).collect();
    let lacks = "the artifact of entry 2 does not match the entries up to it: the entry of the hold that decided \
                 on the call is missing";
    assert_eq!(problems, [(call, lacks.to_owned())]);
}

#[test]
fn a_rejected_call_is_refused_for_good() {
    let world = World::new();
    let engine = calm(&world);
    let plan = plan(vec![phase("work", &[], agent())]);
    let run = engine.start(with_answers(plan, answers(&["world/ask"]))).unwrap();
    let call = run.hold.as_ref().unwrap().held.call.unwrap();
    let answered =
        engine.vote(trace(&run), VoteDecision::Rejected, "ann", "no", None, &[]).unwrap();
    assert_eq!(end(&answered.run), ("BLOCKED", "checkpoint_rejected"));
    assert_eq!(executed(&world, "ask"), 0);
    // It no longer waits for anybody.
    let state = world.shared().tables().traces[&call].head.state;
    assert_eq!(state, Some(State::Denied));
}

#[test]
fn what_ends_otherwise_than_expected_fails_the_phase() {
    let fails = |tool: &str| {
        let world = World::new();
        let plan = plan(vec![phase("work", &[], agent())]);
        let run = calm(&world).start(with_answers(plan, answers(&[tool]))).unwrap();
        world.verify();
        detail(&run).to_owned()
    };
    assert!(fails("world/deny").contains("POLICY_DENIED"));
    assert!(fails("world/fail").contains("it says no"));
    assert!(fails("world/nothing").contains("TOOL_UNCLASSIFIED_DENIED"));
    // A name that cannot even be recorded is the agent's mistake, not the journal's.
    assert!(fails("World/Add").contains("must be"));

    let world = World::new();
    let mut wanted = answers(&["world/deny"]);
    wanted["phases"]["work"][0]["calls"][0]["expect"] = json!("DENIED");
    let plan = plan(vec![phase("work", &[], agent())]);
    let run = calm(&world).start(with_answers(plan, wanted)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
}

#[test]
fn the_builtin_call_makes_its_call() {
    let world = World::new();
    let with = json!({"tool": "world/post", "args": {"value": 3}, "intent": "a step of a test"});
    let run = calm(&world).start(new_run(plan(vec![named("c", &[], "call", with)]))).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!(executed(&world, "post"), 1);
    for (with, why) in [
        (json!({}), "needs `tool`"),
        (json!({"tool": "world/deny"}), "POLICY_DENIED"),
        (json!({"tool": "world"}), "must be"),
        (json!({"tool": "world/add", "args": [1]}), "args"),
    ] {
        let world = World::new();
        let run = calm(&world).start(new_run(plan(vec![named("c", &[], "call", with)]))).unwrap();
        assert!(detail(&run).contains(why), "{}", detail(&run));
    }
}

#[test]
fn the_switch_is_seen_between_two_calls() {
    let world = World::new();
    let stop = world.stop();
    let engine = calm(&world);
    let plan = plan(vec![phase("work", &[], agent())]);
    // The first call waits; the switch is thrown before the try is done again.
    let run = engine.start(with_answers(plan, answers(&["world/ask", "world/post"]))).unwrap();
    approve(&engine, &run, "ann");
    let request = windlass_engine::StopRequest {
        by: "bob".to_owned(),
        reason: "no".to_owned(),
        cancel: false,
    };
    stop.request(None, &request).unwrap();
    assert_eq!(engine.resume(trace(&run)).unwrap_err().code(), Code::RunStopped);
    assert_eq!((executed(&world, "ask"), executed(&world, "post")), (0, 0));
    stop.clear(None).unwrap();
    assert_eq!(end(&engine.resume(trace(&run)).unwrap()), ("PASS", "pass"));
    assert_eq!((executed(&world, "ask"), executed(&world, "post")), (1, 1));
}
