//! What must be true before a run begins, and that nothing is written before it is.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};

use windlass_engine::{NewRun, StopRequest};
use windlass_kernel::Code;
use windlass_kernel::run::plan::Requirement;

use crate::crash::Life;
use crate::phase_executor::{Piece, except};
use crate::plans::{builtin, phase, plan, spine};
use crate::world::{World, end, new_run};

fn files(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            names.extend(files(&entry.path()));
        } else {
            names.push(entry.file_name().into_string().unwrap());
        }
    }
    names.sort();
    names
}

#[test]
fn a_dirty_repository_records_nothing_and_writes_nothing() {
    let world = World::new();
    world.repository.dirty.store(true, Ordering::SeqCst);
    let error = world.engine(&[]).start(new_run(spine())).unwrap_err();
    assert_eq!(error.code(), Code::RepoDirty);
    assert_eq!(world.runs(), Vec::new());
    assert_eq!(world.deeds(), Vec::<String>::new());
    assert_eq!(*world.shown.kinds.lock().unwrap(), Vec::<&str>::new());
    assert_eq!(files(world.root()), ["integration.lock", "workspace.lock"]);
}

#[test]
fn a_missing_repository_is_refused_where_one_is_needed() {
    for (require, worktree) in
        [(vec![Requirement::CleanRepo], false), (vec![Requirement::Repo], false), (vec![], true)]
    {
        let world = World::new();
        world.repository.missing.store(true, Ordering::SeqCst);
        let mut plan = plan(vec![phase("a", &[], builtin())]);
        plan.require = require;
        let error = world.engine(&[]).start(NewRun { worktree, ..new_run(plan) }).unwrap_err();
        assert_eq!(error.code(), Code::RepoMissing);
        assert_eq!(world.runs(), Vec::new());
    }
    let world = World::new();
    world.repository.missing.store(true, Ordering::SeqCst);
    let run = world.engine(&[]).start(new_run(plan(vec![phase("a", &[], builtin())]))).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
}

#[test]
fn the_switch_comes_before_the_lock_and_the_repository() {
    let world = World::new();
    world.repository.dirty.store(true, Ordering::SeqCst);
    let request =
        StopRequest { by: "ann".to_owned(), reason: "enough for today".to_owned(), cancel: false };
    world.stop().request(None, &request).unwrap();
    let error = world.engine(&[]).start(new_run(spine())).unwrap_err();
    assert_eq!(error.code(), Code::RunStopped);
    assert!(error.to_string().contains("enough for today"), "{error}");
    assert_eq!(world.repository.asked.load(Ordering::SeqCst), 0);
    assert_eq!(files(world.root()), ["ALL"]);
    assert_eq!(world.runs(), Vec::new());
    assert!(world.stop().clear(None).unwrap());
    assert!(!world.stop().clear(None).unwrap());
}

/// Starts a run and, while it is under way, whatever is given.
fn while_at_work(world: &World, first: NewRun, meanwhile: impl FnOnce()) {
    let (reached, go_on) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let during = {
        let (reached, go_on) = (Arc::clone(&reached), Arc::clone(&go_on));
        Arc::new(move |piece: &Piece| {
            if piece.0 == "a" {
                reached.wait();
                go_on.wait();
            }
        })
    };
    let engine = world.fake_with(&Life::until(None), except(&[]), during);
    std::thread::scope(|scope| {
        let run = scope.spawn(move || engine.start(first).unwrap());
        reached.wait();
        // The other one must not wait for ever if this fails.
        let failed = catch_unwind(AssertUnwindSafe(meanwhile));
        go_on.wait();
        if let Err(thrown) = failed {
            resume_unwind(thrown);
        }
        assert_eq!(end(&run.join().unwrap()), ("PASS", "pass"));
    });
}

#[test]
fn two_runs_do_not_share_a_workspace() {
    let world = World::new();
    let other = || plan(vec![phase("b", &[], builtin())]);
    while_at_work(&world, new_run(plan(vec![phase("a", &[], builtin())])), || {
        let error = world.engine(&[]).start(new_run(other())).unwrap_err();
        assert_eq!(error.code(), Code::RunConcurrent);
        assert_eq!(world.runs().len(), 1);
        // One with a work tree of its own is not in the way.
        let own = NewRun { worktree: true, ..new_run(other()) };
        let run = world.engine(&[]).start(own).unwrap();
        assert!(run.started.unwrap().worktree.is_some());
    });
    // Whoever waited can go on now.
    world.engine(&[]).start(new_run(other())).unwrap();
}

#[test]
fn a_loop_that_takes_one_task_at_a_time_takes_one() {
    let world = World::new();
    let single = |name: &str| {
        let mut plan = plan(vec![phase(name, &[], builtin())]);
        plan.require = vec![Requirement::Single];
        NewRun { worktree: true, ..new_run(plan) }
    };
    while_at_work(&world, single("a"), || {
        let error = world.engine(&[]).start(single("b")).unwrap_err();
        assert_eq!(error.code(), Code::RunConcurrent);
    });
    world.engine(&[]).start(single("b")).unwrap();
}

#[test]
fn a_run_cannot_be_taken_up_while_another_is_at_work_in_its_workspace() {
    let world = World::new();
    let (engine, waiting) =
        crate::holds::on_hold(&world, windlass_kernel::run::plan::HoldRule::default());
    crate::holds::approve(&engine, &waiting, "ann");
    let before = world.events(waiting.head.trace_id);
    while_at_work(&world, new_run(plan(vec![phase("a", &[], builtin())])), || {
        let error = engine.resume(waiting.head.trace_id).unwrap_err();
        assert_eq!(error.code(), Code::RunConcurrent);
        assert_eq!(world.events(waiting.head.trace_id), before);
    });
    assert_eq!(end(&engine.resume(waiting.head.trace_id).unwrap()), ("PASS", "pass"));
}
