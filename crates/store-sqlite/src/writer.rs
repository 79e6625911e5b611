//! The one place where the database is written, and group commit.
//!
//! One thread writes at a time. Whoever finds nobody writing commits its own work at once, so that a
//! single caller pays no thread switch. If others have queued up meanwhile, a thread of the writer's
//! own takes over and commits all that waits, in one transaction with one sync, until nothing does.
//! It wakes only the first of a batch, who wakes two more, and so on: the thread that all wait for has
//! something better to do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use windlass_store::{StoreError, fault};

use crate::append::Statements;
use crate::error::During;
use crate::find::Index;
use crate::tail::Tail;

/// How long a store that is being closed waits for other processes.
const CLOSING_TIMEOUT: Duration = Duration::from_millis(100);

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
    closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    turn: Condvar,
    books: Mutex<Books>,
}

/// What only one may have at a time: whoever writes.
struct Books {
    connection: Connection,
    tail: Tail,
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

impl Writer {
    /// Takes a connection for writing.
    pub fn new(connection: Connection) -> Self {
        let shared = Shared {
            queue: Mutex::default(),
            turn: Condvar::new(),
            books: Mutex::new(Books { connection, tail: Tail::default() }),
        };
        Self { shared: Arc::new(shared), thread: OnceLock::new() }
    }

    /// Runs `work` in a transaction; returns once it is durable, or has failed.
    pub fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut Desk<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
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
        let result = self.run(&ticket);
        // The writer may still have the ticket in its hand; what the work carries was made on this
        // thread and goes back to its memory.
        drop(lock(&ticket.work).take());
        result?;
        let answer = lock(&answer).take();
        answer.ok_or_else(|| StoreError::Corrupt { reason: "a write gave no answer".to_owned() })
    }

    /// What readers know of the unfiled traces.
    pub fn index(&self) -> Arc<Mutex<Index>> {
        lock(&self.shared.books).tail.index()
    }

    /// Files what this process knows to be unfiled, if that can be had at once. It says nothing new,
    /// so it need not be durable: if the power fails, the next process files it.
    pub fn close(&self) {
        let mut books = lock(&self.shared.books);
        let Books { connection, tail } = &mut *books;
        if tail.is_empty() {
            return;
        }
        let ready = connection.execute_batch("PRAGMA synchronous = NORMAL").is_ok()
            && connection.busy_timeout(CLOSING_TIMEOUT).is_ok()
            && run(connection, "BEGIN IMMEDIATE", "begin a transaction").is_ok();
        if ready {
            let filed = tail
                .refresh(connection)
                .and_then(|()| tail.file_all(connection))
                .and_then(|()| run(connection, "COMMIT", "commit"));
            // Nobody is left to be told.
            drop(conclude(&mut books, filed));
        }
    }

    fn run(&self, ticket: &Arc<Ticket>) -> Result<(), StoreError> {
        {
            let mut queue = lock(&self.shared.queue);
            if queue.busy {
                queue.waiting.push(Arc::clone(ticket));
                drop(queue);
                return ticket.wait();
            }
            queue.busy = true;
        }
        let result = self.shared.commit(std::slice::from_ref(ticket)).pop();
        self.hand_over();
        result.unwrap_or_else(|| {
            Err(StoreError::Corrupt { reason: "a writer lost its own work".to_owned() })
        })
    }

    /// Leaves what has queued up to the writer's own thread.
    fn hand_over(&self) {
        let mut queue = lock(&self.shared.queue);
        if queue.waiting.is_empty() {
            queue.busy = false;
            return;
        }
        queue.relayed = true;
        drop(queue);
        let thread = self.thread.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            std::thread::Builder::new()
                .name("windlass-writer".to_owned())
                .spawn(move || shared.relay())
        });
        match thread {
            Ok(_) => self.shared.turn.notify_one(),
            // Without a thread of its own this one does the work.
            Err(_) => self.shared.drain(),
        }
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
                queue = self.turn.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.relayed = false;
            drop(queue);
            self.drain();
        }
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
        }
    }

    /// Commits a batch together; if that fails, each piece of it alone, so that one piece that
    /// cannot be written does not take the others with it.
    fn commit(&self, batch: &[Arc<Ticket>]) -> Vec<Result<(), StoreError>> {
        let mut books = lock(&self.books);
        match commit_together(&mut books, batch) {
            Ok(()) => batch.iter().map(|_| Ok(())).collect(),
            Err(error) if batch.len() == 1 => vec![Err(error)],
            Err(_) => batch
                .iter()
                .map(|ticket| commit_together(&mut books, std::slice::from_ref(ticket)))
                .collect(),
        }
    }
}

fn commit_together(books: &mut Books, batch: &[Arc<Ticket>]) -> Result<(), StoreError> {
    fault::point("append.before");
    run(&books.connection, "BEGIN IMMEDIATE", "begin a transaction")?;
    let result = perform(books, batch).and_then(|()| {
        fault::point("append.inside");
        run(&books.connection, "COMMIT", "commit")
    });
    conclude(books, result)?;
    fault::point("append.after");
    Ok(())
}

/// Does all work of a batch inside its transaction.
fn perform(books: &mut Books, batch: &[Arc<Ticket>]) -> Result<(), StoreError> {
    let Books { connection, tail } = books;
    tail.refresh(connection)?;
    let mut desk = Desk { connection, tail, statements: Statements::default() };
    for ticket in batch {
        let mut work = lock(&ticket.work);
        let Some(work) = work.as_mut() else { continue };
        // One that panics must fail alone: nobody may wait for it for ever.
        catch_unwind(AssertUnwindSafe(|| work(&mut desk))).unwrap_or_else(|_| {
            Err(StoreError::Corrupt { reason: "a write failed inside Windlass".to_owned() })
        })?;
    }
    desk.tail.file_if_full(desk.connection)
}

/// Makes memory follow what has become of a transaction.
fn conclude(books: &mut Books, result: Result<(), StoreError>) -> Result<(), StoreError> {
    if result.is_ok() {
        books.tail.publish();
        return Ok(());
    }
    books.tail.forget();
    if !books.connection.is_autocommit() {
        run(&books.connection, "ROLLBACK", "roll back")?;
    }
    result
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
        let writer = Writer::new(connection);
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
