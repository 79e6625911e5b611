//! Runs whose process died, by what their loops say.

use windlass_kernel::run::plan::{OnRestart, Trigger};
use windlass_kernel::{Code, State};

use crate::crash::Life;
use crate::holds::approve;
use crate::phase_executor::except;
use crate::plans::{command, driver, phase, plan, spine};
use crate::world::{World, end, new_run, trace};

/// A world in which a run of a plan died at a point.
fn died(plan: windlass_kernel::run::plan::Plan, at: u32) -> World {
    let world = World::new();
    let life = Life::until(Some(at));
    world.fake(&life, except(&[])).start(new_run(plan)).unwrap_err();
    world
}

#[test]
fn a_loop_that_goes_on_goes_on() {
    let mut plan = spine();
    plan.on_restart = OnRestart::Resume;
    let world = died(plan, 21);
    let recovered = world.engine(&[]).recover().unwrap();
    assert_eq!(recovered.len(), 1);
    assert_eq!(recovered[0].on_restart, OnRestart::Resume);
    assert_eq!(end(recovered[0].result.as_ref().unwrap()), ("PASS", "pass"));
    assert_eq!(world.kinds().iter().filter(|kind| **kind == "restarted").count(), 1);
    // There is nothing to recover any more.
    assert_eq!(world.engine(&[]).recover().unwrap().len(), 0);
    world.verify();
}

#[test]
fn a_loop_that_asks_waits_for_a_person() {
    let world = died(spine(), 21);
    let engine = world.engine(&[]);
    let recovered = engine.recover().unwrap();
    let run = recovered[0].result.as_ref().unwrap();
    assert_eq!(run.hold.as_ref().unwrap().held.trigger, Trigger::RestartRequested);
    // It is asked once.
    assert_eq!(engine.recover().unwrap().len(), 0);
    assert_eq!(engine.resume(trace(run)).unwrap_err().code(), Code::RunOnHold);
    approve(&engine, run, "ann");
    assert_eq!(end(&engine.resume(trace(run)).unwrap()), ("PASS", "pass"));
    world.verify();
}

#[test]
fn a_person_can_take_an_interrupted_run_up_at_once() {
    let world = died(spine(), 21);
    let engine = world.engine(&[]);
    let run = engine.resume(world.runs()[0].0).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    let mut deeds = world.deeds();
    deeds.dedup();
    assert_eq!(deeds.len(), 7);
}

#[test]
fn a_loop_that_ends_ends_whoever_comes_first() {
    for resume in [true, false] {
        // From INIT as well as from RUNNING.
        for at in [3, 4, 12, 20] {
            let world = died(driver(), at);
            let deeds = world.deeds();
            let engine = world.engine(&[]);
            if resume {
                let error = engine.resume(world.runs()[0].0).unwrap_err();
                assert_eq!(error.code(), Code::RunEnded);
            } else {
                let recovered = engine.recover().unwrap();
                assert_eq!(recovered[0].on_restart, OnRestart::Terminate);
            }
            let run = engine.read(world.runs()[0].0).unwrap();
            assert_eq!(end(&run), ("BLOCKED", "TERMINATED"));
            assert_eq!(world.deeds(), deeds);
            world.verify();
        }
    }
}

#[test]
fn a_program_that_may_not_be_repeated_is_asked_about() {
    for on_restart in [OnRestart::Resume, OnRestart::Hold] {
        let mut plan = plan(vec![phase("pay", &[], command(false))]);
        plan.on_restart = on_restart;
        // The program ran; its process died before it could say so.
        let world = (1..60)
            .map(|at| died_maybe(&plan, at))
            .find(|world| world.log.lock().unwrap().deeds.len() == 1)
            .unwrap();
        let engine = world.engine(&[]);
        let mut run = engine.recover().unwrap().pop().unwrap().result.unwrap();
        if on_restart == OnRestart::Hold {
            approve(&engine, &run, "ann");
            run = engine.resume(trace(&run)).unwrap();
        }
        assert_eq!(run.hold.as_ref().unwrap().held.trigger, Trigger::UncertainEffect);
        assert_eq!(world.deeds(), ["pay 1"]);
        approve(&engine, &run, "ann");
        let run = engine.resume(trace(&run)).unwrap();
        assert_eq!(end(&run), ("PASS", "pass"));
        assert_eq!(world.deeds(), ["pay 1", "pay 1"]);
    }
}

fn died_maybe(plan: &windlass_kernel::run::plan::Plan, at: u32) -> World {
    let world = World::new();
    drop(world.fake(&Life::until(Some(at)), except(&[])).start(new_run(plan.clone())));
    world
}

#[test]
fn a_live_run_is_left_alone() {
    let world = World::new();
    let life = Life::until(Some(21));
    let dead = world.fake(&life, except(&[]));
    dead.start(new_run(spine())).unwrap_err();
    // The process is still there, only its run has stopped: nobody takes it over.
    let engine = world.engine(&[]);
    assert_eq!(engine.recover().unwrap().len(), 0);
    assert_eq!(engine.resume(world.runs()[0].0).unwrap_err().code(), Code::StateLockAcquireFailed);
    drop(dead);
    assert_eq!(engine.recover().unwrap().len(), 1);
    assert_eq!(world.runs()[0].1, State::Checkpoint);
}

#[test]
fn one_broken_run_does_not_keep_the_others_from_going_on() {
    let mut plan = plan(vec![phase("a", &[], crate::plans::agent())]);
    plan.on_restart = OnRestart::Resume;
    let world = World::new();
    for _ in 0..3 {
        let life = Life::until(Some(9));
        world.fake(&life, except(&[])).start(new_run(plan.clone())).unwrap_err();
    }
    let broken = world.runs()[1].0;
    world.shared().tamper(|tables| {
        tables.entries.get_mut(&broken).unwrap()[0].body = Some(b"{}".to_vec());
    });
    let recovered = world.engine(&[]).recover().unwrap();
    let ended: Vec<bool> = recovered.iter().map(|one| one.result.is_ok()).collect();
    assert_eq!(ended, [true, false, true]);
}
