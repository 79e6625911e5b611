//! Group commit: one transaction, and one sync, for all callers that wait.
//!
//! One caller at a time is the leader. A caller that finds no leader becomes one and commits its own
//! work on its own thread, so that a single caller pays no thread switch. Others queue up meanwhile. The
//! leader then commits their work, group by group, and after [`GROUPS_MAX`] groups hands the lead to the
//! first caller in the queue, so that it can return.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use windlass_store::StoreError;

use crate::open::Settings;
use crate::types::lock;
use crate::unindexed::UnindexedTraces;
use crate::write_connection::{Disk, WriteConnection, WriteTransaction};

/// How many groups a leader commits for others.
const GROUPS_MAX: usize = 16;

/// Work inside a transaction that others may share. An error rolls the transaction back; then each
/// piece of work is tried alone, so it may run twice. A refusal is no error, and must write nothing.
type Work = Box<dyn FnMut(&WriteTransaction<'_>) -> Result<(), StoreError> + Send>;

/// The work of a caller that waits.
struct Job {
    work: Mutex<Option<Work>>,
    signal: Mutex<Option<Signal>>,
    signalled: Condvar,
}

/// What a waiting caller is woken for.
enum Signal {
    /// To be the leader.
    Lead,
    /// Its work is committed, or has failed.
    Done(Result<(), StoreError>),
}

impl Job {
    fn run(&self, transaction: &WriteTransaction<'_>) -> Result<(), StoreError> {
        lock(&self.work).as_mut().map_or(Ok(()), |work| work(transaction))
    }

    fn signal(&self, signal: Signal) {
        *lock(&self.signal) = Some(signal);
        self.signalled.notify_one();
    }

    fn wait(&self) -> Signal {
        let mut signal = lock(&self.signal);
        loop {
            match signal.take() {
                Some(signal) => return signal,
                None => {
                    signal = self.signalled.wait(signal).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Job>>,
    /// Whether there is a leader.
    led: bool,
}

/// Commits the work of all callers through one connection.
pub struct GroupCommit {
    queue: Mutex<Queue>,
    connection: Mutex<WriteConnection>,
}

impl GroupCommit {
    pub fn new(
        connection: Connection,
        settings: Settings,
        disk: Option<Disk>,
    ) -> Result<Self, StoreError> {
        let connection = Mutex::new(WriteConnection::new(connection, settings, disk)?);
        Ok(Self { queue: Mutex::default(), connection })
    }

    pub fn unindexed(&self) -> Arc<Mutex<UnindexedTraces>> {
        lock(&self.connection).unindexed()
    }

    /// Indexes the unindexed traces, if no other process writes.
    pub fn close(&self) {
        lock(&self.connection).close();
    }

    /// The connection, to read with it, unless it is in use.
    pub fn idle(&self) -> Option<MutexGuard<'_, WriteConnection>> {
        self.connection.try_lock().ok()
    }

    /// Runs `work` in a transaction; returns once it is durable, or has failed.
    pub fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&WriteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut queue = lock(&self.queue);
        if !std::mem::replace(&mut queue.led, true) {
            drop(queue);
            let mut answer = None;
            let result = self.commit(|transaction| {
                answer = Some(work(transaction)?);
                Ok(())
            });
            self.lead();
            return result.and_then(|()| answer.ok_or_else(unanswered));
        }
        let answer = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&answer);
        let job = Arc::new(Job {
            work: Mutex::new(Some(Box::new(move |transaction: &WriteTransaction<'_>| {
                *lock(&slot) = Some(work(transaction)?);
                Ok(())
            }))),
            signal: Mutex::new(None),
            signalled: Condvar::new(),
        });
        queue.waiting.push(Arc::clone(&job));
        drop(queue);
        let result = loop {
            match job.wait() {
                Signal::Lead => self.lead(),
                Signal::Done(result) => break result,
            }
        };
        // The leader may still hold the job: the memory of its work is freed by the thread that
        // allocated it.
        drop(lock(&job.work).take());
        result?;
        lock(&answer).take().ok_or_else(unanswered)
    }

    fn commit(
        &self,
        work: impl FnOnce(&WriteTransaction<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        lock(&self.connection).commit(work)
    }

    /// Commits the work of others until nobody waits, or somebody else is to lead.
    fn lead(&self) {
        for _ in 0..GROUPS_MAX {
            lock(&self.connection).checkpoint_wal();
            let mut queue = lock(&self.queue);
            let group = std::mem::take(&mut queue.waiting);
            queue.led = !group.is_empty();
            drop(queue);
            if group.is_empty() {
                return;
            }
            let results = self.commit_group(&group);
            for (job, result) in group.iter().zip(results) {
                job.signal(Signal::Done(result));
            }
        }
        let mut queue = lock(&self.queue);
        match queue.waiting.first() {
            Some(next) => next.signal(Signal::Lead),
            None => queue.led = false,
        }
    }

    /// Commits a group together. If that fails, commits each piece of work alone, so that one that
    /// cannot be written does not fail the others.
    fn commit_group(&self, group: &[Arc<Job>]) -> Vec<Result<(), StoreError>> {
        let together =
            self.commit(|transaction| group.iter().try_for_each(|job| job.run(transaction)));
        match together {
            Ok(()) => group.iter().map(|_| Ok(())).collect(),
            Err(error) if group.len() == 1 => vec![Err(error)],
            Err(_) => {
                group.iter().map(|job| self.commit(|transaction| job.run(transaction))).collect()
            }
        }
    }
}

fn unanswered() -> StoreError {
    StoreError::Corrupt { reason: "a write gave no answer".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{execute, query_value};

    /// Many callers at once, some of which panic: each gets its own answer.
    #[test]
    fn work_that_panics_fails_alone_and_nobody_waits_forever() {
        let connection = Connection::open_in_memory().unwrap();
        crate::open::create(&connection).unwrap();
        connection.execute_batch("CREATE TABLE log (id INTEGER PRIMARY KEY)").unwrap();
        let writer = GroupCommit::new(connection, Settings::default(), None).unwrap();
        let results: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..32)
                .map(|number| {
                    let writer = &writer;
                    scope.spawn(move || {
                        let result = writer.write(move |transaction| {
                            assert!(number % 8 != 3, "planted");
                            let sql = "INSERT INTO log VALUES (?1)";
                            execute(transaction.connection, "insert", sql, [number])
                        });
                        result.is_ok()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let expected: Vec<bool> = (0..32).map(|number| number % 8 != 3).collect();
        assert_eq!(results, expected);
        let count: i64 = writer
            .write(|transaction| {
                query_value(transaction.connection, "count", "SELECT count(*) FROM log", [])
            })
            .unwrap();
        assert_eq!(count, 28);
    }
}
