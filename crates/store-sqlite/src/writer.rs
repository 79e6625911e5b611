//! The one place where the database is written, and group commit.
//!
//! One thread writes at a time. Whoever finds nobody writing does it, for itself and for all who
//! have queued up meanwhile, in one transaction with one sync; then it hands over to the first that
//! came after. A single writer so pays no thread switch, and many share each sync.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use windlass_store::{StoreError, fault};

use crate::error::During;

/// One piece of work: checked and written inside a transaction that others may share.
///
/// The outer error ends the transaction; what the work itself refuses is in `T` and must leave
/// nothing written.
type Work = Box<dyn FnMut(&Connection) -> Result<(), StoreError> + Send>;

enum Progress {
    Waiting,
    Leads,
    Done(Result<(), StoreError>),
}

struct Ticket {
    work: Mutex<Option<Work>>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Ticket {
    fn set(&self, progress: Progress) {
        *lock(&self.progress) = progress;
        self.changed.notify_one();
    }

    /// Waits until the work is done, or until it is this ticket's turn to lead.
    fn wait(&self) -> Option<Result<(), StoreError>> {
        let mut progress = lock(&self.progress);
        loop {
            match std::mem::replace(&mut *progress, Progress::Waiting) {
                Progress::Done(result) => return Some(result),
                Progress::Leads => return None,
                Progress::Waiting => {
                    progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Ticket>>,
    led: bool,
}

/// The database's only writing connection in this process.
pub struct Writer {
    queue: Mutex<Queue>,
    connection: Mutex<Connection>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// Takes a connection for writing.
    pub fn new(connection: Connection) -> Self {
        Self { queue: Mutex::default(), connection: Mutex::new(connection) }
    }

    /// Runs `work` in a transaction; returns once it is durable, or has failed.
    pub fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&answer);
        let ticket = Arc::new(Ticket {
            work: Mutex::new(Some(Box::new(move |connection: &Connection| {
                *lock(&slot) = Some(work(connection)?);
                Ok(())
            }))),
            progress: Mutex::new(Progress::Waiting),
            changed: Condvar::new(),
        });
        self.run(&ticket)?;
        let answer = lock(&answer).take();
        answer.ok_or_else(|| StoreError::Corrupt { reason: "a write gave no answer".to_owned() })
    }

    fn run(&self, ticket: &Arc<Ticket>) -> Result<(), StoreError> {
        let leads = {
            let mut queue = lock(&self.queue);
            queue.waiting.push(Arc::clone(ticket));
            !std::mem::replace(&mut queue.led, true)
        };
        if !leads && let Some(result) = ticket.wait() {
            return result;
        }
        let batch = std::mem::take(&mut lock(&self.queue).waiting);
        let results = self.commit(&batch);
        self.hand_over();
        let mut own = None;
        for (done, result) in batch.iter().zip(results) {
            if Arc::ptr_eq(done, ticket) {
                own = Some(result);
            } else {
                done.set(Progress::Done(result));
            }
        }
        // INVARIANT: a leader's own ticket is in the batch it takes.
        own.unwrap_or_else(|| {
            Err(StoreError::Corrupt { reason: "a writer lost its own work".to_owned() })
        })
    }

    /// Lets the first that waits lead next, if one does.
    fn hand_over(&self) {
        let mut queue = lock(&self.queue);
        match queue.waiting.first() {
            Some(first) => first.set(Progress::Leads),
            None => queue.led = false,
        }
    }

    /// Commits a batch together; if that fails, each piece of it alone, so that one piece that
    /// cannot be written does not take the others with it.
    fn commit(&self, batch: &[Arc<Ticket>]) -> Vec<Result<(), StoreError>> {
        let connection = lock(&self.connection);
        match commit_together(&connection, batch) {
            Ok(()) => batch.iter().map(|_| Ok(())).collect(),
            Err(error) if batch.len() == 1 => vec![Err(error)],
            Err(_) => batch
                .iter()
                .map(|ticket| commit_together(&connection, std::slice::from_ref(ticket)))
                .collect(),
        }
    }
}

fn commit_together(connection: &Connection, batch: &[Arc<Ticket>]) -> Result<(), StoreError> {
    fault::point("append.before");
    run(connection, "BEGIN IMMEDIATE", "begin a transaction")?;
    let result = batch
        .iter()
        .try_for_each(|ticket| match lock(&ticket.work).as_mut() {
            Some(work) => work(connection),
            None => Ok(()),
        })
        .and_then(|()| {
            fault::point("append.inside");
            run(connection, "COMMIT", "commit")
        });
    match result {
        Ok(()) => {
            fault::point("append.after");
            Ok(())
        }
        Err(error) => {
            if !connection.is_autocommit() {
                run(connection, "ROLLBACK", "roll back")?;
            }
            Err(error)
        }
    }
}

/// Runs a statement that is compiled once.
fn run(connection: &Connection, sql: &str, operation: &'static str) -> Result<(), StoreError> {
    connection.prepare_cached(sql).during(operation)?.execute([]).during(operation)?;
    Ok(())
}
