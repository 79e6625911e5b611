//! What is wrong with the database itself, and is in no entry.

use windlass_kernel::Code;
use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store::{After, Append, Store};

use crate::support::{Place, fixture, open};

/// A call that was dispatched three times, and one that waits.
fn calls(place: &Place) -> [Trace; 2] {
    let make = fixture(0);
    let [one, two] = [make.call(Ending::Executing), make.call(Ending::Authorized)];
    let store = place.open();
    let append = Append { key: one.reserve(), ..one.create(3, After::Keep) };
    let lease = store.append(append).unwrap().lease.unwrap();
    for attempt in 2..4 {
        store.record_redispatch(&lease, &make.redispatch(attempt)).unwrap();
    }
    store.append(two.create(2, After::Release)).unwrap();
    store.release(lease).unwrap();
    assert_eq!(store.check().unwrap(), [] as [String; 0]);
    [one, two]
}

/// Changes the database, with the triggers off but the checksums as they are.
fn change(place: &Place, sql: &str) {
    let connection = place.connect();
    let triggers = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
    connection.set_db_config(triggers, false).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[test]
fn changed_dispatches_are_reported_and_never_counted() {
    for sql in [
        "DELETE FROM redispatches",
        "DELETE FROM redispatches WHERE attempt = 3",
        "DELETE FROM redispatches WHERE attempt = 2",
        "UPDATE redispatches SET document = replace(document, 'answer', 'reply!')",
        "INSERT INTO redispatches SELECT trace_id, 4, document FROM redispatches WHERE attempt = 3",
        "UPDATE redispatches SET trace_id = (SELECT max(trace_id) FROM traces)",
    ] {
        let place = Place::new();
        let [call, _] = calls(&place);
        change(
            &place,
            &sql.replace("document = replace(document", "document = CAST(replace(document")
                .replace("'reply!')", "'reply!') AS BLOB)"),
        );
        let store = place.open();
        assert!(!store.check().unwrap().is_empty(), "{sql}");
        let listed = store.list_redispatches(call.trace_id).unwrap_err();
        assert_eq!(listed.code(), Code::StoreCorrupt, "{sql}");
        let lease = store.acquire(call.trace_id).unwrap();
        let make = fixture(5);
        for attempt in 2..6 {
            let again = store.record_redispatch(&lease, &make.redispatch(attempt)).unwrap_err();
            assert_eq!(again.code(), Code::StoreCorrupt, "{sql}");
        }
    }
}

#[test]
fn a_schema_that_is_not_the_expected_one_is_reported() {
    for (sql, name) in [
        ("DROP TRIGGER keys_are_never_deleted", "keys_are_never_deleted"),
        ("DROP TRIGGER first_batches_are_never_updated", "first_batches_are_never_updated"),
        ("DROP INDEX traces_open", "traces_open"),
        (
            "DROP INDEX traces_open; CREATE INDEX traces_open ON traces (trace_id) WHERE open > 1",
            "traces_open",
        ),
        ("CREATE TRIGGER mine AFTER INSERT ON keys BEGIN DELETE FROM replay_points; END", "mine"),
        ("CREATE TABLE mine (x)", "mine"),
    ] {
        let place = Place::new();
        calls(&place);
        change(&place, sql);
        let found = place.open().check().unwrap().join("\n");
        assert!(found.contains(name), "{sql}: {found}");
    }
}

#[test]
fn a_changed_row_of_a_trace_is_refused() {
    for sql in [
        "holder = zeroblob(16)",
        "holder = trace_id",
        "fence = fence + 1",
        "fence = 9223372036854775807",
        "plan_id = trace_id",
        "trace_number = trace_number + 1",
        "open = 0",
        "redispatches = NULL",
        "redispatches = zeroblob(32)",
        "checksum = checksum + 1",
    ] {
        let place = Place::new();
        let [call, _] = calls(&place);
        change(&place, &format!("UPDATE traces SET {sql} WHERE redispatches IS NOT NULL"));
        let store = place.open();
        let error = store.load_state(call.trace_id).unwrap_err();
        assert_eq!(error.code(), Code::StoreCorrupt, "{sql}");
        assert!(!store.check().unwrap().is_empty(), "{sql}");
        assert!(store.acquire(call.trace_id).is_err(), "{sql}");
    }
}

#[test]
fn a_changed_number_of_indexed_traces_is_refused() {
    for sql in [
        "upto = 9223372036854775807",
        "upto = -1",
        "upto = 1",
        "upto = 0",
        "writes = 0",
        "store = store + 1",
        "checksum = 0",
    ] {
        let place = Place::new();
        calls(&place);
        change(&place, &format!("UPDATE indexed SET {sql}"));
        match open(&place.path()) {
            Err(error) => assert_eq!(error.code(), Code::StoreCorrupt, "{sql}: {error}"),
            Ok(_) => panic!("{sql}: this was opened"),
        }
    }
}

#[test]
fn a_changed_replay_point_is_reported() {
    let place = Place::new();
    let make = fixture(0);
    let run = make.run_long(4);
    let store = place.open();
    let lease = store.append(run.create(4, After::Keep)).unwrap().lease.unwrap();
    store.write_replay_point(&lease, &make.replay_point(&run, 4)).unwrap();
    store.release(lease).unwrap();
    drop(store);
    change(&place, "UPDATE replay_points SET sequence_number = 3");
    assert_eq!(place.open().check().unwrap().len(), 1);
}
