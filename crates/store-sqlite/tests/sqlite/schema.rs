//! The schema, and what the database itself refuses.

use std::path::PathBuf;

use rusqlite::Connection;
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::{After, Append, Store, StoreError};

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
    // None of its entries names its key.
    let early = make.call(Ending::Completed);
    store.append(Append { key: early.reserve(), ..early.create(2, After::Keep) }).unwrap();
    let connection = place.connect();
    let refused = [
        ("UPDATE sheets SET sheet = x''", "it is a view"),
        ("DELETE FROM sheets", "it is a view"),
        ("UPDATE sheets_opening SET sheet = x''", "entries are append-only"),
        ("UPDATE sheets_opening SET id = id + 1 WHERE false OR id > 0", "entries are append-only"),
        ("DELETE FROM sheets_opening", "entries are append-only"),
        ("UPDATE sheets_later SET sheet = x''", "entries are append-only"),
        ("DELETE FROM sheets_later", "entries are append-only"),
        ("UPDATE idempotency SET tool_name = 'other'", "idempotency records are kept"),
        ("DELETE FROM idempotency", "idempotency records are kept"),
        ("UPDATE keys SET trace_number = 7", "idempotency records are kept"),
        ("DELETE FROM keys", "idempotency records are kept"),
        ("UPDATE redispatches SET attempt = 7", "dispatches are append-only"),
        ("DELETE FROM redispatches", "dispatches are append-only"),
    ];
    for (sql, message) in refused {
        let error = connection.execute_batch(sql).unwrap_err();
        assert!(error.to_string().contains(message), "`{sql}`: {error}");
    }
    // A row cannot be put in the place of another one either.
    let copies = [
        "INSERT OR REPLACE INTO sheets_opening SELECT * FROM sheets_opening",
        "INSERT OR REPLACE INTO sheets_later SELECT * FROM sheets_later",
        "INSERT OR REPLACE INTO idempotency SELECT * FROM idempotency",
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

/// The same database as an older version had it: with a row for each entry, in two tables or in one, and
/// with all that is filed of keys in full.
fn aged(place: &Place, version: usize) -> Place {
    let aged = Place::new();
    let old = aged.connect();
    for migration in windlass_store_sqlite::MIGRATIONS.iter().take(version) {
        old.execute_batch(migration).unwrap();
    }
    if version == 3 {
        let old_tables = "DROP VIEW entries; DROP TABLE entries_opening; DROP TABLE entries_later";
        old.execute_batch(old_tables).unwrap();
    }
    let mark = format!("PRAGMA application_id = 0x574e444c; PRAGMA user_version = {version}");
    old.execute_batch(&mark).unwrap();
    drop(old);
    let connection = place.tamper();
    connection.execute("ATTACH ?1 AS old", [aged.path().to_str().unwrap()]).unwrap();
    let entries = match version {
        1 => "INSERT INTO old.entries SELECT * FROM temp.entries;",
        3 => {
            "INSERT INTO old.sheets_opening SELECT * FROM main.sheets_opening;
             INSERT INTO old.sheets_later SELECT * FROM main.sheets_later;"
        }
        _ => {
            "INSERT INTO old.entries_opening SELECT * FROM temp.entries
                 WHERE id IN (SELECT id FROM sheets_opening);
             INSERT INTO old.entries_later SELECT * FROM temp.entries
                 WHERE id IN (SELECT id FROM sheets_later);"
        }
    };
    connection
        .execute_batch(&format!(
            "{entries}
             INSERT INTO old.traces SELECT * FROM main.traces;
             INSERT INTO old.idempotency SELECT * FROM main.idempotency;
             INSERT INTO old.idempotency
                 SELECT server_id, tool_name, idempotency_key, request_digest, trace_id, tool_call_id
                 FROM temp.entries WHERE server_id IS NOT NULL
                 AND id >> 24 <= (SELECT upto FROM main.filed);
             UPDATE old.filed SET upto = (SELECT upto FROM main.filed);"
        ))
        .unwrap();
    aged
}

/// What a database of an older version has is read, verified and added to, whether filed or not.
#[test]
fn a_database_of_an_older_version_is_taken_over_as_it_is() {
    for (version, filed) in (1..=3).flat_map(|version| [(version, true), (version, false)]) {
        let place = Place::new();
        let make = Fixture::new();
        let store = place.open();
        let ended = make.call(Ending::Completed);
        let append = Append { key: ended.reserve(), ..ended.create(4, After::Release) };
        store.append(append).unwrap();
        let open = make.call(Ending::Completed);
        let append = Append { key: open.reserve(), ..open.create(2, After::Keep) };
        let lease = store.append(append).unwrap().lease.unwrap();
        store.append(open.append(&lease, 2, 1)).unwrap();
        let damaged = make.call(Ending::Completed);
        store.append(damaged.create(4, After::Release)).unwrap();
        let states = |store: &dyn Store| {
            [&ended, &open].map(|trace| store.load_state(trace.trace_id).unwrap())
        };
        let before = states(&store);
        let reserved = |store: &dyn Store| {
            [&ended, &open].map(|trace| store.load_idempotency(&trace.slot()).unwrap().unwrap())
        };
        let keys = reserved(&store);
        if filed {
            drop(store);
        } else {
            std::mem::forget(store);
        }
        let sql = "UPDATE entries SET from_state = 'DREAMING' WHERE id = (3 << 24) + 2";
        assert_eq!(crate::support::meddle(&place.tamper(), sql), 1);
        let place = aged(&place, version);
        let store = place.open();
        crate::support::assert_reads_back(&store, &ended, 4);
        crate::support::assert_reads_back(&store, &open, 3);
        assert_eq!(states(&store), before);
        assert_eq!(reserved(&store), keys);
        // A key that is taken stays taken.
        for trace in [&ended, &open] {
            let other = Fixture::new().call(Ending::Completed);
            let append = Append { key: trace.reserve(), ..other.create(3, After::Release) };
            assert!(store.append(append).is_err(), "version {version}");
        }
        let error = store.list_log_entries(damaged.trace_id, 1, 9).unwrap_err();
        let StoreError::CorruptTrace { source, .. } = error else { panic!("{error}") };
        assert!(source.to_string().contains("from_state"), "{source}");
        assert_eq!(store.list_log_entries(damaged.trace_id, 2, 9).unwrap().len(), 2);
        let lease = store.acquire(open.trace_id).unwrap();
        store.append(open.append(&lease, 3, 1)).unwrap();
        crate::support::assert_reads_back(&store, &open, 4);
        drop(store);
        let sql = "DELETE FROM entries WHERE id >> 24 = 3;
                   DELETE FROM traces WHERE trace_number = 3;";
        place.tamper().execute_batch(sql).unwrap();
        assert_eq!(crate::support::verify(&place.open()), (2, 8), "version {version}");
        assert!(crate::reserved::told(&place.open()).unwrap().is_empty(), "version {version}");
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'entries%'";
        let left: i64 = place.connect().query_row(tables, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }
}
