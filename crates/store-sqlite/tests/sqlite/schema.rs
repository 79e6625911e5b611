//! The schema, and what the database itself refuses.

use rusqlite::Connection;
use windlass_kernel::State;
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::{After, Append, Store, TraceFilter};

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

/// A store as an earlier build made it, with other indexes.
#[test]
fn a_store_of_an_earlier_build_gets_the_indexes_when_it_is_opened() {
    let place = Place::new();
    let make = Fixture::new();
    let run = make.run(&[State::Running, State::Terminal]);
    put(&place.open(), &run);
    let earlier = "DROP INDEX traces_of_plan; DROP INDEX traces_in_state; DROP INDEX traces_held;
        CREATE INDEX traces_ended_runs ON traces (trace_id) WHERE state = 'TERMINAL';";
    let ended = TraceFilter { state: Some(State::Terminal), ..TraceFilter::all(9) };
    let of_plan = TraceFilter { plan_id: Some(run.plan_id), ..TraceFilter::all(9) };
    let lists = |store: &dyn Store| {
        [&ended, &of_plan].map(|filter| {
            let listed = store.list_traces(filter).unwrap();
            listed.iter().map(|trace| trace.head.trace_id).collect::<Vec<_>>()
        })
    };
    place.connect().execute_batch(earlier).unwrap();
    let store = place.open();
    assert_eq!(lists(&store), [[run.trace_id], [run.trace_id]]);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
    // A process that has the store open while another build takes them away reads without them.
    place.connect().execute_batch(earlier).unwrap();
    assert_eq!(lists(&store), [[run.trace_id], [run.trace_id]]);
    // A part of them is there.
    place
        .connect()
        .execute_batch("CREATE INDEX traces_of_plan ON traces (plan_id, trace_id)")
        .unwrap();
    let store = place.open();
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}

/// SQLite writes an index anew if an update names one of its columns.
#[test]
fn an_append_names_the_columns_that_change() {
    let place = Place::new();
    let make = Fixture::new();
    let run = make.run_long(12);
    let store = place.open();
    let lease = store.append(run.create(10, After::Keep)).unwrap().lease.unwrap();
    let spy = "CREATE TABLE named (what TEXT);
        CREATE TRIGGER of_state AFTER UPDATE OF state ON traces BEGIN INSERT INTO named VALUES ('state'); END;
        CREATE TRIGGER of_open AFTER UPDATE OF open ON traces BEGIN INSERT INTO named VALUES ('open'); END;
        CREATE TRIGGER of_plan AFTER UPDATE OF plan_id ON traces BEGIN INSERT INTO named VALUES ('plan'); END;
        CREATE TRIGGER of_head AFTER UPDATE OF last_sequence_number ON traces
            BEGIN INSERT INTO named VALUES ('head'); END;
        CREATE TRIGGER of_holder AFTER UPDATE OF holder ON traces BEGIN INSERT INTO named VALUES ('holder'); END;";
    place.connect().execute_batch(spy).unwrap();
    let named = || -> Vec<String> {
        let connection = place.connect();
        let mut rows = connection.prepare("DELETE FROM named RETURNING what").unwrap();
        let mut named: Vec<String> =
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        named.sort();
        named
    };
    store.append(run.append(&lease, 10, 1)).unwrap();
    assert_eq!(named(), ["head"]);
    store.release(lease).unwrap();
    assert_eq!(named(), ["holder"]);
    let lease = store.acquire(run.trace_id).unwrap();
    assert_eq!(named(), ["holder"]);
    store.append(Append { after: After::Release, ..run.append(&lease, 11, 1) }).unwrap();
    assert_eq!(named(), ["head", "holder"]);
    let held = make.run(&[State::Running, State::Checkpoint]);
    let lease = store.append(held.create(2, After::Keep)).unwrap().lease.unwrap();
    store.release(lease).unwrap();
    let lease = store.acquire(held.trace_id).unwrap();
    assert_eq!(named(), ["holder", "holder"]);
    store.append(held.append(&lease, 2, 1)).unwrap();
    assert_eq!(named(), ["head", "state"]);
}
