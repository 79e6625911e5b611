//! What only one may have at a time: the connection that writes, and what it has written and not filed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use windlass_kernel::TraceId;
use windlass_store::{StoreError, fault};

use crate::error::During;
use crate::open::Settings;
use crate::snapshot;
use crate::statements::Statements;
use crate::tail::Tail;

/// How long a store that is being closed waits for other processes.
const CLOSING_TIMEOUT: Duration = Duration::from_millis(100);
/// A snapshot is kept for one who comes back within this time, and not for longer.
pub const KEPT: Duration = Duration::from_millis(50);

/// What work is done with, inside its transaction.
pub struct Desk<'a> {
    /// The connection.
    pub connection: &'a Connection,
    /// The traces that are not filed.
    pub tail: &'a mut Tail,
    /// The statements of appends.
    pub statements: Statements<'a>,
}

impl Desk<'_> {
    /// Makes sure that a trace is filed: what follows works on the tables.
    pub fn settle(&mut self, trace_id: TraceId) -> Result<(), StoreError> {
        self.statements.insert_rest(self.connection)?;
        self.tail.settle(self.connection, trace_id)
    }
}

/// The connection that writes, and what goes with it.
pub struct Books {
    connection: Connection,
    tail: Tail,
    /// How many pages the write-ahead log has.
    log: Arc<AtomicU32>,
    /// From so many on it is folded.
    log_pages: u32,
    /// How long it was when not all of it could be folded.
    tried: Option<u32>,
    /// When a caller last committed alone.
    last: Option<Instant>,
    /// How often one has come back within a moment, in a row.
    hurry: u32,
    /// It has kept its snapshot.
    kept: bool,
}

