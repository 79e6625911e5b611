//! The SQLite store keeps the contract, and gives the same answers as the store in memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use rusqlite::{Connection, OptionalExtension, params};
use tempfile::TempDir;
use windlass_kernel::{Entry, Head, HolderId, ReplayPoint, TraceId, canon};
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::conformance::history::assert_same_history;
use windlass_store::conformance::memory::MemoryHarness;
use windlass_store::conformance::{Harness, Tamper};
use windlass_store::{After, Append, Parts, Store, TraceFilter, TraceState};
use windlass_store_sqlite::{Settings, SqliteStore};
use windlass_testkit::soak;

windlass_store::conformance_tests!(SqliteHarness::new());

/// A database in its own folder. Each handle has its own lock file, as a process has.
struct SqliteHarness {
    folder: TempDir,
    /// The holders of the open stores, by the addresses of the stores.
    holders: Mutex<BTreeMap<usize, HolderId>>,
}

/// The address of a store.
fn address(store: &dyn Store) -> usize {
    std::ptr::from_ref(store).cast::<()>() as usize
}

impl SqliteHarness {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), holders: Mutex::default() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("windlass.db")
    }

    fn connect(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }
}

impl Harness for SqliteHarness {
    fn open(&self) -> Box<dyn Store> {
        let store = Box::new(SqliteStore::open(&self.path(), Settings::default()).unwrap());
        self.holders.lock().unwrap().insert(address(&*store), store.holder());
        store
    }

    fn kill(&self, store: Box<dyn Store>) {
        // To drop the store would index its traces. If nobody locks its file the process is dead.
        let holder = self.holders.lock().unwrap().remove(&address(&*store)).unwrap();
        let lock = self.folder.path().join(format!("windlass.db.locks/{holder}.lock"));
        std::fs::remove_file(&lock).unwrap();
        std::fs::File::create(&lock).unwrap();
        std::mem::forget(store);
    }

    fn tamper(&self, what: &Tamper) -> Option<()> {
        // The head file would show first that entries are missing.
        drop(std::fs::remove_file(self.folder.path().join("windlass.db.head")));
        let connection = self.connect();
        windlass_testkit::tamper(&connection).unwrap();
        change(&connection, what)
    }
}

/// The key of an entry, if its trace is known.
fn entry_id(connection: &Connection, trace_id: TraceId, number: u64) -> Option<i64> {
    let trace_number: Option<i64> = connection
        .query_row(
            "SELECT trace_number FROM traces WHERE trace_id = ?1
             UNION ALL SELECT id >> 24 FROM entries WHERE trace_id = ?1",
            [trace_id.0.as_bytes()],
            |row| row.get(0),
        )
        .optional()
        .unwrap();
    Some((trace_number? << 24) | i64::try_from(number).unwrap())
}

/// Makes a change; `None` if there was nothing to change.
fn change(connection: &Connection, what: &Tamper) -> Option<()> {
    let entry = |trace_id: &TraceId, number: u64, sql: &str| {
        let id = entry_id(connection, *trace_id, number)?;
        Some(connection.execute(sql, [id]).unwrap())
    };
    let before = connection.total_changes();
    match what {
        Tamper::DeleteLastEntry(trace_id) => {
            let first = entry_id(connection, *trace_id, 0)?;
            let sql = "DELETE FROM entries WHERE id = (
                SELECT max(id) FROM entries WHERE id BETWEEN ?1 AND ?1 + 16777215)";
            connection.execute(sql, [first]).unwrap()
        }
        Tamper::DeleteEntry(trace_id, number) => {
            entry(trace_id, *number, "DELETE FROM entries WHERE id = ?1")?
        }
        Tamper::GarbleEntry(trace_id, number) => {
            entry(trace_id, *number, "UPDATE entries SET from_state = 'DREAMING' WHERE id = ?1")?
        }
        Tamper::DeleteBody(trace_id, number) => {
            entry(trace_id, *number, "UPDATE entries SET body = NULL WHERE id = ?1")?
        }
        Tamper::ChangeBody(trace_id, number, body) => {
            let id = entry_id(connection, *trace_id, *number)?;
            let sql = "UPDATE entries SET body = ?2 WHERE id = ?1";
            connection.execute(sql, params![id, body]).unwrap()
        }
        Tamper::ChangeEntry(entry) => {
            let id = entry_id(connection, entry.trace_id, entry.sequence_number)?;
            let sql = "SELECT body FROM entries WHERE id = ?1";
            let body: Option<Vec<u8>> =
                connection.query_row(sql, [id], |row| row.get(0)).optional().unwrap()?;
            write_entry(connection, id, entry, body.as_deref())
        }
        Tamper::InsertEntry(new) => {
            let Parts { entry, body } = &***new;
            let id = entry_id(connection, entry.trace_id, entry.sequence_number)?;
            write_entry(connection, id, entry, Some(body))
        }
        Tamper::ChangeHead(head) => write_head(connection, head),
        Tamper::ChangeReplayPoint(trace_id, point) => {
            write_replay_point(connection, *trace_id, point)
        }
        Tamper::DeleteTraceRow(trace_id) => {
            let sql = "DELETE FROM traces WHERE trace_id = ?1";
            connection.execute(sql, [trace_id.0.as_bytes()]).unwrap()
        }
    };
    (connection.total_changes() > before).then_some(())
}

