//! The snapshot that a lone writer keeps between two appends: it saves time, and hides nothing.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use windlass_kernel::Code;
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::{After, Append, Store};
use windlass_store_sqlite::SqliteStore;

use crate::support::{Place, assert_reads_back, fixture, put, verify};

/// Appends often enough that a snapshot is kept.
fn hurry(store: &SqliteStore, make: &Fixture) {
    (0..5).for_each(|_| put(store, &make.call(Ending::Completed)));
}

/// Whether somebody's snapshot keeps the log from being folded whole.
fn log_is_read(connection: &Connection) -> bool {
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_snapshot_is_kept_in_a_hurry_and_given_up_in_a_pause() {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    let connection = place.connect();
    connection.busy_timeout(Duration::ZERO).unwrap();
    put(&store, &make.call(Ending::Completed));
    assert!(!log_is_read(&connection), "there is no hurry yet");
    // A machine that is busy may take the hurry out of it.
    let kept = (0..100).any(|_| {
        hurry(&store, &make);
        log_is_read(&connection)
    });
    assert!(kept);
    let started = Instant::now();
    while log_is_read(&connection) {
        assert!(started.elapsed() < Duration::from_secs(20), "it is never given up");
        std::thread::sleep(Duration::from_millis(5));
    }
    hurry(&store, &make);
}

#[test]
fn what_another_process_writes_meanwhile_is_not_missed() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    let (a, b) = (fixture(1), fixture(2));
    for _ in 0..20 {
        hurry(&one, &a);
        // A key, a trace and a lease of the other one.
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
        // What was refused is not there, and can be made.
        put(&one, &mine);
        assert_reads_back(&two, &mine, 4);
    }
    assert_eq!(verify(&one), (20 * 7, 20 * 7 * 4));
}

#[test]
fn a_writer_in_a_hurry_waits_for_another_one() {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    hurry(&store, &make);
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

/// A refusal and a failure leave nothing, and the next one goes on.
#[test]
fn what_is_refused_or_fails_in_a_hurry_leaves_nothing() {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    place
        .connect()
        .execute_batch(
            "CREATE TABLE stop (id INTEGER);
             CREATE TRIGGER stops BEFORE INSERT ON sheets_opening
             WHEN (SELECT count(*) FROM stop) > 0
             BEGIN SELECT RAISE(ABORT, 'stopped'); END",
        )
        .unwrap();
    let connection = place.connect();
    let mut made = 0;
    for _ in 0..5 {
        hurry(&store, &make);
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
