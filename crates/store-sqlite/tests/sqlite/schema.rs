//! The schema, and what the database itself refuses.

use rusqlite::Connection;
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::{After, Append, Store};

use crate::support::{Place, put};

#[test]
fn the_database_itself_refuses_to_change_what_is_append_only() {
    let place = Place::new();
    let make = Fixture::new();
    let store = place.open();
    let trace = make.call(Ending::Executing);
    let append = Append { key: trace.reserve(), ..trace.create(3, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    store.record_redispatch(&lease, &make.redispatch(2)).unwrap();
    let ended = make.call(Ending::Completed);
    let held = store.append(ended.create(3, After::Keep)).unwrap().lease.unwrap();
    store.append(ended.append(&held, 3, 1)).unwrap();
    // None of the entries names the key.
    let early = make.call(Ending::Completed);
    store.append(Append { key: early.reserve(), ..early.create(2, After::Keep) }).unwrap();
    let connection = place.connect();
    let refused = [
        ("UPDATE entry_batches SET entries = x''", "it is a view"),
        ("DELETE FROM entry_batches", "it is a view"),
        ("UPDATE first_batches SET entries = x''", "entries are append-only"),
        ("UPDATE first_batches SET id = id + 1 WHERE false OR id > 0", "entries are append-only"),
        ("DELETE FROM first_batches", "entries are append-only"),
        ("UPDATE later_batches SET entries = x''", "entries are append-only"),
        ("DELETE FROM later_batches", "entries are append-only"),
        ("UPDATE keys SET trace_number = 7", "idempotency records are kept"),
        ("DELETE FROM keys", "idempotency records are kept"),
        ("UPDATE redispatches SET attempt = 7", "dispatches are append-only"),
        ("DELETE FROM redispatches", "dispatches are append-only"),
    ];
    for (sql, message) in refused {
        let error = connection.execute_batch(sql).unwrap_err();
        assert!(error.to_string().contains(message), "`{sql}`: {error}");
    }
    // A row cannot be replaced either.
    let copies = [
        "INSERT OR REPLACE INTO first_batches SELECT * FROM first_batches",
        "INSERT OR REPLACE INTO later_batches SELECT * FROM later_batches",
        "INSERT OR REPLACE INTO keys SELECT * FROM keys",
        "INSERT OR REPLACE INTO redispatches SELECT * FROM redispatches",
    ];
    for sql in copies {
        connection.execute_batch("PRAGMA recursive_triggers = ON").unwrap();
        let error = connection.execute_batch(sql).unwrap_err();
        assert_eq!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::ConstraintViolation),
            "`{sql}`: {error}"
        );
    }
    crate::support::assert_reads_back(&store, &trace, 3);
    crate::support::assert_reads_back(&store, &ended, 4);
    assert_eq!(store.list_redispatches(trace.trace_id).unwrap().len(), 1);
}

#[test]
fn the_file_is_in_wal_mode_whoever_opens_it() {
    let place = Place::new();
    drop(place.open());
    let mode = |connection: Connection| -> String {
        connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(mode(place.connect()), "wal");
    // Another program has switched it off.
    place.connect().query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
    assert_eq!(mode(place.connect()), "delete");
    let store = place.open();
    assert_eq!(mode(place.connect()), "wal");
    put(&store, &Fixture::new().run_long(2));
}

/// Recovery at start reads the open traces only, however many have ended.
#[test]
fn open_traces_are_found_by_their_index() {
    let place = Place::new();
    drop(place.open());
    let sql = "EXPLAIN QUERY PLAN SELECT * FROM traces WHERE true AND open
        AND (NULL IS NULL OR state = NULL) AND (NULL IS NULL OR trace_id < NULL)
        ORDER BY trace_id DESC LIMIT 10";
    let plan: String = place.connect().query_row(sql, [], |row| row.get(3)).unwrap();
    assert!(plan.contains("traces_open"), "{plan}");
}
