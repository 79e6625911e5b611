//! Files that are removed or replaced while a process uses them.

use std::fs;

use windlass_kernel::Code;
use windlass_store::conformance::fixture::Ending;
use windlass_store::{After, Append, Store, TraceFilter};

use crate::support::{Place, assert_reads_back, fixture};

#[test]
fn a_holder_whose_lock_file_was_removed_is_not_taken_for_dead() {
    let place = Place::new();
    let call = fixture(1).call(Ending::Completed);
    let store = place.open();
    let append = Append { key: call.reserve(), ..call.create(3, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    fs::remove_dir_all(place.beside(".locks")).unwrap();
    let other = place.open();
    let error = other.acquire(call.trace_id).unwrap_err();
    assert_eq!(error.code(), Code::StateLockAcquireFailed, "{error}");
    assert!(other.is_held(&other.load_state(call.trace_id).unwrap()).unwrap());
    // The holder notices, and its effect is not recorded.
    let error = store.append(call.append(&lease, 3, 1)).unwrap_err();
    assert_eq!(error.code(), Code::StoreDisplaced, "{error}");
    assert_reads_back(&other, &call, 3);
    // When it ends it says so.
    drop(store);
    let lease = other.acquire(call.trace_id).unwrap();
    other.append(call.append(&lease, 3, 1)).unwrap();
    other.release(lease).unwrap();
    drop(other);
    assert_reads_back(&place.open(), &call, 4);
}

#[test]
fn nothing_is_recorded_in_a_database_that_is_gone() {
    for (name, file) in [("", "database"), ("-wal", "write-ahead log")] {
        for replaced in [false, true] {
            let place = Place::new();
            let call = fixture(1).call(Ending::Completed);
            let store = place.open();
            let lease = store.append(call.create(3, After::Keep)).unwrap().lease.unwrap();
            let path = place.beside(name);
            let moved = place.folder().join("moved");
            fs::rename(&path, &moved).unwrap();
            if replaced {
                fs::copy(&moved, &path).unwrap();
            }
            let error = store.append(call.append(&lease, 3, 1)).unwrap_err();
            assert_eq!(error.code(), Code::StoreDisplaced, "{error}");
            assert!(error.to_string().contains(file), "{error}");
            assert!(store.acquire(call.trace_id).is_err());
            if name.is_empty() {
                let read = store.list_traces(&TraceFilter::open(9)).unwrap_err();
                assert_eq!(read.code(), Code::StoreDisplaced, "{read}");
                assert_eq!(path.exists(), replaced, "no database is created by reading");
            }
            fs::rename(&moved, &path).unwrap();
            assert_reads_back(&store, &call, 3);
            store.append(call.append(&lease, 3, 1)).unwrap();
        }
    }
}

/// The file of a dead process stays while a trace names it: without it, nobody could tell that it is dead.
#[test]
fn a_process_that_ends_with_a_lease_leaves_its_lock_file() {
    let place = Place::new();
    let call = fixture(1).call(Ending::Completed);
    let store = place.open();
    store.append(call.create(3, After::Keep)).unwrap().lease.unwrap();
    drop(store);
    let [file] = place.locks().try_into().unwrap();
    fs::remove_file(&file).unwrap();
    let store = place.open();
    let error = store.acquire(call.trace_id).unwrap_err();
    assert_eq!(error.code(), Code::StateLockAcquireFailed, "{error}");
    // As the page of the code says.
    fs::File::create(&file).unwrap();
    store.acquire(call.trace_id).unwrap();
}
