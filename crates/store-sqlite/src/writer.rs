//! The one place where the database is written, and group commit.
//!
//! One thread writes at a time. Whoever finds nobody writing commits its own work at once, so that a
//! single caller pays no thread switch. If others have queued up meanwhile, a thread of the writer's
//! own takes over and commits all that waits, in one transaction with one sync, until nothing does.
//! It wakes only the first of a batch, who wakes two more, and so on: the thread that all wait for has
//! something better to do. The write-ahead log is folded into the database between two batches.
//!
//! A single caller that appends in quick succession pays even less: see [`snapshot`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use windlass_kernel::TraceId;
use windlass_store::{StoreError, fault};

use crate::error::During;
use crate::find::Index;
use crate::open::Settings;
use crate::snapshot;
use crate::statements::Statements;
use crate::tail::Tail;

/// How long a store that is being closed waits for other processes.
const CLOSING_TIMEOUT: Duration = Duration::from_millis(100);

/// A snapshot is kept for one who comes back within this time, and not for longer.
const KEPT: Duration = Duration::from_millis(50);

/// One piece of work: checked and written inside a transaction that others may share.
///
/// The outer error ends the transaction; what the work itself refuses is in `T` and must leave
/// nothing written.
type Work = Box<dyn FnMut(&mut Desk<'_>) -> Result<(), StoreError> + Send>;

struct Ticket {
    work: Mutex<Option<Work>>,
    end: Mutex<Option<End>>,
    ended: Condvar,
}

/// What has become of a ticket's work, and the tickets whose owners are to be woken next: their ends
/// are known.
struct End {
    result: Result<(), StoreError>,
    next: [Option<Arc<Ticket>>; 2],
}

impl Ticket {
    fn perform(&self, desk: &mut Desk<'_>) -> Result<(), StoreError> {
        lock(&self.work).as_mut().map_or(Ok(()), |work| work(desk))
    }

    fn wait(&self) -> Result<(), StoreError> {
        let mut end = lock(&self.end);
        let End { result, next } = loop {
            match end.take() {
                Some(end) => break end,
                None => end = self.ended.wait(end).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(end);
        for ticket in next.into_iter().flatten() {
            ticket.ended.notify_one();
        }
        result
    }
}

/// Tells the owners of tickets what has become of their work. Each wakes two others.
fn tell(batch: &[Arc<Ticket>], results: Vec<Result<(), StoreError>>) {
    for (at, (ticket, result)) in batch.iter().zip(results).enumerate() {
        let next = [2 * at + 1, 2 * at + 2].map(|next| batch.get(next).map(Arc::clone));
        *lock(&ticket.end) = Some(End { result, next });
    }
    if let Some(first) = batch.first() {
        first.ended.notify_one();
    }
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Ticket>>,
    /// Somebody writes: a caller, or the writer's own thread.
    busy: bool,
    /// It is the writer's own thread's turn.
    relayed: bool,
    /// A snapshot may be kept, which that thread is to give up.
    kept: bool,
    closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    turn: Condvar,
    books: Mutex<Books>,
    /// How many pages the write-ahead log has.
    log: Arc<AtomicU32>,
    settings: Settings,
}

/// What only one may have at a time: whoever writes.
struct Books {
    connection: Connection,
    tail: Tail,
    /// When a caller last committed alone, and kept its snapshot if it did.
    last: Option<Instant>,
    kept: bool,
}

/// What the work of a batch is done with, inside its transaction.
pub struct Desk<'a> {
    /// The connection.
    pub connection: &'a Connection,
    /// The traces that are not filed.
    pub tail: &'a mut Tail,
    /// The statements of appends.
    pub statements: Statements<'a>,
}

/// The database's only writing connection in this process.
pub struct Writer {
    shared: Arc<Shared>,
    thread: OnceLock<std::io::Result<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk<'_> {
    /// Makes sure that a trace is filed: what follows works on the tables.
    pub fn settle(&mut self, trace_id: TraceId) -> Result<(), StoreError> {
        self.statements.insert_rest(self.connection)?;
        self.tail.settle(self.connection, trace_id)
    }
}

impl Writer {
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
        let shared = Shared {
            queue: Mutex::default(),
            turn: Condvar::new(),
            books: Mutex::new(Books {
                connection,
                tail: Tail::new(settings.unfiled_max),
                last: None,
                kept: false,
            }),
            log,
            settings,
        };
        Ok(Self { shared: Arc::new(shared), thread: OnceLock::new() })
    }

    /// Runs `work` in a transaction; returns once it is durable, or has failed.
    pub fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Desk<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.perform(work, None)
    }

    /// The same for work that writes one row, or begins a transaction itself, and writes nothing when
    /// it refuses.
    pub fn append<T: Send + 'static, E: Send + 'static>(
        &self,
        work: impl FnMut(&mut Desk<'_>) -> Result<Result<T, E>, StoreError> + Send + 'static,
    ) -> Result<Result<T, E>, StoreError> {
        self.perform(work, Some(Result::is_ok))
    }

    /// Runs `work`. If a function is given, the work needs no transaction around it in a snapshot that
    /// is kept, and the function tells whether its answer then stands.
    fn perform<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut Desk<'_>) -> Result<T, StoreError> + Send + 'static,
        stands: Option<fn(&T) -> bool>,
    ) -> Result<T, StoreError> {
        let mut queue = lock(&self.shared.queue);
        if queue.busy {
            let answer = Arc::new(Mutex::new(None));
            let slot = Arc::clone(&answer);
            let ticket = Arc::new(Ticket {
                work: Mutex::new(Some(Box::new(move |desk: &mut Desk<'_>| {
                    *lock(&slot) = Some(work(desk)?);
                    Ok(())
                }))),
                end: Mutex::new(None),
                ended: Condvar::new(),
            });
            queue.waiting.push(Arc::clone(&ticket));
            drop(queue);
            let result = ticket.wait();
            // The writer may still have the ticket in its hand; what the work carries was made on
            // this thread and goes back to its memory.
            drop(lock(&ticket.work).take());
            result?;
            return lock(&answer).take().ok_or_else(unanswered);
        }
        queue.busy = true;
        drop(queue);
        let mut books = lock(&self.shared.books);
        let result = self.commit_one(&mut books, work, stands);
        let kept = books.kept;
        drop(books);
        self.shared.fold_log();
        self.hand_over(kept);
        result
    }

    /// Commits the work of a caller who is alone.
    fn commit_one<T>(
        &self,
        books: &mut Books,
        mut work: impl FnMut(&mut Desk<'_>) -> Result<T, StoreError>,
        stands: Option<fn(&T) -> bool>,
    ) -> Result<T, StoreError> {
        let now = Instant::now();
        let quick = books.last.replace(now).is_some_and(|last| now - last < KEPT);
        if let Some(stands) = stands
            && let Some(answer) = books.commit_row(&mut work, stands)
        {
            return Ok(answer);
        }
        // Only if there is somebody to give it up.
        let keep = stands.is_some() && quick && self.thread().is_ok();
        let mut answer = None;
        commit(books, keep, |desk| {
            answer = Some(work(desk)?);
            Ok(())
        })?;
        answer.ok_or_else(unanswered)
    }

    /// What readers know of the unfiled traces.
    pub fn index(&self) -> Arc<Mutex<Index>> {
        lock(&self.shared.books).tail.index()
    }

    /// Files what this process knows to be unfiled, if that can be had at once. It says nothing new,
    /// so it need not be durable: if the power fails, the next process files it.
    pub fn close(&self) {
        self.shared.fold_log();
        let mut books = lock(&self.shared.books);
        books.give_up();
        let Books { connection, tail, .. } = &mut *books;
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
            drop(conclude(&mut books, filed));
        }
    }

    /// Leaves what has queued up to the writer's own thread, and the snapshot, if one is kept.
    fn hand_over(&self, kept: bool) {
        let mut queue = lock(&self.shared.queue);
        let told = !kept || std::mem::replace(&mut queue.kept, true);
        if queue.waiting.is_empty() {
            queue.busy = false;
            drop(queue);
            if !told {
                self.shared.turn.notify_one();
            }
            return;
        }
        queue.relayed = true;
        drop(queue);
        match self.thread() {
            Ok(_) => self.shared.turn.notify_one(),
            // Without a thread of its own this one does the work.
            Err(_) => self.shared.drain(),
        }
    }

    /// The writer's own thread.
    fn thread(&self) -> &std::io::Result<JoinHandle<()>> {
        self.thread.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            std::thread::Builder::new()
                .name("windlass-writer".to_owned())
                .spawn(move || shared.relay())
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.turn.notify_one();
        if let Some(Ok(thread)) = self.thread.take() {
            // It has nothing left to do and cannot have failed.
            drop(thread.join());
        }
    }
}

