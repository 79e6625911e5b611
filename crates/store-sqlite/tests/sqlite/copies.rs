//! Copies of a store.

use std::fs;

use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store::{After, Append, Store};
use windlass_store_sqlite::{SqliteStore, seal_copy};

use crate::support::{Place, assert_reads_back, fixture, put, verify};

#[test]
fn a_copy_has_all_that_is_committed_and_no_leases() {
    let place = Place::new();
    let make = fixture(0);
    let ended: Vec<Trace> = (0..30).map(|_| make.call(Ending::Completed)).collect();
    let store = place.open();
    ended.iter().for_each(|call| put(&store, call));
    drop(store);
    let store = place.open();
    let held = make.call(Ending::Executing);
    let append = Append { key: held.reserve(), ..held.create(3, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    let redispatch = make.redispatch(2);
    store.record_redispatch(&lease, &redispatch).unwrap();
    let unindexed = make.call(Ending::Executing);
    let kept = store.append(unindexed.create(3, After::Keep)).unwrap().lease.unwrap();
    let target = Place::new();
    store.copy_to(&target.path()).unwrap();
    assert!(store.copy_to(&target.path()).is_err(), "it never replaces a file");
    let copy = target.open();
    copy.void_leases().unwrap();
    let check = |copy: &SqliteStore| {
        assert_eq!(copy.check().unwrap(), [] as [String; 0]);
        assert_eq!(verify(copy), verify(&store));
        ended.iter().for_each(|call| assert_reads_back(copy, call, 4));
        for call in [&held, &unindexed] {
            assert_reads_back(copy, call, 3);
            assert_eq!(copy.load_state(call.trace_id).unwrap().holder, None);
        }
        assert_eq!(
            copy.list_redispatches(held.trace_id).unwrap(),
            std::slice::from_ref(&redispatch)
        );
        assert!(copy.load_idempotency(&held.slot()).unwrap().is_some());
    };
    check(&copy);
    drop(copy);
    seal_copy(&target.path()).unwrap();
    assert!(!target.beside("-wal").exists());
    // The file alone is the copy.
    let restored = Place::new();
    fs::copy(target.path(), restored.path()).unwrap();
    check(&restored.open());
    // The original goes on.
    store.release(lease).unwrap();
    store.release(kept).unwrap();
}
