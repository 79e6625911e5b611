//! What a process that closes the store leaves to the next one: whoever opens a store first reads and checks all of its
//! write-ahead log, so that a long one makes every command slow.

use std::time::Duration;

use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store_sqlite::{Life, Settings, SqliteStore};

use crate::support::{Place, assert_reads_back, fixture, put, verify};

/// The most that is left in the log: 64 pages with their headers.
const LEFT_BYTES_MAX: u64 = 64 * (4096 + 24);
/// So many calls fill the log with more than that, in less than a checkpoint needs.
const CALLS: usize = 150;

fn log_bytes(place: &Place) -> u64 {
    place.beside("-wal").metadata().unwrap().len()
}

/// Makes calls until the log is long.
fn fill(place: &Place, store: &SqliteStore) -> Vec<Trace> {
    let make = fixture(0);
    let calls: Vec<Trace> = (0..CALLS).map(|_| make.call(Ending::Completed)).collect();
    calls.iter().for_each(|call| put(store, call));
    assert!(log_bytes(place) > 2 * LEFT_BYTES_MAX, "{}", log_bytes(place));
    calls
}

#[test]
fn mend_19_a_store_that_is_closed_leaves_a_short_log() {
    let place = Place::new();
    let store = place.open();
    let calls = fill(&place, &store);
    drop(store);
    assert!(log_bytes(&place) <= LEFT_BYTES_MAX, "{} bytes are left", log_bytes(&place));
    let store = place.open();
    assert_eq!(verify(&store), (CALLS, CALLS * 4));
    calls.iter().for_each(|call| assert_reads_back(&store, call, 4));
}

#[test]
fn mend_19_a_command_that_only_reads_leaves_a_short_log() {
    let place = Place::new();
    let writer = place.open();
    fill(&place, &writer);
    // Like a process that was killed.
    std::mem::forget(writer);
    let store = place.open();
    assert_eq!(verify(&store), (CALLS, CALLS * 4));
    drop(store);
    assert!(log_bytes(&place) <= LEFT_BYTES_MAX, "{} bytes are left", log_bytes(&place));
    assert_eq!(verify(&place.open()), (CALLS, CALLS * 4));
}

#[test]
fn a_process_that_lives_for_a_moment_does_not_pay_for_the_log() {
    let place = Place::new();
    let settings = Settings { life: Life::Moment, ..Settings::default() };
    let store = SqliteStore::open(&place.path(), settings).unwrap();
    fill(&place, &store);
    let before = log_bytes(&place);
    drop(store);
    assert_eq!(log_bytes(&place), before);
    assert_eq!(verify(&place.open()), (CALLS, CALLS * 4));
}

/// Somebody else's reader is not waited for, and what it reads stays.
#[test]
fn a_log_that_is_read_stays_when_the_store_is_closed() {
    let place = Place::new();
    let settings = Settings { busy_timeout: Duration::from_secs(3_600), ..Settings::default() };
    let store = SqliteStore::open(&place.path(), settings).unwrap();
    let reader = place.connect();
    let count = "SELECT count(*) FROM entry_batches";
    let counted = || -> i64 { reader.query_row(count, [], |row| row.get(0)).unwrap() };
    reader.execute_batch("BEGIN").unwrap();
    let before = counted();
    fill(&place, &store);
    drop(store);
    assert!(log_bytes(&place) > LEFT_BYTES_MAX);
    assert_eq!(counted(), before);
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(verify(&place.open()), (CALLS, CALLS * 4));
    assert!(log_bytes(&place) <= LEFT_BYTES_MAX, "{} bytes are left", log_bytes(&place));
}