impl Shared {
    /// The life of the writer's own thread.
    fn relay(&self) {
        loop {
            let mut queue = lock(&self.queue);
            while !queue.relayed {
                if queue.closed {
                    return;
                }
                if !queue.kept {
                    queue = self.turn.wait(queue).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                let woken = self.turn.wait_timeout(queue, KEPT);
                let (woken, waited) = woken.unwrap_or_else(PoisonError::into_inner);
                queue = woken;
                if waited.timed_out() {
                    drop(queue);
                    self.rest();
                    queue = lock(&self.queue);
                }
            }
            queue.relayed = false;
            drop(queue);
            self.drain();
        }
    }

    /// Gives up the snapshot if its keeper has not come back.
    fn rest(&self) {
        let mut books = lock(&self.books);
        if books.last.is_none_or(|last| last.elapsed() >= KEPT) {
            books.give_up();
        }
        lock(&self.queue).kept = books.kept;
    }

    /// Commits what waits, batch after batch, until nothing does.
    fn drain(&self) {
        loop {
            let batch = {
                let mut queue = lock(&self.queue);
                if queue.waiting.is_empty() {
                    queue.busy = false;
                    return;
                }
                std::mem::take(&mut queue.waiting)
            };
            tell(&batch, self.commit(&batch));
            self.fold_log();
        }
    }

    /// Folds the log into the database if it is long. Those who have been told go on meanwhile.
    fn fold_log(&self) {
        let pages = self.log.load(Ordering::Relaxed);
        if pages < self.settings.log_pages {
            return;
        }
        self.log.store(0, Ordering::Relaxed);
        let mut books = lock(&self.books);
        books.give_up();
        let folded = books
            .connection
            .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")
            .and_then(|mut statement| statement.query_row([], |_| Ok(())));
        // All that is in the log is durable. What could not be folded now, because others read it or
        // the disk is full, is tried again after the next commit.
        drop(folded);
    }

    /// Commits a batch together; if that fails, each piece of it alone, so that one piece that
    /// cannot be written does not take the others with it.
    fn commit(&self, batch: &[Arc<Ticket>]) -> Vec<Result<(), StoreError>> {
        let mut books = lock(&self.books);
        let mut together = |batch: &[Arc<Ticket>]| {
            commit(&mut books, false, |desk| {
                batch.iter().try_for_each(|ticket| ticket.perform(desk))
            })
        };
        match together(batch) {
            Ok(()) => batch.iter().map(|_| Ok(())).collect(),
            Err(error) if batch.len() == 1 => vec![Err(error)],
            Err(_) => batch.iter().map(|ticket| together(std::slice::from_ref(ticket))).collect(),
        }
    }
}

impl Books {
    /// Does work that writes one row, or begins a transaction itself, in the snapshot that is kept.
    /// `None` if that cannot be had: then nothing is written.
    fn commit_row<T>(
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
                drop(conclude(self, Err(error)));
                None
            }
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
}

/// Does work inside one transaction. If it is wanted, and nobody else writes, its snapshot is kept.
fn commit(
    books: &mut Books,
    keep: bool,
    mut work: impl FnMut(&mut Desk<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    fault::point("append.before");
    books.give_up();
    begin(&books.connection)?;
    let Books { connection, tail, kept, .. } = books;
    let mut perform = || {
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
    conclude(books, result)?;
    fault::point("append.after");
    Ok(())
}

/// What panics must fail: nobody may wait for it for ever.
fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(StoreError::Corrupt { reason: "a write failed inside Windlass".to_owned() })
    })
}

