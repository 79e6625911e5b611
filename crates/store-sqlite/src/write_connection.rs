//! The connection that writes, and its transactions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use windlass_kernel::TraceId;
use windlass_store::{StoreError, fault};

use crate::files::{DatabaseFiles, KnownFile};
use crate::head_file::HeadFile;
use crate::open::Settings;
use crate::sql::{Context as _, execute, query_first};
use crate::turns::Turns;
use crate::types::lock;
use crate::unindexed::UnindexedTraces;

/// How long closing a store waits for other processes.
const CLOSING_TIMEOUT: Duration = Duration::from_millis(100);
/// The size of a write-ahead log from which on closing a store empties it: 64 pages. Whoever opens the store first reads
/// and checks all of the log.
const CLOSED_LOG_BYTES_MAX: u64 = 64 * (4096 + 24);

pub struct WriteTransaction<'a> {
    pub connection: &'a Connection,
    unindexed: &'a Mutex<UnindexedTraces>,
}

impl WriteTransaction<'_> {
    /// The unindexed traces. Readers wait while they are locked.
    pub fn unindexed(&self) -> MutexGuard<'_, UnindexedTraces> {
        lock(self.unindexed)
    }

    /// Makes sure that a trace is indexed.
    pub fn index_trace(&self, trace_id: TraceId) -> Result<(), StoreError> {
        self.unindexed().index_trace(self.connection, trace_id)
    }

    /// Records a write that is not an append.
    pub fn record_write(&self) -> Result<(), StoreError> {
        self.unindexed().record_write(self.connection)
    }
}

/// The files beside a connection to a database on disk.
pub struct Disk {
    pub head: HeadFile,
    /// The length of the write-ahead log when the store was opened, in pages.
    pub wal_pages: u32,
    pub files: DatabaseFiles,
    /// The lock file of this process.
    pub lock: KnownFile,
    /// The queue, for a process that lives for a moment.
    pub turns: Option<Turns>,
}

/// The only connection of this process that writes.
pub struct WriteConnection {
    connection: Connection,
    unindexed: Arc<Mutex<UnindexedTraces>>,
    /// The length of the write-ahead log after the last commit, in pages.
    wal_pages: Arc<AtomicU32>,
    /// The length from which on it is checkpointed.
    wal_pages_max: u32,
    /// Its length when this process began, or when the last checkpoint was incomplete.
    incomplete: Option<u32>,
    /// `None` for a database in memory.
    disk: Option<Disk>,
}

impl WriteConnection {
    pub fn new(
        mut connection: Connection,
        settings: Settings,
        disk: Option<Disk>,
    ) -> Result<Self, StoreError> {
        let wal_pages = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&wal_pages);
        // Replaces SQLite's own hook, which would checkpoint inside the commit.
        let count = move |_: &mut Wal, pages: i32| {
            counter.store(pages.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(count)).context("watch its log")?;
        // A process that lives for one call must not pay for the log that others have left: the next one to
        // open the store checkpoints it.
        let incomplete = disk.as_ref().map(|disk| disk.wal_pages);
        Ok(Self {
            connection,
            unindexed: Arc::new(Mutex::new(UnindexedTraces::new(settings.unindexed_max))),
            wal_pages,
            wal_pages_max: settings.wal_pages,
            incomplete,
            disk,
        })
    }

    pub fn unindexed(&self) -> Arc<Mutex<UnindexedTraces>> {
        Arc::clone(&self.unindexed)
    }

