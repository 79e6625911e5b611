//! Unindexed traces: every process knows them by their entries alone.

use std::path::Path;

use rusqlite::Connection;
use windlass_kernel::{ChainError, Code, Entry, ReservedKey, State, TraceId};
use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store::{
    After, Append, AppendError, KeyMismatch, Store, StoreError, TraceFilter, TraceState, Visitor,
    fault,
};
use windlass_store_sqlite::{Settings, SqliteStore};

use crate::support::{
    Place, assert_reads_back, fixture, lines, meddle, open, player, put, succeeds, tell, verify,
};

/// The highest indexed trace number, and the numbers of rows in `traces` and `keys`.
pub fn indexed(place: &Place) -> (i64, i64, i64) {
    let sql = "SELECT upto, (SELECT count(*) FROM traces), (SELECT count(*) FROM keys)
        FROM indexed";
    let get = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    place.connect().query_row(sql, [], get).unwrap()
}

/// A call as it is while its tool runs: three entries, a key, a lease.
pub fn hold(store: &SqliteStore, call: &Trace) -> windlass_store::Lease {
    let append = Append { key: call.reserve(), ..call.create(3, After::Keep) };
    store.append(append).unwrap().lease.unwrap()
}

fn ids(store: &dyn Store, open_only: bool, limit: usize) -> Vec<TraceId> {
    let filter = TraceFilter { open_only, ..TraceFilter::open(limit) };
    store.list_traces(&filter).unwrap().iter().map(|state| state.head.trace_id).collect()
}

#[test]
fn two_processes_see_each_others_unindexed_traces() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    let (a, b, c) = (fixture(1), fixture(2), fixture(3));
    let [first, second, third] = [&a, &b, &c].map(|make| make.call(Ending::Completed));
    let mine = hold(&one, &first);
    let theirs = hold(&two, &second);
    // Created by one process after the other has written.
    let last = hold(&one, &third);
    assert_eq!(indexed(&place), (0, 0, 0));
    for (store, trace, lease) in
        [(&two, &first, &mine), (&one, &second, &theirs), (&two, &third, &last)]
    {
        assert_reads_back(store, trace, 3);
        let record = store.load_idempotency(&trace.slot()).unwrap().unwrap();
        assert_eq!((record.trace_id, record.effect_digest), (trace.trace_id, None));
        assert!(store.is_held(&store.load_state(trace.trace_id).unwrap()).unwrap());
        // The id is in use.
        let error = store.append(trace.create(3, After::Keep)).unwrap_err();
        assert_eq!(error.code(), Code::StateConcurrentExecution);
        // The lease belongs to the other process.
        let error = store.append(trace.append(lease, 3, 1)).unwrap_err();
        assert_eq!(error.code(), Code::StateConcurrentExecution);
        // The key is taken.
        let other = fixture(4).call(Ending::Completed);
        let append = Append { key: trace.reserve(), ..other.create(3, After::Keep) };
        let error = store.append(append).unwrap_err();
        let AppendError::KeyTaken(record) = error else { panic!("{error}") };
        assert_eq!(record.trace_id, trace.trace_id);
        assert_eq!(store.load_state(other.trace_id).unwrap_err().code(), Code::TraceNotFound);
    }
    assert_eq!(indexed(&place), (0, 0, 0));
    // Each process ends its own traces, in another order than they began.
    for (store, trace, lease) in
        [(&one, &first, &mine), (&two, &second, &theirs), (&one, &third, &last)]
    {
        let end = Append { after: After::Release, ..trace.append(lease, 3, 1) };
        store.append(end).unwrap();
    }
    assert_eq!(indexed(&place), (0, 0, 0));
    for store in [&one, &two] {
        assert_eq!(verify(store), (3, 12));
        for trace in [&first, &second, &third] {
            assert_reads_back(store, trace, 4);
            let record = store.load_idempotency(&trace.slot()).unwrap().unwrap();
            assert_eq!(record.effect_digest, Some(trace.entry(4).entry.artifact_digest));
            assert_eq!(store.load_state(trace.trace_id).unwrap().holder, None);
        }
        assert_eq!(ids(store, true, 9), []);
        assert_eq!(ids(store, false, 2), [third.trace_id, second.trace_id]);
    }
    // To acquire one indexes all of them; the other process then finds them indexed.
    let lease = two.acquire(first.trace_id).unwrap();
    assert_eq!((lease.fence(), indexed(&place)), (2, (3, 3, 3)));
    put(&one, &fixture(5).run_long(2));
    assert_eq!(one.load_state(first.trace_id).unwrap().fence, 2);
    assert_eq!(ids(&one, false, 9).len(), 4);
}

