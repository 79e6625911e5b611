//! The head file: a store that has lost its end is refused, and a head file that is torn or old is no loss.

use std::fs::{self, File};
use std::path::Path;

use windlass_kernel::{Code, Digest};
use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store::{After, Append, Store};
use windlass_store_sqlite::{Settings, SqliteStore};
use windlass_testkit::soak;

use crate::support::{
    Place, Waiting, assert_reads_back, fixture, numbered, open, put, tell, verify, wait_for_parent,
};

/// Calls with keys, all in the write-ahead log: each by a process of its own.
fn calls(place: &Place, count: usize) -> Vec<Trace> {
    let make = fixture(0);
    let calls: Vec<Trace> = (0..count).map(|_| make.call(Ending::Completed)).collect();
    for call in &calls {
        let whole = call.create(4, After::Release);
        place.open().append(Append { key: call.reserve(), ..whole }).unwrap();
    }
    calls
}

/// Opens a store that must be refused because its end is missing.
fn assert_refused(place: &Place) {
    match open(&place.path()) {
        Err(error) => assert_eq!(error.code(), Code::StoreTruncated, "{error}"),
        Ok(_) => panic!("this was opened"),
    }
}

/// Checks that all calls are there with their keys.
fn assert_whole(store: &SqliteStore, calls: &[Trace]) {
    for call in calls {
        assert_reads_back(store, call, 4);
        assert!(store.load_idempotency(&call.slot()).unwrap().is_some());
    }
}

/// The greatest position in the head file, with the length of the log at that position.
fn head(place: &Place) -> (i64, i64) {
    let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().unwrap());
    let decode = |slot: &[u8]| {
        let valid = slot.len() == 32 && Digest::of(&slot[..24]).as_bytes()[..8] == slot[24..];
        valid.then(|| (number(&slot[8..16]), number(&slot[16..24])))
    };
    let bytes = fs::read(place.beside(".head")).unwrap();
    bytes.chunks(32).filter_map(decode).max().unwrap()
}

/// The positions of the head file and of the database.
fn positions(place: &Place) -> (i64, i64) {
    let sql =
        "SELECT writes + (SELECT count(*) FROM entry_batches WHERE id >> 24 > upto) FROM indexed";
    let found = place.connect().query_row(sql, [], |row| row.get(0)).unwrap();
    (head(place).0, found)
}

