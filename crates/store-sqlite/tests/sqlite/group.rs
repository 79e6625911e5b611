//! Group commit: many threads share a transaction, and each append is atomic.

use std::sync::Barrier;

use windlass_kernel::Code;
use windlass_store::conformance::fixture::{CallSpec, Ending, Trace};
use windlass_store::{After, AppendError, Store};
use windlass_store_sqlite::{Settings, SqliteStore};

use crate::support::{Place, assert_reads_back, fixture, put, verify};

const THREADS: usize = 32;
const ROUNDS: usize = 10;

/// A trigger of these tests refuses this text.
const POISON: &str = "hemlock";

/// Appends the traces of all threads at the same time.
fn append_all(store: &dyn Store, traces: &[Vec<Trace>]) -> Vec<Vec<Result<(), AppendError>>> {
    let barrier = &Barrier::new(traces.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = traces
            .iter()
            .map(|mine| {
                scope.spawn(move || {
                    barrier.wait();
                    let append = |trace: &Trace| {
                        store.append(trace.create(trace.len(), After::Release)).map(drop)
                    };
                    mine.iter().map(append).collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn appends_of_32_threads_all_land() {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    let traces: Vec<Vec<Trace>> =
        (0..THREADS).map(|_| (0..ROUNDS).map(|_| make.call(Ending::Completed)).collect()).collect();
    for result in append_all(&store, &traces).into_iter().flatten() {
        result.unwrap();
    }
    assert_eq!(verify(&store), (THREADS * ROUNDS, THREADS * ROUNDS * 4));
    for trace in traces.iter().flatten() {
        assert_reads_back(&store, trace, 4);
    }
}

#[test]
fn an_append_that_the_database_refuses_fails_alone_in_its_group() {
    let place = Place::new();
    let store = place.open();
    place
        .connect()
        .execute_batch(&format!(
            "CREATE TRIGGER taster BEFORE INSERT ON first_batches
             WHEN instr(NEW.entries, CAST('{POISON}' AS BLOB))
             BEGIN SELECT RAISE(ABORT, 'poisoned'); END"
        ))
        .unwrap();
    let make = fixture(0);
    let bad = |thread: usize, round: usize| (thread + round).is_multiple_of(7);
    let call = |thread: usize, round: usize| {
        let result = if bad(thread, round) { POISON } else { "water" };
        let result = format!(r#"{{"drink":"{result}"}}"#);
        make.call_of(&CallSpec { result, ..CallSpec::read(Ending::Completed) })
    };
    let traces: Vec<Vec<Trace>> =
        (0..THREADS).map(|thread| (0..ROUNDS).map(|round| call(thread, round)).collect()).collect();
    let results = append_all(&store, &traces);
    let mut landed = 0;
    for (thread, (mine, results)) in traces.iter().zip(results).enumerate() {
        for (round, (trace, result)) in mine.iter().zip(results).enumerate() {
            if bad(thread, round) {
                assert_eq!(result.unwrap_err().code(), Code::StoreUnavailable);
                let error = store.load_state(trace.trace_id).unwrap_err();
                assert_eq!(error.code(), Code::TraceNotFound);
            } else {
                result.unwrap();
                assert_reads_back(&store, trace, 4);
                landed += 1;
            }
        }
    }
    assert_eq!(verify(&store), (landed, landed * 4));
}

/// A refusal in the middle of a group leaves nothing in the shared transaction.
#[test]
fn an_append_that_the_rules_refuse_leaves_nothing_in_its_group() {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    let taken = make.call(Ending::Completed);
    let whole = taken.create(4, After::Release);
    store.append(windlass_store::Append { key: taken.reserve(), ..whole }).unwrap();
    let barrier = &Barrier::new(THREADS);
    let traces: Vec<Trace> = (0..THREADS).map(|_| make.call(Ending::Completed)).collect();
    std::thread::scope(|scope| {
        for (number, trace) in traces.iter().enumerate() {
            let (store, taken) = (&store, &taken);
            scope.spawn(move || {
                barrier.wait();
                let owner = if number % 2 == 0 { trace } else { taken };
                let whole = trace.create(4, After::Release);
                let append = windlass_store::Append { key: owner.reserve(), ..whole };
                assert_eq!(store.append(append).is_ok(), number % 2 == 0);
            });
        }
    });
    assert_eq!(verify(&store), (1 + THREADS / 2, 4 + THREADS / 2 * 4));
}

/// The number of pages in the write-ahead log, and how many of them are checkpointed.
fn log(place: &Place) -> (i64, i64) {
    let sql = "PRAGMA wal_checkpoint(NOOP)";
    place.connect().query_row(sql, [], |row| Ok((row.get(1)?, row.get(2)?))).unwrap()
}

#[test]
fn a_long_log_is_checkpointed() {
    const PAGES: i64 = 40;
    let make = fixture(0);
    let longest = |wal_pages| {
        let place = Place::new();
        let settings = Settings { wal_pages, ..Settings::default() };
        let store = SqliteStore::open(&place.path(), settings).unwrap();
        let pages = (0..100).map(|_| {
            put(&store, &make.call(Ending::Completed));
            log(&place).0
        });
        pages.max().unwrap()
    };
    assert!(longest(40) < PAGES + 10);
    assert!(longest(1000) > 2 * PAGES);
}

/// Many callers leave no longer log than one.
#[test]
fn the_log_is_checkpointed_after_many_callers() {
    let place = Place::new();
    let settings = Settings { wal_pages: 1, ..Settings::default() };
    let store = SqliteStore::open(&place.path(), settings).unwrap();
    let make = fixture(0);
    let traces: Vec<Vec<Trace>> =
        (0..THREADS).map(|_| (0..ROUNDS).map(|_| make.call(Ending::Completed)).collect()).collect();
    for result in append_all(&store, &traces).into_iter().flatten() {
        result.unwrap();
    }
    drop(store);
    put(&place.open(), &make.call(Ending::Completed));
    let (pages, _) = log(&place);
    assert!(pages < 40, "{pages} pages are left");
}

/// A checkpoint that a reader prevents is made later.
#[test]
fn a_log_that_is_read_is_checkpointed_later() {
    let place = Place::new();
    let settings = Settings { wal_pages: 10, ..Settings::default() };
    let store = SqliteStore::open(&place.path(), settings).unwrap();
    let make = fixture(0);
    let reader = place.connect();
    reader.execute_batch("BEGIN; SELECT count(*) FROM entry_batches").unwrap();
    (0..50).for_each(|_| put(&store, &make.call(Ending::Completed)));
    let (pages, checkpointed) = log(&place);
    assert!(pages > 50 && checkpointed < pages, "{checkpointed} of {pages}");
    drop(reader);
    // When the log has grown by as much again.
    (0..10).for_each(|_| put(&store, &make.call(Ending::Completed)));
    let (pages, _) = log(&place);
    assert!(pages < 40, "{pages} pages are left");
    assert_eq!(verify(&store), (60, 60 * 4));
}
