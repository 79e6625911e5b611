//! Stores in their own folders, and this test program started again as another process.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use rusqlite::Connection;
use tempfile::TempDir;
use windlass_kernel::{ChainError, Digest, Entry, Head, ReservedKey, TraceId};
use windlass_store::conformance::fixture::{Fixture, Trace};
use windlass_store::{After, KeyMismatch, Store, StoreError, TraceState, Visitor};
use windlass_store_sqlite::{Settings, SqliteStore};

/// The role of a child process; without it the test that plays the roles does nothing.
const ROLE: &str = "WINDLASS_TEST_ROLE";
/// The database that a child works on.
const DATABASE: &str = "WINDLASS_TEST_DATABASE";
/// Which of several children it is.
const NUMBER: &str = "WINDLASS_TEST_NUMBER";

/// A folder for a database.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self) -> PathBuf {
        self.folder().join("windlass.db")
    }

    /// A file beside the database, which has its name and this ending.
    pub fn beside(&self, ending: &str) -> PathBuf {
        self.folder().join(format!("windlass.db{ending}"))
    }

    pub fn open(&self) -> SqliteStore {
        open(&self.path()).unwrap()
    }

    /// A connection without the store.
    pub fn connect(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// A connection that can change what is append-only.
    /// The head file is removed: it would show that rows are missing, before anything else does.
    pub fn tamper(&self) -> Connection {
        drop(std::fs::remove_file(self.beside(".head")));
        let connection = self.connect();
        windlass_testkit::tamper(&connection).unwrap();
        connection
    }

    /// All lock files.
    pub fn locks(&self) -> Vec<PathBuf> {
        let folder = self.folder().join("windlass.db.locks");
        let files = std::fs::read_dir(folder).into_iter().flatten();
        files.map(|file| file.unwrap().path()).collect()
    }
}

pub fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, Settings { unindexed_max: 512, ..Settings::default() })
}

/// Changes rows and returns how many.
pub fn meddle(connection: &Connection, sql: &str) -> usize {
    let before = connection.total_changes();
    connection.execute(sql, []).unwrap();
    usize::try_from(connection.total_changes() - before).unwrap()
}

pub fn fixture(number: u64) -> Fixture {
    let make = Fixture::new();
    for _ in 0..number * 1_000 {
        make.uuid();
    }
    make
}

/// Creates a trace with all its entries and releases it.
pub fn put(store: &dyn Store, trace: &Trace) {
    store.append(trace.create(trace.len(), After::Release)).unwrap();
}

/// Checks that a trace reads back as its first entries.
pub fn assert_reads_back(store: &dyn Store, trace: &Trace, count: usize) {
    let state = store.load_state(trace.trace_id).unwrap();
    assert_eq!((state.head, state.plan_id), (trace.head_after(count), trace.plan_id));
    let records = store.list_log_entries(trace.trace_id, 0, usize::MAX).unwrap();
    assert!(records == trace.records(count), "trace {} reads back changed", trace.trace_id);
}

/// Verifies every chain while a scan shows it.
#[derive(Default)]
struct Verifier {
    open: Option<(Head, TraceState)>,
    traces: usize,
    entries: usize,
}

impl Verifier {
    fn finish(&mut self) {
        if let Some((head, recorded)) = self.open.take() {
            head.matches(&recorded.head).unwrap();
        }
    }
}

impl Visitor for Verifier {
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>) {
        self.finish();
        self.traces += 1;
        self.open = Some((Head::empty(trace_id), *recorded.unwrap()));
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>> {
        let entry = entry.unwrap();
        assert_eq!(Digest::of(body.unwrap()), entry.artifact_digest);
        let (head, _) = self.open.as_mut().unwrap();
        *head = head.admit(&entry, &mut Vec::new()).unwrap();
        self.entries += 1;
        None
    }

    fn key_mismatch(&mut self, mismatch: KeyMismatch) {
        panic!("{mismatch:?}");
    }
}

/// Checks every chain, head and body of a store; returns how many traces and entries there are.
pub fn verify(store: &dyn Store) -> (usize, usize) {
    let mut verifier = Verifier::default();
    store.scan(&mut verifier).unwrap();
    verifier.finish();
    (verifier.traces, verifier.entries)
}

/// This test program, about to play a role on a database as a process of its own. The words before
/// it, if any, start it in their way.
pub fn player(before: &[&str], role: &str, database: &Path) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match before {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command
        .args(["support::plays_a_role", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DATABASE, database)
        .env_remove(windlass_store::fault::VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// One of several players.
pub fn numbered(role: &str, database: &Path, number: u64) -> Command {
    let mut command = player(&[], role, database);
    command.env(NUMBER, number.to_string());
    command
}

/// The reports of a child that must have succeeded.
pub fn succeeds(output: &Output) -> Vec<String> {
    let told = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "a child failed, {}\n{told}\n{error}", output.status);
    lines(&output.stdout)
}

/// The lines that a child has reported.
pub fn lines(stdout: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stdout).into_owned();
    text.lines().filter_map(|line| line.strip_prefix('@').map(str::to_owned)).collect()
}

/// A running player that tells something and then waits to be ended.
pub struct Waiting {
    child: Child,
    stdin: Option<ChildStdin>,
    // Kept, so that what the child still has to tell does not fail.
    stdout: BufReader<ChildStdout>,
}

impl Waiting {
    /// Starts a player and waits until it has told its first line.
    pub fn start(mut command: Command) -> (Self, String) {
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut told = stdout.by_ref().lines().map(Result::unwrap);
        let line = told.find_map(|line| line.strip_prefix('@').map(str::to_owned));
        (Self { child, stdin, stdout }, line.unwrap())
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets it go on, and does not wait.
    pub fn go_on(&mut self) {
        drop(self.stdin.take());
    }

    /// Lets it go on to its end.
    pub fn finish(mut self) {
        drop(self.stdin.take());
        std::io::copy(&mut self.stdout, &mut std::io::sink()).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// Reports a line to the parent.
pub fn tell(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // The test runner may have begun a line.
    stdout.write_all(format!("\n@{line}\n").as_bytes()).unwrap();
    stdout.flush().unwrap();
}

/// Waits until the parent closes stdin.
pub fn wait_for_parent() {
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).unwrap();
}

/// Not a test of its own: what the children of other tests run.
#[test]
fn plays_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let database = PathBuf::from(std::env::var_os(DATABASE).unwrap());
    let number = std::env::var(NUMBER).map_or(0, |number| number.parse().unwrap());
    match role.as_str() {
        "holds a trace" => crate::processes::holds_a_trace(&database, number),
        "opens at once" => crate::processes::opens_at_once(&database, number),
        "appends with others" => crate::head::appends_with_others(&database, number),
        "appends" => crate::crash::appends(&database),
        "makes many" => crate::indexing::makes_many(&database),
        "appends in threads" => crate::crash::appends_in_threads(&database),
        #[cfg(target_os = "linux")]
        "fills the disk" => crate::disk::fills_the_disk(&database),
        #[cfg(target_os = "linux")]
        "meets a read-only disk" => crate::disk::meets_a_read_only_disk(&database),
        #[cfg(target_os = "linux")]
        "lacks permission" => crate::disk::lacks_permission(&database),
        role => panic!("no role is called `{role}`"),
    }
}