fn write_entry(connection: &Connection, id: i64, entry: &Entry, body: Option<&[u8]>) -> usize {
    let sql = "INSERT OR REPLACE INTO entries (id, trace_id, prev_entry_digest, ts, from_state,
             to_state, artifact_type, artifact_id, artifact_digest, tool_call_id, idempotency_key,
             entry_digest, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    let values = params![
        id,
        entry.trace_id.0.as_bytes(),
        entry.prev_entry_digest.as_bytes(),
        entry.ts.unix_ms(),
        entry.from_state.as_str(),
        entry.to_state.as_str(),
        entry.artifact_type.as_str(),
        entry.artifact_id.0.as_bytes(),
        entry.artifact_digest.as_bytes(),
        entry.tool_call_id.as_ref().map(|id| id.0.as_bytes()),
        entry.idempotency_key,
        entry.entry_digest.as_bytes(),
        body,
    ];
    connection.execute(sql, values).unwrap()
}

fn write_head(connection: &Connection, head: &Head) -> usize {
    let sql = "UPDATE traces SET state = ?2, last_sequence_number = ?3, last_entry_digest = ?4,
        tool_call_id = ?5 WHERE trace_id = ?1";
    let values = params![
        head.trace_id.0.as_bytes(),
        head.state.unwrap().as_str(),
        i64::try_from(head.sequence_number).unwrap(),
        head.entry_digest.as_bytes(),
        head.tool_call_id.as_ref().map(|id| id.0.as_bytes()),
    ];
    connection.execute(sql, values).unwrap()
}

fn write_replay_point(connection: &Connection, trace_id: TraceId, point: &ReplayPoint) -> usize {
    let sql = "UPDATE replay_points SET document = ?2 WHERE trace_id = ?1 AND sequence_number = (
        SELECT max(sequence_number) FROM replay_points WHERE trace_id = ?1)";
    let document = canon::to_bytes(point).unwrap();
    connection.execute(sql, params![trace_id.0.as_bytes(), document]).unwrap()
}

#[test]
fn sqlite_answers_every_history_as_memory_does() {
    let first = soak::seed(0);
    for seed in (0..soak::rounds(40)).map(|round| first.wrapping_add(round.into())) {
        assert_same_history(seed, 250, &MemoryHarness::default(), &SqliteHarness::new());
    }
}

/// The numbers of rows in `traces` and `keys`, and the highest indexed trace number.
fn indexed(harness: &SqliteHarness) -> [i64; 3] {
    ["SELECT count(*) FROM traces", "SELECT count(*) FROM keys", "SELECT upto FROM indexed"]
        .map(|sql| harness.connect().query_row(sql, [], |row| row.get(0)).unwrap())
}

fn all(store: &dyn Store) -> Vec<TraceState> {
    let filter = TraceFilter::all(usize::MAX);
    store.list_traces(&filter).unwrap()
}

/// Closing a store indexes its traces, and changes none of them.
#[test]
fn closing_a_store_indexes_its_traces() {
    for killed in [false, true] {
        let harness = SqliteHarness::new();
        let make = Fixture::new();
        let store = harness.open();
        for _ in 0..3 {
            let call = make.call(Ending::Completed);
            let append = Append { key: call.reserve(), ..call.create(3, After::Keep) };
            store.append(append).unwrap();
        }
        assert_eq!(indexed(&harness), [0, 0, 0]);
        let other = harness.open();
        let before = all(&*other);
        assert_eq!(before.len(), 3);
        if killed {
            harness.kill(store);
        } else {
            drop(store);
        }
        assert_eq!(indexed(&harness), if killed { [0, 0, 0] } else { [3, 3, 3] });
        assert_eq!(all(&*other), before);
        // A store that has only read writes nothing.
        drop(other);
        assert_eq!(indexed(&harness), if killed { [0, 0, 0] } else { [3, 3, 3] });
    }
}
