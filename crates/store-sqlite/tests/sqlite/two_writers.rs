//! A store that appends in quick succession, while another connection writes too.

use std::time::Duration;

use windlass_kernel::Code;
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::{After, Append, Store};
use windlass_store_sqlite::SqliteStore;

use crate::support::{Place, assert_reads_back, fixture, put, verify};

/// Appends several traces in quick succession.
fn append_some(store: &SqliteStore, make: &Fixture) {
    (0..5).for_each(|_| put(store, &make.call(Ending::Completed)));
}

#[test]
fn appends_of_another_process_in_between_are_seen() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    let (a, b) = (fixture(1), fixture(2));
    for _ in 0..20 {
        append_some(&one, &a);
        // A key, a trace and a lease of the other process.
        let theirs = b.call(Ending::Completed);
        let append = Append { key: theirs.reserve(), ..theirs.create(3, After::Keep) };
        let lease = two.append(append).unwrap().lease.unwrap();
        let mine = a.call(Ending::Completed);
        let append = Append { key: theirs.reserve(), ..mine.create(3, After::Keep) };
        let error = one.append(append).unwrap_err();
        assert_eq!(error.code(), Code::IdempotencyConflict);
        let error = one.append(theirs.create(3, After::Keep)).unwrap_err();
        assert_eq!(error.code(), Code::StateConcurrentExecution);
        two.append(theirs.append(&lease, 3, 1)).unwrap();
        // The refused trace does not exist, and can be created.
        put(&one, &mine);
        assert_reads_back(&two, &mine, 4);
    }
    assert_eq!(verify(&one), (20 * 7, 20 * 7 * 4));
}

#[test]
fn an_append_waits_for_the_transaction_of_another_connection() {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    append_some(&store, &make);
    let connection = place.connect();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let last = make.call(Ending::Completed);
    std::thread::scope(|scope| {
        let append = scope.spawn(|| put(&store, &last));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!append.is_finished());
        connection.execute_batch("COMMIT").unwrap();
        append.join().unwrap();
    });
    assert_reads_back(&store, &last, 4);
}

#[test]
fn an_append_that_is_refused_or_fails_leaves_nothing() {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    place
        .connect()
        .execute_batch(
            "CREATE TABLE stop (id INTEGER);
             CREATE TRIGGER stops BEFORE INSERT ON first_batches
             WHEN (SELECT count(*) FROM stop) > 0
             BEGIN SELECT RAISE(ABORT, 'stopped'); END",
        )
        .unwrap();
    let connection = place.connect();
    let mut made = 0;
    for _ in 0..5 {
        append_some(&store, &make);
        let call = make.call(Ending::Completed);
        put(&store, &call);
        let error = store.append(call.create(4, After::Release)).unwrap_err();
        assert_eq!(error.code(), Code::StateConcurrentExecution);
        connection.execute_batch("INSERT INTO stop VALUES (1)").unwrap();
        let call = make.call(Ending::Completed);
        let error = store.append(call.create(4, After::Release)).unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
        connection.execute_batch("DELETE FROM stop").unwrap();
        put(&store, &call);
        assert_reads_back(&store, &call, 4);
        made += 7;
    }
    assert_eq!(verify(&store), (made, made * 4));
}
