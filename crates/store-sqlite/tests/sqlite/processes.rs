//! Several processes on one file.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use windlass_kernel::Code;
use windlass_store::{After, Store};

use crate::support::{
    Place, Waiting, assert_reads_back, fixture, numbered, open, put, succeeds, tell, verify,
    wait_for_parent,
};

/// A child: makes a trace, holds it, and waits.
pub fn holds_a_trace(database: &Path, number: u64) {
    let store = open(database).unwrap();
    let trace = fixture(number).run_long(3);
    let appended = store.append(trace.create(2, After::Keep)).unwrap();
    tell(&appended.lease.unwrap().fence().to_string());
    wait_for_parent();
}

/// A child: opens a database that may not exist yet, at the same moment as others.
pub fn opens_at_once(database: &Path, number: u64) {
    tell("ready");
    wait_for_parent();
    let store = open(database).unwrap();
    let make = fixture(number);
    for _ in 0..5 {
        put(&store, &make.run_long(2));
    }
}

#[test]
fn a_live_process_keeps_its_traces_and_a_killed_one_loses_them_at_once() {
    let place = Place::new();
    let store = place.open();
    let (dying, living) = (fixture(1).run_long(3), fixture(2).run_long(3));
    let (first, fence) = Waiting::start(numbered("holds a trace", &place.path(), 1));
    let (second, _) = Waiting::start(numbered("holds a trace", &place.path(), 2));
    for trace in [&dying, &living] {
        let error = store.acquire(trace.trace_id).unwrap_err();
        assert_eq!(error.code(), Code::StateLockAcquireFailed);
        assert!(store.is_held(&store.load_state(trace.trace_id).unwrap()).unwrap());
    }
    first.kill();
    let lease = store.acquire(dying.trace_id).expect("free at once");
    assert!(lease.fence() > fence.parse().unwrap());
    store.append(dying.append(&lease, 2, 1)).unwrap();
    let error = store.acquire(living.trace_id).unwrap_err();
    assert_eq!(error.code(), Code::StateLockAcquireFailed, "the other one still lives");
    second.finish();
    let lease = store.acquire(living.trace_id).expect("free once it has ended");
    store.append(living.append(&lease, 2, 1)).unwrap();
    for trace in [&dying, &living] {
        assert_reads_back(&store, trace, 3);
    }
    assert_eq!(verify(&store), (2, 6));
}

#[test]
fn a_process_that_comes_after_a_killed_one_has_its_traces() {
    let place = Place::new();
    let (child, _) = Waiting::start(numbered("holds a trace", &place.path(), 1));
    child.kill();
    assert_eq!(place.locks().len(), 1, "the killed process has left its lock file");
    let store = place.open();
    let trace = fixture(1).run_long(3);
    let state = store.load_state(trace.trace_id).unwrap();
    assert!(state.holder.is_some(), "its name is still on the trace");
    assert!(!store.is_held(&state).unwrap());
    store.acquire(trace.trace_id).unwrap();
}

#[test]
fn lock_files_of_the_dead_are_cleaned_up_and_those_of_the_living_are_not() {
    let place = Place::new();
    let (dead, _) = Waiting::start(numbered("holds a trace", &place.path(), 1));
    let (living, _) = Waiting::start(numbered("holds a trace", &place.path(), 2));
    dead.kill();
    assert_eq!(place.locks().len(), 2);
    drop(place.open());
    assert_eq!(place.locks().len(), 2, "a young file may be about to be locked");
    let old = SystemTime::now() - Duration::from_secs(3_600);
    for path in place.locks() {
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    drop(place.open());
    assert_eq!(place.locks().len(), 2, "a trace names the dead one, and only its file says so");
    let store = place.open();
    let error = store.acquire(fixture(2).run_long(3).trace_id).unwrap_err();
    assert_eq!(error.code(), Code::StateLockAcquireFailed, "the living one has kept its own");
    let lease = store.acquire(fixture(1).run_long(3).trace_id).unwrap();
    store.release(lease).unwrap();
    drop(store);
    drop(place.open());
    assert_eq!(place.locks().len(), 1, "the file of the dead one is gone");
    living.finish();
}

#[test]
fn eight_processes_open_a_new_database_at_once() {
    for _ in 0..5 {
        let place = Place::new();
        let children: Vec<_> = (1..=8)
            .map(|number| {
                let mut child = numbered("opens at once", &place.path(), number).spawn().unwrap();
                // All are up and running before any of them is let go.
                let mut told = [0_u8; 1];
                let stdout = child.stdout.as_mut().unwrap();
                while std::io::Read::read(stdout, &mut told).unwrap() == 1 && told != *b"@" {}
                child
            })
            .collect();
        assert!(!place.path().exists());
        let stdins: Vec<_> =
            children.into_iter().map(|mut child| (child.stdin.take(), child)).collect();
        let (stdins, children): (Vec<_>, Vec<_>) = stdins.into_iter().unzip();
        drop(stdins);
        for child in children {
            succeeds(&child.wait_with_output().unwrap());
        }
        assert_eq!(verify(&place.open()), (40, 80));
    }
}

#[test]
fn two_stores_of_one_process_respect_each_other() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    assert_ne!(one.holder(), two.holder());
    let trace = fixture(1).run_long(4);
    let lease = one.append(trace.create(1, After::Keep)).unwrap().lease.unwrap();
    assert_eq!(two.acquire(trace.trace_id).unwrap_err().code(), Code::StateLockAcquireFailed);
    // A third one comes and goes; closing its files must not free the locks of the others.
    drop(place.open());
    assert_eq!(two.acquire(trace.trace_id).unwrap_err().code(), Code::StateLockAcquireFailed);
    one.append(trace.append(&lease, 1, 1)).unwrap();
    one.release(lease).unwrap();
    let lease = two.acquire(trace.trace_id).unwrap();
    two.append(trace.append(&lease, 2, 2)).unwrap();
    assert_reads_back(&one, &trace, 4);
}