#[test]
fn an_acquire_that_is_refused_leaves_the_holder_its_trace() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    let call = fixture(1).call(Ending::Completed);
    let lease = hold(&one, &call);
    let error = two.acquire(call.trace_id).unwrap_err();
    assert_eq!(error.code(), Code::StateLockAcquireFailed);
    // The attempt has indexed the trace, with its holder, who goes on.
    assert_eq!(indexed(&place), (1, 1, 1));
    one.append(call.append(&lease, 3, 1)).unwrap();
    one.release(lease).unwrap();
    assert_reads_back(&two, &call, 4);
}

const MANY: usize = 700;

#[test]
fn many_traces_are_indexed_by_halves_and_the_rest_at_the_end() {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    let calls: Vec<Trace> = (0..MANY).map(|_| make.call(Ending::Completed)).collect();
    let first = hold(&store, &calls[0]);
    for call in &calls[1..] {
        let whole = call.create(4, After::Release);
        store.append(Append { key: call.reserve(), ..whole }).unwrap();
    }
    let (upto, traces, keys) = indexed(&place);
    assert!(upto > 200 && upto < 500, "{upto}");
    assert_eq!((traces, keys), (upto, upto));
    // The first trace was indexed while it was open, and ends after that.
    assert_eq!(ids(&store, true, 9), [calls[0].trace_id]);
    let end = Append { after: After::Release, ..calls[0].append(&first, 3, 1) };
    store.append(end).unwrap();
    let check = |store: &dyn Store| {
        assert_eq!(verify(store), (MANY, MANY * 4));
        for call in &calls {
            assert_reads_back(store, call, 4);
            let record = store.load_idempotency(&call.slot()).unwrap().unwrap();
            assert_eq!(record.effect_digest, Some(call.entry(4).entry.artifact_digest));
        }
        // Pages contain indexed and unindexed traces, each once.
        let all = ids(store, false, usize::MAX);
        let mut pages = Vec::new();
        while pages.len() < MANY {
            let filter = TraceFilter {
                open_only: false,
                before: pages.last().copied(),
                ..TraceFilter::open(64)
            };
            let page = store.list_traces(&filter).unwrap();
            assert!(!page.is_empty());
            pages.extend(page.iter().map(|state| state.head.trace_id));
        }
        assert_eq!((pages.len(), pages), (MANY, all));
    };
    check(&store);
    check(&place.open());
    drop(store);
    let many = i64::try_from(MANY).unwrap();
    assert_eq!(indexed(&place), (many, many, many));
    check(&place.open());
}

/// A reader replays what is unindexed for each list.
#[test]
fn few_traces_are_unindexed_however_many_are_made() {
    let place = Place::new();
    let store = SqliteStore::open(&place.path(), Settings::default()).unwrap();
    let make = fixture(0);
    let connection = place.connect();
    let sql = "SELECT (SELECT count(*) FROM first_batches) - (SELECT count(*) FROM traces)";
    let mut most = 0_i64;
    for _ in 0..MANY {
        put(&store, &make.call(Ending::Completed));
        most = most.max(connection.query_row(sql, [], |row| row.get(0)).unwrap());
    }
    assert_eq!(most, 255);
}

#[test]
fn a_process_that_only_reads_finds_unindexed_traces_of_another() {
    let place = Place::new();
    let (writer, reader) = (place.open(), place.open());
    let make = fixture(0);
    let calls: Vec<Trace> = (0..60).map(|_| make.call(Ending::Completed)).collect();
    let mut leases = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        assert!(matches!(reader.load_state(call.trace_id), Err(StoreError::NotFound { .. })));
        leases.push(hold(&writer, call));
        assert_reads_back(&reader, &calls[number / 2], 3);
        assert_reads_back(&reader, call, 3);
    }
    // The newest first.
    for (call, lease) in calls.iter().zip(&leases).rev() {
        writer.append(call.append(lease, 3, 1)).unwrap();
        assert_reads_back(&reader, call, 4);
    }
    assert_eq!(indexed(&place).0, 0);
    drop(writer);
    assert_eq!(indexed(&place), (60, 60, 60));
    for call in &calls {
        assert_reads_back(&reader, call, 4);
        assert!(reader.load_idempotency(&call.slot()).unwrap().is_some());
    }
}