#[test]
fn a_flipped_bit_in_the_log_loses_nothing_unnoticed() {
    let place = Place::new();
    let calls = calls(&place, 5);
    let log = fs::read(place.beside("-wal")).unwrap();
    let database = fs::read(place.path()).unwrap();
    let head = fs::read(place.beside(".head")).unwrap();
    let seed = soak::seed(1);
    let mut random = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for _ in 0..soak::rounds(60) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut flipped = log.clone();
        let bit = usize::try_from(random % (log.len() as u64 * 8)).unwrap();
        flipped[bit / 8] ^= 1 << (bit % 8);
        drop(fs::remove_file(place.beside("-shm")));
        fs::write(place.path(), &database).unwrap();
        fs::write(place.beside("-wal"), &flipped).unwrap();
        fs::write(place.beside(".head"), &head).unwrap();
        match open(&place.path()) {
            Ok(store) => assert_whole(&store, &calls),
            Err(error) => {
                assert_eq!(error.code(), Code::StoreTruncated, "seed {seed}, bit {bit}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "seed {seed}");
}

#[test]
fn a_lost_log_is_noticed_until_the_loss_is_accepted() {
    let place = Place::new();
    let calls = calls(&place, 5);
    let log = fs::read(place.beside("-wal")).unwrap();
    let remove = || {
        fs::remove_file(place.beside("-wal")).unwrap();
        drop(fs::remove_file(place.beside("-shm")));
    };
    remove();
    assert_refused(&place);
    assert_refused(&place);
    // Nothing was written over it meanwhile.
    fs::write(place.beside("-wal"), &log).unwrap();
    assert_whole(&place.open(), &calls);
    remove();
    assert_refused(&place);
    fs::remove_file(place.beside(".head")).unwrap();
    let store = place.open();
    assert!(store.load_idempotency(&calls[4].slot()).unwrap().is_none());
    put(&store, &fixture(9).run_long(2));
    drop(store);
    place.open();
}

#[test]
fn a_store_of_an_earlier_build_that_has_lost_writes_is_not_written_to() {
    let place = Place::new();
    calls(&place, 3);
    let earlier = "DROP INDEX traces_of_plan; DROP INDEX traces_in_state; DROP INDEX traces_held;
        CREATE INDEX traces_ended_runs ON traces (trace_id) WHERE state = 'TERMINAL';
        PRAGMA wal_checkpoint(TRUNCATE)";
    place.connect().execute_batch(earlier).unwrap();
    let database = fs::read(place.path()).unwrap();
    put(&place.open(), &fixture(9).run_long(2));
    for name in ["-wal", "-shm"] {
        drop(fs::remove_file(place.beside(name)));
    }
    fs::write(place.path(), &database).unwrap();
    for _ in 0..2 {
        assert_refused(&place);
        assert!(fs::read(place.path()).unwrap() == database);
        assert_eq!(fs::read(place.beside("-wal")).unwrap_or_default(), b"");
    }
}

#[test]
fn a_store_whose_counts_lack_a_trigger_is_opened_and_reported() {
    let place = Place::new();
    let calls = calls(&place, 2);
    place.connect().execute_batch("DROP TRIGGER traces_deleted_are_counted").unwrap();
    let store = place.open();
    assert_ne!(store.check().unwrap(), Vec::<String>::new());
    assert!(store.load_idempotency(&calls[1].slot()).unwrap().is_some());
}

#[test]
fn a_database_that_is_gone_or_another_one_is_not_begun_anew() {
    let place = Place::new();
    let other = Place::new();
    calls(&place, 2);
    calls(&other, 3);
    let head = fs::read(place.beside(".head")).unwrap();
    for name in ["-wal", "-shm"] {
        fs::remove_file(place.beside(name)).unwrap();
    }
    fs::remove_file(place.path()).unwrap();
    assert_refused(&place);
    assert!(!place.path().exists());
    File::create(place.path()).unwrap();
    assert_refused(&place);
    fs::write(other.beside(".head"), head).unwrap();
    assert_refused(&other);
}

/// What a power failure can leave of a file that is never synced.
#[test]
fn a_head_file_that_is_torn_empty_missing_or_old_is_no_loss() {
    let place = Place::new();
    let old = {
        calls(&place, 1);
        fs::read(place.beside(".head")).unwrap()
    };
    let make = fixture(3);
    let more: Vec<Trace> = (0..3).map(|_| make.call(Ending::Completed)).collect();
    more.iter().for_each(|call| put(&place.open(), call));
    let whole = fs::read(place.beside(".head")).unwrap();
    let torn: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0; whole.len()],
        vec![0xff; whole.len()],
        whole[..100].to_vec(),
        whole[..17].to_vec(),
        old,
        whole.iter().map(|byte| byte.rotate_left(1)).collect(),
    ];
    let present = positions(&place);
    assert_eq!(present.0, present.1);
    for bytes in torn {
        fs::write(place.beside(".head"), &bytes).unwrap();
        let store = place.open();
        assert_eq!(verify(&store).0, 4);
        drop(store);
        assert_eq!(positions(&place), present, "and it is written anew");
    }
    fs::remove_file(place.beside(".head")).unwrap();
    place.open();
    assert_eq!(positions(&place), present);
}

/// Every kind of write counts.
#[test]
fn the_position_grows_with_every_write_and_with_nothing_else() {
    let place = Place::new();
    let make = fixture(0);
    let store = place.open();
    let call = make.call(Ending::Executing);
    let grows = |what: &str, before: i64| {
        let (head, found) = positions(&place);
        assert_eq!((head, found), (before + 1, before + 1), "{what}");
        found
    };
    let lease = store.append(call.create(3, After::Keep)).unwrap().lease.unwrap();
    let now = grows("append", 0);
    // Indexes the trace as well.
    store.record_redispatch(&lease, &make.redispatch(2)).unwrap();
    let now = grows("dispatch", now);
    store.release(lease).unwrap();
    let now = grows("release", now);
    let _lease = store.acquire(call.trace_id).unwrap();
    let now = grows("acquire", now);
    let run = make.run_long(4);
    let held = store.append(run.create(2, After::Keep)).unwrap().lease.unwrap();
    let now = grows("append", now);
    store.write_replay_point(&held, &make.replay_point(&run, 2)).unwrap();
    let now = grows("replay point", now);
    store.append(run.append(&held, 2, 2)).unwrap();
    let now = grows("append to an indexed trace", now);
    assert!(store.append(run.append(&held, 2, 2)).is_err());
    verify(&store);
    assert_eq!(positions(&place), (now, now));
    drop(store);
    assert_eq!(positions(&place), (now, now), "closing the store is no write");
}

/// A child: appends many times as soon as it is told to.
pub fn appends_with_others(database: &Path, number: u64) {
    let store = open(database).unwrap();
    let make = fixture(number);
    tell("ready");
    wait_for_parent();
    for _ in 0..40 {
        let call = make.call(Ending::Completed);
        let lease = store.append(call.create(3, After::Keep)).unwrap().lease.unwrap();
        store.append(Append { after: After::Release, ..call.append(&lease, 3, 1) }).unwrap();
    }
}

#[test]
fn processes_that_write_at_once_leave_the_newest_position() {
    let place = Place::new();
    drop(place.open());
    let start = |number| Waiting::start(numbered("appends with others", &place.path(), number)).0;
    let mut children: Vec<Waiting> = (1..=4).map(start).collect();
    children.iter_mut().for_each(Waiting::go_on);
    children.into_iter().for_each(Waiting::finish);
    assert_eq!(positions(&place), (320, 320));
    assert_eq!(verify(&place.open()), (160, 640));
}

/// A process that lives for one call leaves a long log to the next one.
#[test]
fn a_long_log_is_checkpointed_by_the_next_process() {
    let place = Place::new();
    let settings = Settings { wal_pages: 20, ..Settings::default() };
    let make = fixture(0);
    let mut calls = Vec::new();
    let before = loop {
        let store = SqliteStore::open(&place.path(), settings).unwrap();
        let call = make.call(Ending::Completed);
        put(&store, &call);
        calls.push(call);
        let bytes = fs::metadata(place.path()).unwrap().len();
        drop(store);
        assert_eq!(fs::metadata(place.path()).unwrap().len(), bytes, "its end is quick");
        if head(&place).1 >= 20 {
            break bytes;
        }
        assert!(calls.len() < 100);
    };
    drop(SqliteStore::open(&place.path(), settings).unwrap());
    assert!(fs::metadata(place.path()).unwrap().len() > before);
    // Now the database alone has all.
    let copy = Place::new();
    fs::copy(place.path(), copy.path()).unwrap();
    let store = copy.open();
    calls.iter().for_each(|call| assert_reads_back(&store, call, 4));
}
