//! The one place where the database is written, and group commit.
//!
//! One thread writes at a time. Whoever finds nobody writing commits its own work at once, so that a
//! single caller pays no thread switch. If others have queued up meanwhile, a thread of the writer's
//! own takes over and commits all that waits, in one transaction with one sync, until nothing does.
//! It wakes only the first of a batch, who wakes two more, and so on: the thread that all wait for has
//! something better to do. The write-ahead log is folded into the database between two batches.
//!
//! A single caller that appends in quick succession pays even less: see [`crate::snapshot`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use windlass_store::StoreError;

use crate::books::{Books, Desk, KEPT};
use crate::find::Index;
use crate::open::Settings;

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
    pub fn new(connection: Connection, settings: Settings) -> Result<Self, StoreError> {
        let books = Mutex::new(Books::new(connection, settings)?);
        let shared = Shared { queue: Mutex::default(), turn: Condvar::new(), books };
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
        books.fold_log();
        let kept = books.has_kept();
        drop(books);
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
        let hurried = books.is_hurried();
        if let Some(stands) = stands
            && let Some(answer) = books.commit_row(&mut work, stands)
        {
            return Ok(answer);
        }
        // Only if there is somebody to give it up.
        let keep = stands.is_some() && hurried && self.thread().is_ok();
        let mut answer = None;
        books.commit(keep, |desk| {
            answer = Some(work(desk)?);
            Ok(())
        })?;
        answer.ok_or_else(unanswered)
    }

    /// What readers know of the unfiled traces.
    pub fn index(&self) -> Arc<Mutex<Index>> {
        lock(&self.shared.books).tail().index()
    }

    /// Files what is not filed, if that can be had at once.
    pub fn close(&self) {
        lock(&self.shared.books).close();
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
        books.rest();
        lock(&self.queue).kept = books.has_kept();
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
            // Those who have been told go on meanwhile.
            lock(&self.books).fold_log();
        }
    }

    /// Commits a batch together; if that fails, each piece of it alone, so that one piece that
    /// cannot be written does not take the others with it.
    fn commit(&self, batch: &[Arc<Ticket>]) -> Vec<Result<(), StoreError>> {
        let mut books = lock(&self.books);
        let mut together = |batch: &[Arc<Ticket>]| {
            books.commit(false, |desk| batch.iter().try_for_each(|ticket| ticket.perform(desk)))
        };
        match together(batch) {
            Ok(()) => batch.iter().map(|_| Ok(())).collect(),
            Err(error) if batch.len() == 1 => vec![Err(error)],
            Err(_) => batch.iter().map(|ticket| together(std::slice::from_ref(ticket))).collect(),
        }
    }
}

fn unanswered() -> StoreError {
    StoreError::Corrupt { reason: "a write gave no answer".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::During;

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
