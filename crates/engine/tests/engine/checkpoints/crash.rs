//! A process that dies at any point of a rollback or a merge leaves the old state or the new one.

use windlass_engine::RollbackRequest;
use windlass_kernel::State;
use windlass_kernel::run::plan::{Concurrency, OnRestart, Plan};
use windlass_testkit::soak;

use super::{calm, checkpoint, engine, files, kept, to, world};
use crate::crash::Life;
use crate::executors::sh;
use crate::holds::approve;
use crate::plans::{person, phase, plan};
use crate::world::{new_run, trace};

fn steps(on_restart: OnRestart) -> Plan {
    let mut plan = kept(plan(vec![
        phase("one", &[], sh("mkdir d; echo 1 > d/one; echo 1 > both; echo '{}'")),
        phase("two", &["one"], sh("rm -r d; echo 2 > both; echo 2 > two; echo '{}'")),
        phase("sign", &["two"], person(1)),
    ]));
    plan.on_restart = on_restart;
    plan
}

#[test]
fn a_rollback_that_is_cut_off_comes_to_its_end() {
    let mut scenarios = 0;
    for on_restart in [OnRestart::Resume, OnRestart::Hold, OnRestart::Terminate] {
        for at in soak::points(3) {
            let world = world();
            let first = calm(&world);
            let run = first.start(new_run(steps(on_restart))).unwrap();
            let old = files(world.root());
            let request: RollbackRequest = to(checkpoint(&world, &run, "POST_one_v1"));
            drop(first);
            let life = Life::until(Some(at));
            let cut_off = engine(&world, &life).roll_back(trace(&run), &request);
            let next = calm(&world);
            next.recover().unwrap();
            let after = next.read(trace(&run)).unwrap();
            assert_eq!(after.head.state, Some(State::Checkpoint), "{on_restart:?} {at}");
            assert!(after.pending_rollback().is_none());
            if after.checkpoints.len() == run.checkpoints.len() {
                assert_eq!(files(world.root()), old, "{on_restart:?} {at}: half of the old state");
                assert_eq!(after.facts, run.facts);
            } else {
                let now = files(world.root());
                let paths: Vec<_> = now.keys().map(|path| path.to_str().unwrap()).collect();
                assert_eq!(paths, ["a.txt", "both", "d/one"], "{on_restart:?} {at}");
                assert_eq!(now[std::path::Path::new("both")].0, b"1\n");
            }
            assert_eq!(next.check_checkpoints().unwrap(), Vec::<String>::new());
            world.verify();
            scenarios += 1;
            if cut_off.is_ok() && !life.is_over() {
                break;
            }
        }
    }
    assert!(scenarios > 10, "only {scenarios} deaths");
    println!("{scenarios} deaths of a rollback");
}

#[test]
fn a_merge_that_is_cut_off_comes_to_its_end() {
    let mut scenarios = 0;
    for at in soak::points(4) {
        let world = world();
        let mut plan = kept(plan(vec![
            phase("start", &[], sh("echo s > start; echo '{}'")),
            phase("left", &["start"], sh("echo l > left; rm a.txt; echo '{}'")),
            phase("right", &["start"], sh("mkdir r; echo r > r/right; echo '{}'")),
            phase("end", &["left", "right"], sh("cat left r/right > end; echo '{}'")),
        ]));
        for phase in &mut plan.phases {
            phase.branch = ["left", "right"].contains(&phase.id.as_str());
            phase.doer = match phase.doer.clone() {
                windlass_kernel::run::plan::Doer::Command { argv, timeout_ms, .. } => {
                    windlass_kernel::run::plan::Doer::Command { argv, timeout_ms, repeatable: true }
                }
                other => other,
            };
        }
        plan.concurrency = Concurrency::Serial;
        let life = Life::until(Some(at));
        let cut_off = engine(&world, &life).start(new_run(plan));
        let next = calm(&world);
        let begun = world.runs();
        if begun.is_empty() {
            continue;
        }
        next.recover().unwrap();
        let after = next.read(begun[0].0).unwrap();
        let ended = after.ended.as_ref().unwrap_or_else(|| panic!("{at}: {after:#?}"));
        assert_eq!(ended.reason, "pass", "{at}: {ended:?}");
        let now = files(world.root());
        let paths: Vec<_> = now.keys().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(paths, ["end", "left", "r/right", "start"], "{at}");
        assert_eq!(now[std::path::Path::new("end")].0, b"l\nr\n");
        world.verify();
        scenarios += 1;
        if cut_off.is_ok() && !life.is_over() {
            break;
        }
    }
    assert!(scenarios > 10, "only {scenarios} deaths");
    println!("{scenarios} deaths around merges");
}

#[test]
fn approval_after_a_death_is_taken_up() {
    let world = world();
    let first = calm(&world);
    let run = first.start(new_run(steps(OnRestart::Hold))).unwrap();
    first.roll_back(trace(&run), &to(checkpoint(&world, &run, "PRE_two_v1"))).unwrap();
    drop(first);
    let next = calm(&world);
    let back = next.read(trace(&run)).unwrap();
    approve(&next, &back, "bob");
    let on = next.resume(trace(&run)).unwrap();
    assert_eq!(on.hold.as_ref().unwrap().held.phase, "sign");
}
