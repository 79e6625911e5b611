//! The schema, and what the database itself refuses.

use std::path::PathBuf;

use rusqlite::Connection;
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::{After, Append, Store};

use crate::support::{Place, put};

/// The schema as the database keeps it.
fn dump(connection: &Connection) -> String {
    let pragma = |name: &str| -> i64 {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
    };
    let (application, version) = (pragma("application_id"), pragma("user_version"));
    let mut text = format!(
        "-- What the migrations make, as the database tells it. A test holds this file against them;\n\
         -- UPDATE_SCHEMA=1 cargo test -p windlass-store-sqlite schema writes it anew.\n\n\
         PRAGMA application_id = {application};\n\
         PRAGMA user_version = {version};\n"
    );
    let mut statement = connection
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
        .unwrap();
    let all = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for sql in all {
        text.push_str(&format!("\n{};\n", sql.unwrap()));
    }
    text
}

#[test]
fn schema_sql_is_what_the_migrations_make() {
    let place = Place::new();
    drop(place.open());
    let made = dump(&place.connect());
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schema.sql");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made,
        "schema.sql is stale; write it anew with\n  \
         UPDATE_SCHEMA=1 cargo test -p windlass-store-sqlite schema"
    );
    // And what is written there can be run.
    Connection::open_in_memory().unwrap().execute_batch(&kept).unwrap();
}

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
    let connection = place.connect();
    let refused = [
        ("UPDATE entries SET body = NULL", "it is a view"),
        ("DELETE FROM entries", "it is a view"),
        ("UPDATE entries_opening SET body = NULL", "entries are append-only"),
        ("UPDATE entries_opening SET ts = ts + 1 WHERE false OR id > 0", "entries are append-only"),
        ("DELETE FROM entries_opening", "entries are append-only"),
        ("UPDATE entries_later SET body = NULL", "entries are append-only"),
        ("DELETE FROM entries_later", "entries are append-only"),
        ("UPDATE idempotency SET tool_name = 'other'", "idempotency records are kept"),
        ("DELETE FROM idempotency", "idempotency records are kept"),
        ("UPDATE redispatches SET attempt = 7", "dispatches are append-only"),
        ("DELETE FROM redispatches", "dispatches are append-only"),
    ];
    for (sql, message) in refused {
        let error = connection.execute_batch(sql).unwrap_err();
        assert!(error.to_string().contains(message), "`{sql}`: {error}");
    }
    // A row cannot be put in the place of another one either.
    let copies = [
        "INSERT OR REPLACE INTO entries_opening SELECT * FROM entries_opening",
        "INSERT OR REPLACE INTO entries_later SELECT * FROM entries_later",
        "INSERT OR REPLACE INTO idempotency SELECT * FROM idempotency",
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
    // A tool has switched it off meanwhile.
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

/// What a database of the first version had in one tree is read, verified and added to.
#[test]
fn a_database_of_the_first_version_is_taken_over_as_it_is() {
    let place = Place::new();
    let make = Fixture::new();
    let store = place.open();
    let ended = make.call(Ending::Completed);
    store.append(ended.create(4, After::Release)).unwrap();
    let open = make.call(Ending::Completed);
    let lease = store.append(open.create(2, After::Keep)).unwrap().lease.unwrap();
    store.append(open.append(&lease, 2, 1)).unwrap();
    drop(store);
    place
        .connect()
        .execute_batch(
            "DROP VIEW entries;
             DROP TRIGGER opening_entries_are_never_updated;
             DROP TRIGGER opening_entries_are_never_deleted;
             INSERT INTO entries_opening SELECT * FROM entries_later;
             DROP TABLE entries_later;
             ALTER TABLE entries_opening RENAME TO entries;
             CREATE TRIGGER entries_are_never_updated BEFORE UPDATE ON entries
             BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
             CREATE TRIGGER entries_are_never_deleted BEFORE DELETE ON entries
             BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
             PRAGMA user_version = 1;",
        )
        .unwrap();
    let store = place.open();
    crate::support::assert_reads_back(&store, &ended, 4);
    crate::support::assert_reads_back(&store, &open, 3);
    let lease = store.acquire(open.trace_id).unwrap();
    store.append(open.append(&lease, 3, 1)).unwrap();
    crate::support::assert_reads_back(&store, &open, 4);
    assert_eq!(crate::support::verify(&store), (2, 8));
    let connection = place.connect();
    let count = |table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("entries_opening"), count("entries_later")), (7, 1));
}