fn unanswered() -> StoreError {
    StoreError::Corrupt { reason: "a write gave no answer".to_owned() }
}

/// Makes memory follow what has become of a transaction.
fn conclude(books: &mut Books, result: Result<(), StoreError>) -> Result<(), StoreError> {
    if result.is_ok() {
        books.tail.publish();
        return Ok(());
    }
    books.tail.forget();
    books.give_up();
    if !books.connection.is_autocommit() {
        run(&books.connection, "ROLLBACK", "roll back")?;
    }
    result
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Many at once, some of which panic or are refused: each gets its own answer.
    #[test]
    fn work_that_panics_fails_alone_and_nobody_waits_for_ever() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&crate::MIGRATIONS.concat()).unwrap();
        connection.execute_batch("CREATE TABLE log (id INTEGER PRIMARY KEY)").unwrap();
        let writer = Writer::new(connection, Settings::default()).unwrap();
        let results: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..32)
                .map(|number| {
                    let writer = &writer;
                    scope.spawn(move || {
                        let result = writer.write(move |desk| {
                            assert!(number % 8 != 3, "planted");
                            desk.connection
                                .execute("INSERT INTO log VALUES (?1)", [number])
                                .during("insert")
                        });
                        result.is_ok()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let expected: Vec<bool> = (0..32).map(|number| number % 8 != 3).collect();
        assert_eq!(results, expected);
        let count = writer
            .write(|desk| {
                desk.connection
                    .query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0))
                    .during("count")
            })
            .unwrap();
        assert_eq!(count, 28);
    }
}