#[test]
fn a_trace_that_grows_long_is_indexed_and_reads_the_same() {
    let place = Place::new();
    let store = place.open();
    let run = fixture(1).run_long(12);
    let lease = store.append(run.create(8, After::Keep)).unwrap().lease.unwrap();
    assert_eq!(indexed(&place), (0, 0, 0));
    store.append(run.append(&lease, 8, 1)).unwrap();
    assert_eq!(indexed(&place), (1, 1, 0));
    store.append(run.append(&lease, 9, 3)).unwrap();
    assert_reads_back(&store, &run, 12);
}

#[test]
fn a_process_that_finds_another_one_writing_indexes_all_traces() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    let (a, b) = (fixture(1), fixture(2));
    put(&two, &b.run_long(1));
    for _ in 0..50 {
        put(&one, &a.run_long(1));
    }
    assert_eq!(indexed(&place).0, 0);
    put(&two, &b.run_long(1));
    assert_eq!(indexed(&place).0, 51, "so that the other process has little to read");
    put(&one, &a.run_long(1));
    assert_eq!(indexed(&place).0, 51, "few traces stay unindexed");
    assert_eq!(verify(&one), (53, 53));
}

/// A child: creates traces, and reports each one.
pub fn makes_many(database: &Path) {
    let store = open(database).unwrap();
    let make = fixture(0);
    for _ in 0..MANY {
        let call = make.call(Ending::Completed);
        let whole = call.create(4, After::Release);
        store.append(Append { key: call.reserve(), ..whole }).unwrap();
        tell("done");
    }
}

#[test]
fn a_process_killed_while_it_indexes_leaves_all_it_has_reported() {
    let place = Place::new();
    let mut whole = player(&[], "makes many", &place.path());
    assert_eq!(succeeds(&whole.output().unwrap()).len(), MANY);
    assert_eq!(verify(&place.open()), (MANY, MANY * 4));
    // The first time inside an append, the second time as the process ends.
    for (at, mark) in [(1, 0), (2, 257)] {
        let place = Place::new();
        let mut child = player(&[], "makes many", &place.path());
        let output = child.env(fault::VARIABLE, format!("index.inside:{at}")).output().unwrap();
        assert!(!output.status.success(), "{at} did not kill");
        let done = lines(&output.stdout).len();
        assert_eq!(done, if at == 1 { 511 } else { MANY });
        assert_eq!(indexed(&place), (mark, mark, mark));
        let store = place.open();
        assert_eq!(verify(&store), (done, done * 4));
        let make = fixture(0);
        for number in 0..MANY {
            let call = make.call(Ending::Completed);
            let record = store.load_idempotency(&call.slot()).unwrap();
            assert_eq!(record.is_some(), number < done);
            if number < done {
                assert_reads_back(&store, &call, 4);
            } else {
                // It does not exist, so it can be created.
                let whole = call.create(4, After::Release);
                store.append(Append { key: call.reserve(), ..whole }).unwrap();
            }
        }
        assert_eq!(verify(&store), (MANY, MANY * 4));
    }
}

/// What a scan visits: each trace, its recorded length, and which entries can be read.
#[derive(Default)]
struct Seen(Vec<(TraceId, Option<u64>, Vec<bool>)>);

impl Visitor for Seen {
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>) {
        let number = recorded.map(|state| state.head.sequence_number);
        self.0.push((trace_id, number, Vec::new()));
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        _: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>> {
        self.0.last_mut().unwrap().2.push(entry.is_ok());
        None
    }

    fn key_mismatch(&mut self, _: KeyMismatch) {}
}

pub fn seen(store: &dyn Store, trace: &Trace) -> (Option<u64>, Vec<bool>) {
    let mut seen = Seen::default();
    store.scan(&mut seen).unwrap();
    let mut found = seen.0.into_iter().filter(|(trace_id, ..)| *trace_id == trace.trace_id);
    let (_, recorded, entries) = found.next().unwrap();
    assert!(found.next().is_none());
    (recorded, entries)
}