impl Books {
    /// Takes a connection for writing.
    pub fn new(mut connection: Connection, settings: Settings) -> Result<Self, StoreError> {
        let log = Arc::new(AtomicU32::new(0));
        let pages_of_log = Arc::clone(&log);
        // In the place of SQLite's own, which folds the log inside the commit that makes it long.
        let note = move |_: &mut Wal, pages: i32| {
            pages_of_log.store(pages.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(note)).during("watch its log")?;
        Ok(Self {
            connection,
            tail: Tail::new(settings.unfiled_max),
            log,
            log_pages: settings.log_pages,
            tried: None,
            last: None,
            hurry: 0,
            kept: false,
        })
    }

    /// The traces that are not filed.
    pub const fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Whether a snapshot is kept.
    pub const fn has_kept(&self) -> bool {
        self.kept
    }

    /// Notes that a caller commits alone, and says whether there is a hurry: the third commit in a row
    /// with no more than a moment between. A single call makes two.
    pub fn is_hurried(&mut self) -> bool {
        let now = Instant::now();
        let soon = self.last.replace(now).is_some_and(|last| now.duration_since(last) < KEPT);
        self.hurry = if soon { self.hurry.saturating_add(1) } else { 0 };
        self.hurry > 1
    }

    /// Gives up the snapshot if its keeper has not come back.
    pub fn rest(&mut self) {
        if self.last.is_none_or(|last| last.elapsed() >= KEPT) {
            self.give_up();
        }
    }

    /// Does work inside one transaction. If it is wanted, and nobody else writes, its snapshot is kept.
    pub fn commit(
        &mut self,
        keep: bool,
        work: impl FnOnce(&mut Desk<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        fault::point("append.before");
        self.give_up();
        begin(&self.connection)?;
        let Self { connection, tail, kept, .. } = self;
        let perform = || {
            let alone = tail.refresh(connection)?;
            let mut desk = Desk { connection, tail, statements: Statements::default() };
            guarded(|| work(&mut desk))?;
            desk.statements.insert_rest(desk.connection)?;
            desk.tail.file_if_full(desk.connection)?;
            if keep && alone {
                snapshot::keep(desk.connection)?;
                *kept = true;
            }
            fault::point("append.inside");
            run(desk.connection, "COMMIT", "commit")
        };
        let result = perform();
        self.conclude(result)?;
        fault::point("append.after");
        Ok(())
    }

    /// Does work that writes one row, or begins a transaction itself, in the snapshot that is kept;
    /// `stands` says whether its answer is to be relied on. `None` if that cannot be had: then nothing
    /// is written.
    pub fn commit_row<T>(
        &mut self,
        work: impl FnOnce(&mut Desk<'_>) -> Result<T, StoreError>,
        stands: fn(&T) -> bool,
    ) -> Option<T> {
        if !self.kept || self.tail.is_full() || !snapshot::is_kept(&self.connection) {
            return None;
        }
        fault::point("append.before");
        fault::point("append.inside");
        let Self { connection, tail, .. } = self;
        let mut desk = Desk { connection, tail, statements: Statements::default() };
        let answer = guarded(|| work(&mut desk)).and_then(|answer| {
            if !desk.connection.is_autocommit() {
                desk.statements.insert_rest(desk.connection)?;
                run(desk.connection, "COMMIT", "commit")?;
            }
            Ok(answer)
        });
        drop(desk);
        match answer {
            // What is refused may be refused because the snapshot is old.
            Ok(answer) => stands(&answer).then(|| {
                self.tail.publish();
                fault::point("append.after");
                answer
            }),
            // Somebody else has written, or is writing, or it cannot be written at all: a transaction
            // waits for others, reads what they have done, and says what is wrong.
            Err(error) => {
                drop(self.conclude(Err(error)));
                None
            }
        }
    }

    /// Folds the log into the database if it is long.
    pub fn fold_log(&mut self) {
        let pages = self.log.load(Ordering::Relaxed);
        // A log that is shorter than it was has begun anew.
        let tried = self.tried.filter(|tried| *tried <= pages).unwrap_or_default();
        if pages - tried < self.log_pages {
            return;
        }
        self.give_up();
        let folded = self.connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)").and_then(
            |mut statement| statement.query_row([], |row| Ok((row.get(1)?, row.get(2)?))),
        );
        let whole = folded.is_ok_and(|(log, folded): (i64, i64)| folded == log);
        // All that is in the log is durable. What could not be folded now, because others read it or
        // the disk is full, is tried again when there is as much again: the longer the log is, the
        // longer that takes.
        self.tried = (!whole).then_some(pages);
        self.log.store(0, Ordering::Relaxed);
    }

    /// Files what this process knows to be unfiled, if that can be had at once. It says nothing new,
    /// so it need not be durable: if the power fails, the next process files it.
    pub fn close(&mut self) {
        self.fold_log();
        self.give_up();
        let Self { connection, tail, .. } = self;
        if tail.is_empty() {
            return;
        }
        let ready = connection.execute_batch("PRAGMA synchronous = NORMAL").is_ok()
            && connection.busy_timeout(CLOSING_TIMEOUT).is_ok()
            && begin(connection).is_ok();
        if ready {
            let filed = tail
                .refresh(connection)
                .and_then(|_| tail.file_all(connection))
                .and_then(|()| run(connection, "COMMIT", "commit"));
            // Nobody is left to be told.
            drop(self.conclude(filed));
        }
    }

    /// Gives up the snapshot that is kept.
    fn give_up(&mut self) {
        if self.kept {
            self.kept = false;
            // What cannot be given up is not used, and ends with the connection.
            drop(snapshot::give_up(&self.connection));
        }
    }

    /// Makes memory follow what has become of a transaction.
    fn conclude(&mut self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        if result.is_ok() {
            self.tail.publish();
            return Ok(());
        }
        self.tail.forget();
        self.give_up();
        if !self.connection.is_autocommit() {
            run(&self.connection, "ROLLBACK", "roll back")?;
        }
        result
    }
}

/// What panics must fail: nobody may wait for it for ever.
fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(StoreError::Corrupt { reason: "a write failed inside Windlass".to_owned() })
    })
}

/// Begins a transaction that writes, if there is none.
pub fn begin(connection: &Connection) -> Result<(), StoreError> {
    if connection.is_autocommit() {
        run(connection, "BEGIN IMMEDIATE", "begin a transaction")?;
    }
    Ok(())
}

/// Runs a statement that is compiled once.
pub fn run(connection: &Connection, sql: &str, operation: &'static str) -> Result<(), StoreError> {
    connection.prepare_cached(sql).during(operation)?.execute([]).during(operation)?;
    Ok(())
}