    /// The connection, to read with it.
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs `work` in a transaction and commits it; rolls it back if the work fails or panics.
    pub fn commit(
        &mut self,
        work: impl FnOnce(&WriteTransaction<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        fault::point("append.before");
        let turns = self.disk.as_ref().and_then(|disk| disk.turns.as_ref());
        let turn = turns.map(Turns::wait).transpose()?;
        execute(&self.connection, "begin a transaction", "BEGIN IMMEDIATE", [])?;
        let transaction =
            WriteTransaction { connection: &self.connection, unindexed: &self.unindexed };
        let perform = || {
            transaction.unindexed().refresh(&self.connection)?;
            catch_panic(|| work(&transaction))?;
            transaction.unindexed().index_if_full(&self.connection)?;
            fault::point("append.inside");
            self.check_files()?;
            execute(&self.connection, "commit", "COMMIT", [])
        };
        let result = perform();
        self.end(result)?;
        drop(turn);
        fault::point("append.after");
        self.write_head();
        Ok(())
    }

    /// Fails if the database, its log or the lock file of this process was removed or replaced.
    fn check_files(&self) -> Result<(), StoreError> {
        let Some(disk) = &self.disk else { return Ok(()) };
        disk.files.check()?;
        disk.lock.check()
    }

    /// Writes the position of the store into its head file: all up to there is durable.
    fn write_head(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.head
                .write(lock(&self.unindexed).position(), self.wal_pages.load(Ordering::Relaxed));
        }
    }

    /// Makes the memory follow a commit, or rolls back.
    fn end(&self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        if result.is_ok() {
            lock(&self.unindexed).committed();
            return Ok(());
        }
        lock(&self.unindexed).rolled_back();
        if !self.connection.is_autocommit() {
            execute(&self.connection, "roll back", "ROLLBACK", [])?;
        }
        result
    }

    /// Checkpoints the write-ahead log if it is long. A checkpoint is incomplete if somebody reads an
    /// old snapshot, or the disk is full. It takes the longer the longer the log is, so it is tried
    /// again only when the log has grown by as much again. All that is in the log is durable.
    pub fn checkpoint_wal(&mut self) {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        // A log that is shorter than before was restarted.
        let tried = self.incomplete.filter(|tried| *tried <= pages).unwrap_or_default();
        if pages - tried < self.wal_pages_max {
            return;
        }
        let sql = "PRAGMA wal_checkpoint(PASSIVE)";
        let complete = query_first(&self.connection, "checkpoint its log", sql, [], |row| {
            Ok(row.get::<_, i64>(1).ok() == row.get(2).ok())
        });
        self.incomplete = (!matches!(complete, Ok(Some(true)))).then_some(pages);
        self.wal_pages.store(0, Ordering::Relaxed);
    }

    /// Indexes the unindexed traces, if no other process writes. Without a sync: the index follows from
    /// the entries, and if it is lost the next process writes it. It does not change the position of the
    /// store, which must be durable. Then empties a long log, unless another process uses it.
    pub fn close(&mut self) {
        let is_queued = self.disk.as_ref().is_some_and(|disk| disk.turns.is_some());
        if is_queued {
            return;
        }
        if !lock(&self.unindexed).is_empty() {
            self.index_all();
        }
        self.empty_log();
    }

    fn index_all(&mut self) {
        let Self { connection, unindexed, .. } = self;
        let begun = connection.execute_batch("PRAGMA synchronous = NORMAL").is_ok()
            && connection.busy_timeout(CLOSING_TIMEOUT).is_ok()
            && execute(connection, "begin a transaction", "BEGIN IMMEDIATE", []).is_ok();
        if begun {
            let mut traces = lock(unindexed);
            let indexed = traces
                .refresh(connection)
                .and_then(|()| traces.index_all(connection))
                .and_then(|()| execute(connection, "commit", "COMMIT", []));
            drop(traces);
            // There is nobody to report to.
            drop(self.end(indexed));
        }
    }

    /// Checkpoints a long log and empties its file. If that fails, the log stays as it is.
    fn empty_log(&self) {
        let Some(disk) = &self.disk else { return };
        let is_long = disk.files.log_bytes() > CLOSED_LOG_BYTES_MAX;
        if is_long
            && self.check_files().is_ok()
            && self.connection.busy_timeout(Duration::ZERO).is_ok()
        {
            let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
            drop(self.connection.query_row(sql, [], |_| Ok(())));
        }
    }
}

/// Turns a panic into an error: the callers of a group must not wait forever.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(StoreError::Corrupt { reason: "a write failed inside Windlass".to_owned() })
    })
}
