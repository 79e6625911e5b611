//! Opening files of all kinds.

use std::path::Path;

use windlass_kernel::Code;
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::{Store, StoreError};
use windlass_store_sqlite::FORMAT;

use crate::support::{Place, assert_reads_back, open, put, verify};

/// Opens a file that must be refused.
fn refused(path: &Path) -> StoreError {
    match open(path) {
        Err(error) => error,
        Ok(_) => panic!("this was opened: {}", path.display()),
    }
}

/// Checks that opening is refused with this code and changes nothing.
fn refused_unchanged(place: &Place, code: Code) -> StoreError {
    let before = std::fs::read(place.path()).unwrap();
    let error = refused(&place.path());
    assert_eq!(error.code(), code, "{error}");
    assert!(std::fs::read(place.path()).unwrap() == before, "the file was changed");
    assert_eq!(place.locks(), [] as [&Path; 0], "and nothing was put beside it");
    error
}

#[test]
fn a_folder_is_not_a_store() {
    let place = Place::new();
    std::fs::create_dir(place.path()).unwrap();
    assert_eq!(refused(&place.path()).code(), Code::StoreCorrupt);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_does_not_exist_is_not_made() {
    let place = Place::new();
    let path = place.folder().join("missing/windlass.db");
    assert_eq!(refused(&path).code(), Code::StoreUnavailable);
    assert!(!place.folder().join("missing").exists());
}

#[test]
fn a_text_file_is_not_a_store() {
    for text in ["x", "{\"a\":1}\n", &"a longer text, of several pages. ".repeat(1_000)] {
        let place = Place::new();
        std::fs::write(place.path(), text).unwrap();
        refused_unchanged(&place, Code::StoreCorrupt);
    }
}

#[test]
fn an_empty_file_becomes_a_store() {
    let place = Place::new();
    std::fs::write(place.path(), "").unwrap();
    let trace = Fixture::new().run_long(3);
    put(&place.open(), &trace);
    assert_reads_back(&place.open(), &trace, 3);
}

#[test]
fn somebody_elses_database_is_not_a_store() {
    let marks = [
        "CREATE TABLE notes (text TEXT)",
        "PRAGMA user_version = 1; CREATE TABLE notes (text TEXT)",
        "PRAGMA application_id = 252006674; CREATE TABLE notes (text TEXT)",
        // Empty, and yet marked as something.
        "PRAGMA application_id = 252006674",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 999",
    ];
    for mark in marks {
        let place = Place::new();
        place.connect().execute_batch(mark).unwrap();
        let error = refused_unchanged(&place, Code::StoreCorrupt);
        assert!(error.to_string().contains("something else"), "`{mark}`: {error}");
    }
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let place = Place::new();
    put(&place.open(), &Fixture::new().run_long(3));
    let connection = place.connect();
    let sql = "PRAGMA user_version = 999; PRAGMA wal_checkpoint(TRUNCATE)";
    connection.execute_batch(sql).unwrap();
    drop(connection);
    let error = refused_unchanged(&place, Code::StoreTooNew);
    let StoreError::TooNew { found, supported } = error else { panic!("{error}") };
    assert_eq!((found, supported), (999, FORMAT));
}

#[test]
fn a_truncated_database_is_never_taken_for_a_whole_one() {
    let make = Fixture::new();
    let traces: Vec<_> = (0..20).map(|_| make.call(Ending::Completed)).collect();
    for keep in [1, 100, 512, 4096, 4097, 8192, 20_000] {
        let place = Place::new();
        let store = place.open();
        traces.iter().for_each(|trace| put(&store, trace));
        drop(store);
        // Closing the last connection folds the log into the file and removes it.
        let connection = place.connect();
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        drop(connection);
        let file = std::fs::OpenOptions::new().write(true).open(place.path()).unwrap();
        assert!(file.metadata().unwrap().len() > keep);
        file.set_len(keep).unwrap();
        refused_unchanged(&place, Code::StoreCorrupt);
    }
}

#[test]
fn a_damaged_page_is_reported_and_never_read_as_something_else() {
    let make = Fixture::new();
    let traces: Vec<_> = (0..20).map(|_| make.call(Ending::Completed)).collect();
    let place = Place::new();
    let store = place.open();
    traces.iter().for_each(|trace| put(&store, trace));
    drop(store);
    place.connect().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let whole = std::fs::read(place.path()).unwrap();
    let pages = whole.len() / 4096;
    for page in 1..pages {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        std::fs::write(place.path(), &bytes).unwrap();
        let Ok(store) = open(&place.path()) else { continue };
        // Each trace is as it was, or is an error, or does not match its head.
        for trace in &traces {
            let state = store.load_state(trace.trace_id);
            let records = store.list_log_entries(trace.trace_id, 0, usize::MAX);
            if let (Ok(state), Ok(records)) = (state, records) {
                assert_eq!(state.head, trace.head_after(4), "page {page}");
                assert!(records == trace.records(records.len()), "page {page}");
            }
        }
    }
}

#[test]
fn one_store_is_opened_many_times_at_one_path() {
    let place = Place::new();
    let stores: Vec<_> = (0..10).map(|_| place.open()).collect();
    assert_eq!(place.locks().len(), 10);
    let make = Fixture::new();
    let traces: Vec<_> = stores.iter().map(|_| make.run_long(3)).collect();
    for (store, trace) in stores.iter().zip(&traces) {
        put(store, trace);
    }
    for store in &stores {
        assert_eq!(verify(store), (10, 30));
    }
    drop(stores);
    assert_eq!(place.locks(), [] as [&Path; 0]);
}
