//! Damage to unindexed traces and to the index.

use windlass_kernel::Code;
use windlass_store::conformance::fixture::Ending;
use windlass_store::{After, Append, Store, StoreError};

use crate::indexing::{Indexed, damaged, hold, indexed, seen};
use crate::support::{Place, assert_reads_back, fixture, meddle, open, put};

/// The chain does not show it, but the process that has written the entry notices.
#[test]
fn the_deletion_of_a_last_entry_is_noticed_while_its_writer_lives() {
    for (which, left) in [("= (1 << 24) + 3", 2), ("BETWEEN 1 << 24 AND (2 << 24) - 1", 0)] {
        let place = Place::new();
        let store = place.open();
        let (call, other) = (fixture(1).call(Ending::Completed), fixture(2).run_long(2));
        let lease = hold(&store, &call);
        put(&store, &other);
        let sql = format!("DELETE FROM entries WHERE id {which}");
        assert_eq!(meddle(&place.tamper(), &sql), 3 - left);
        let error = store.append(call.append(&lease, 3, 1)).unwrap_err();
        assert_eq!(error.code(), Code::StateSequenceGap, "{error}");
        drop(store);
        let store = place.open();
        // Indexed with the head that the writer knew.
        assert_eq!(store.load_state(call.trace_id).unwrap().head, call.head_after(3));
        assert_eq!(seen(&store, &call), (Some(3), vec![true; left]));
        assert_reads_back(&store, &other, 2);
    }
}

#[test]
fn an_unindexed_trace_with_a_damaged_beginning_is_not_reported_as_missing() {
    for (change, readable) in [
        ("trace_id = x'00'", false),
        ("plan_id = NULL", true),
        ("plan_id = x'00'", true),
        ("holder = NULL", true),
        ("holder = zeroblob(16)", true),
    ] {
        let sql = format!("UPDATE entries SET {change} WHERE id = (2 << 24) + 1");
        damaged(&sql, |store, trace, by| {
            let state = store.load_state(trace.trace_id);
            // Its writer still knows its head. If another process indexes it, it has entries and no
            // row, and verification reports it.
            let good = match by {
                Indexed::NotYet => matches!(state, Err(StoreError::CorruptTrace { .. })),
                Indexed::ByItsWriter => state.is_ok_and(|state| state.head == trace.head_after(3)),
                Indexed::ByAnother => matches!(state, Err(StoreError::NotFound { .. })),
            };
            assert!(good, "{change}, indexed {by:?}");
            let recorded = (by == Indexed::ByItsWriter).then_some(3);
            assert_eq!(seen(store, trace), (recorded, vec![readable, true, true]), "{change}");
        });
    }
}

#[test]
fn an_unreadable_reservation_is_not_a_free_key() {
    for change in ["request_digest = NULL", "request_digest = x'00'"] {
        let sql = format!("UPDATE entries SET {change} WHERE id = (2 << 24) + 3");
        let place = Place::new();
        let store = place.open();
        let make = fixture(0);
        let calls = [(); 2].map(|()| make.call(Ending::Completed));
        let _leases = calls.each_ref().map(|call| hold(&store, call));
        assert_eq!(meddle(&place.tamper(), &sql), 1);
        let refused = |store: &dyn Store| {
            let error = store.load_idempotency(&calls[1].slot()).unwrap_err();
            assert_eq!(error.code(), Code::StoreCorrupt, "{change}");
            let other = fixture(7).call(Ending::Completed);
            let append = Append { key: calls[1].reserve(), ..other.create(3, After::Keep) };
            assert_eq!(store.append(append).unwrap_err().code(), Code::StoreCorrupt, "{change}");
            assert!(store.load_idempotency(&calls[0].slot()).unwrap().is_some());
        };
        refused(&store);
        refused(&place.open());
        drop(store);
        assert_eq!(indexed(&place), (2, 2, 2));
        refused(&place.open());
    }
}

/// The record of a key is in an entry: if that cannot be read, the key is not free.
#[test]
fn an_indexed_key_whose_entry_is_changed_or_deleted_is_not_free() {
    for change in [
        "UPDATE entries SET idempotency_key = 'another' WHERE id = (1 << 24) + 3",
        "UPDATE entries SET server_id = NULL WHERE id = (1 << 24) + 3",
        "DELETE FROM entries WHERE id >> 24 = 1",
    ] {
        let place = Place::new();
        let make = fixture(0);
        let calls = [(); 2].map(|()| make.call(Ending::Completed));
        for call in &calls {
            hold(&place.open(), call);
        }
        assert_eq!(indexed(&place), (2, 2, 2));
        assert!(meddle(&place.tamper(), change) > 0, "{change}");
        let store = place.open();
        let error = store.load_idempotency(&calls[0].slot()).unwrap_err();
        assert_eq!(error.code(), Code::StoreCorrupt, "{change}");
        for (number, code) in [Code::StoreCorrupt, Code::IdempotencyConflict].iter().enumerate() {
            let other = fixture(7).call(Ending::Completed);
            let append = Append { key: calls[number].reserve(), ..other.create(3, After::Keep) };
            assert_eq!(store.append(append).unwrap_err().code(), *code, "{change}");
        }
    }
}

/// A wrong one is in `audit`.
#[test]
fn a_missing_mark_stops_the_store() {
    let place = Place::new();
    let make = fixture(0);
    let store = place.open();
    let calls = [(); 3].map(|()| make.call(Ending::Completed));
    for call in &calls {
        hold(&store, call);
    }
    drop(store);
    place.connect().execute_batch("DELETE FROM indexed").unwrap();
    match open(&place.path()) {
        Err(error) => assert_eq!(error.code(), Code::StoreCorrupt, "{error}"),
        Ok(_) => panic!("this was opened"),
    }
}