/// Which process has indexed a damaged trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexed {
    NotYet,
    ByItsWriter,
    ByAnother,
}

/// Damages the middle one of three unindexed calls. Before and after they are indexed, the others are
/// checked here, and the middle one by `check`.
pub fn damaged(sql: &str, check: impl Fn(&SqliteStore, &Trace, Indexed)) {
    for indexer in [Indexed::ByItsWriter, Indexed::ByAnother] {
        damaged_and_indexed(sql, indexer, &check);
    }
}

fn damaged_and_indexed(
    sql: &str,
    indexer: Indexed,
    check: &impl Fn(&SqliteStore, &Trace, Indexed),
) {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    let calls = [(); 3].map(|()| make.call(Ending::Completed));
    let leases = calls.each_ref().map(|call| hold(&store, call));
    let damage: Connection = place.tamper();
    assert_eq!(meddle(&damage, sql), 1, "{sql}");
    let [first, middle, last] = &calls;
    let others = |store: &dyn Store, count| {
        for call in [first, last] {
            assert_reads_back(store, call, count);
            assert_eq!(seen(store, call).1, vec![true; count], "{sql}");
        }
    };
    // A list has it, or says that it leaves one out.
    let all = store.list_traces(&TraceFilter::all(9)).unwrap();
    let is_listed = all.iter().any(|one| one.head.trace_id == middle.trace_id);
    let unreadable = store.count().unwrap().unreadable;
    assert_eq!(unreadable, u64::from(!is_listed), "{sql}");
    check(&store, middle, Indexed::NotYet);
    check(&place.open(), middle, Indexed::NotYet);
    others(&store, 3);
    // Its holder cannot append to it; the holders of the others can.
    let error = store.append(middle.append(&leases[1], 3, 1)).unwrap_err();
    assert!(matches!(error, AppendError::Chain { .. } | AppendError::Fenced { .. }), "{error}");
    for (call, lease) in [(first, &leases[0]), (last, &leases[2])] {
        store.append(call.append(lease, 3, 1)).unwrap();
    }
    assert_eq!(indexed(&place).0, 0);
    if indexer == Indexed::ByItsWriter {
        drop(store);
    } else {
        std::mem::forget(store);
        put(&place.open(), &fixture(9).run_long(1));
    }
    assert!(indexed(&place).0 >= 3);
    let store = place.open();
    check(&store, middle, indexer);
    others(&store, 4);
    // The key is still taken.
    let taken = store.load_idempotency(&middle.slot());
    assert!(!matches!(taken, Ok(None)), "{sql}");
    let other = fixture(7).call(Ending::Completed);
    let append = Append { key: middle.reserve(), ..other.create(3, After::Keep) };
    assert!(store.append(append).is_err(), "{sql}");
}

#[test]
fn damage_inside_an_unindexed_trace_stops_appends_and_is_indexed_as_it_is() {
    for place in [1, 2] {
        for (change, readable) in [
            ("to_state = 'DREAMING'", false),
            ("entry_digest = x'00'", false),
            ("ts = ts + 1", true),
            ("prev_entry_digest = randomblob(32)", true),
        ] {
            let sql = format!("UPDATE entries SET {change} WHERE id = (2 << 24) + {place}");
            damaged(&sql, |store, trace, _| {
                let state = store.load_state(trace.trace_id).unwrap();
                assert_eq!(state.head, trace.head_after(3), "the head that the last entry names");
                let mut entries = vec![true; 3];
                entries[place - 1] = readable;
                assert_eq!(seen(store, trace), (Some(3), entries), "{change}");
                let entries = store.list_log_entries(trace.trace_id, 0, 9);
                assert_eq!(entries.is_ok(), readable, "{change}");
            });
        }
    }
    damaged("DELETE FROM entries WHERE id = (2 << 24) + 2", |store, trace, _| {
        let state = store.load_state(trace.trace_id).unwrap();
        assert_eq!(state.head.state, Some(State::Executing));
        assert_eq!(seen(store, trace), (Some(3), vec![true, true]));
    });
}
