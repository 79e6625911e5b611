//! Taking a run up again: the checks, in their order, each of which refuses without a change.

use std::sync::atomic::Ordering;

use windlass_kernel::run::plan::HoldRule;
use windlass_kernel::{Code, Digest, State};

use crate::holds::{approve, on_hold};
use crate::world::{World, end, trace};

#[test]
fn each_check_refuses_and_changes_nothing_and_they_come_in_order() {
    let world = World::new();
    let (engine, run) = on_hold(&world, HoldRule::default());
    let before = world.only_events();
    let refused = |code: Code| {
        let error = engine.resume(trace(&run)).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(world.only_events(), before, "{code}");
    };
    // The repository comes before the packet, the packet before the answer.
    world.shown.bad_packet.store(true, Ordering::SeqCst);
    world.repository.dirty.store(true, Ordering::SeqCst);
    refused(Code::RepoDirty);
    world.repository.dirty.store(false, Ordering::SeqCst);
    refused(Code::StateChecksumMismatch);
    world.shown.bad_packet.store(false, Ordering::SeqCst);
    refused(Code::RunOnHold);
    approve(&engine, &run, "ann");
    assert_eq!(end(&engine.resume(trace(&run)).unwrap()), ("PASS", "pass"));
}

#[test]
fn a_changed_policy_comes_before_the_repository_and_the_packet() {
    let world = World::new();
    let (engine, run) = on_hold(&world, HoldRule::default());
    drop(engine);
    let changed = World { policy: Digest::of(b"another policy"), ..world.clone() };
    let engine = changed.engine(&[]);
    world.repository.dirty.store(true, Ordering::SeqCst);
    world.shown.bad_packet.store(true, Ordering::SeqCst);
    // Not yet answered, and still it ends: the policy comes before the answer, too.
    assert_eq!(engine.resume(trace(&run)).unwrap_err().code(), Code::PolicyChangedMidRun);
    let run = engine.read(trace(&run)).unwrap();
    assert_eq!(end(&run), ("BLOCKED", "POLICY_CHANGED_MID_RUN"));
    assert_eq!(engine.resume(trace(&run)).unwrap_err().code(), Code::RunEnded);
    world.verify();
}

#[test]
fn an_interrupted_run_also_ends_when_the_policy_has_changed() {
    let world = World::new();
    let life = crate::crash::Life::until(Some(20));
    world
        .fake(&life, crate::phase_executor::except(&[]))
        .start(crate::world::new_run(crate::plans::spine()))
        .unwrap_err();
    let changed = World { policy: Digest::of(b"another policy"), ..world.clone() };
    let engine = changed.engine(&[]);
    let deeds = world.deeds();
    let error = engine.resume(world.runs()[0].0).unwrap_err();
    assert_eq!(error.code(), Code::PolicyChangedMidRun);
    assert_eq!(world.runs()[0].1, State::Terminal);
    assert_eq!(world.deeds(), deeds);
}

#[test]
fn a_run_is_taken_up_once() {
    let world = World::new();
    let (engine, run) = on_hold(&world, HoldRule::default());
    approve(&engine, &run, "ann");
    engine.resume(trace(&run)).unwrap();
    let (deeds, events) = (world.deeds(), world.only_events());
    let error = engine.resume(trace(&run)).unwrap_err();
    assert_eq!(error.code(), Code::RunEnded);
    assert_eq!((world.deeds(), world.only_events()), (deeds, events));
}

#[test]
fn a_hold_belongs_to_whoever_is_at_it() {
    let world = World::new();
    let (engine, run) = on_hold(&world, HoldRule::default());
    approve(&engine, &run, "ann");
    // Another live process has the run.
    let store = world.base.store();
    let lease = windlass_store::Store::acquire(&store, trace(&run)).unwrap();
    let error = engine.resume(trace(&run)).unwrap_err();
    assert_eq!(error.code(), Code::StateLockAcquireFailed);
    windlass_store::Store::release(&store, lease).unwrap();
    assert_eq!(end(&engine.resume(trace(&run)).unwrap()), ("PASS", "pass"));
}

#[test]
fn a_run_whose_journal_was_changed_is_not_taken_up() {
    let world = World::new();
    let (engine, run) = on_hold(&world, HoldRule::default());
    approve(&engine, &run, "ann");
    world.shared().tamper(|tables| {
        let record = &mut tables.entries.get_mut(&trace(&run)).unwrap()[2];
        let body = String::from_utf8(record.body.clone().unwrap()).unwrap();
        record.body = Some(body.replace("hydrate", "hydrant").into_bytes());
    });
    let error = engine.resume(trace(&run)).unwrap_err();
    assert_eq!(error.code(), Code::StateChecksumMismatch);
    // A journal that was cut off at its end is corrupt too.
    let world = World::new();
    let (engine, run) = on_hold(&world, HoldRule::default());
    world.shared().tamper(|tables| {
        tables.entries.get_mut(&trace(&run)).unwrap().pop();
    });
    assert!(engine.resume(trace(&run)).is_err());
    assert!(engine.read(trace(&run)).is_err());
}
