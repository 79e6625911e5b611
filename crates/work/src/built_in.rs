//! The built-in tracker: one SQLite file.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use windlass_database::{DatabaseError, Format, now, open};

use crate::rows::{self, List};
use crate::{Change, Item, LABELS_MAX, LinkKind, NewItem, Prefix, Tracker, WorkError, limits};

const FORMAT: Format =
    Format { application_id: 0x574e_4457, version: 1, schema: include_str!("../schema.sql") };

/// The shortest random part of an id.
const ID_CHARACTERS_MIN: usize = 4;
/// The longest one, which is never taken already.
const ID_CHARACTERS_MAX: usize = 12;
/// How often a random part of one length is tried before a longer one.
const ID_ATTEMPTS: usize = 4;
/// How many links an item may have.
const LINKS_MAX: usize = 1000;

/// A tracker in one file. Many threads and processes may use the file at once.
#[derive(Debug)]
pub struct BuiltIn {
    connection: Mutex<Connection>,
    prefix: Prefix,
    deadline: Duration,
}

impl BuiltIn {
    /// Opens the file, or creates it where there is none. `deadline` is how long a request waits for other
    /// processes.
    ///
    /// # Errors
    /// [`WorkError`]; a file of another kind or version is refused.
    pub fn open(path: &Path, prefix: Prefix, deadline: Duration) -> Result<Self, WorkError> {
        let connection = open(path, &FORMAT, deadline)
            .map_err(|error| WorkError::of_database(error, deadline))?;
        Ok(Self { connection: Mutex::new(connection), prefix, deadline })
    }

    /// Runs statements in one transaction.
    fn transact<T>(
        &self,
        behavior: TransactionBehavior,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, Stop>,
    ) -> Result<T, WorkError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let run = || -> Result<T, Stop> {
            let transaction = connection.transaction_with_behavior(behavior)?;
            let done = act(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        run().map_err(|stop| match stop {
            Stop::Refused(error) => error,
            Stop::Failed(error) => {
                WorkError::of_database(DatabaseError::from(error), self.deadline)
            }
        })
    }

    fn list(&self, list: List<'_>, limit: usize) -> Result<Vec<Item>, WorkError> {
        self.transact(TransactionBehavior::Deferred, |transaction| {
            Ok(rows::list(transaction, list, limit)?)
        })
    }

    /// Changes one item that is there, and returns it.
    fn change(
        &self,
        id: &str,
        act: impl FnOnce(&Transaction<'_>) -> Result<(), Stop>,
    ) -> Result<Item, WorkError> {
        limits::check_id(id)?;
        self.transact(TransactionBehavior::Immediate, |transaction| {
            find(transaction, id)?;
            act(transaction)?;
            find(transaction, id)
        })
    }
}

/// Why a transaction is given up.
enum Stop {
    Refused(WorkError),
    Failed(rusqlite::Error),
}

impl From<WorkError> for Stop {
    fn from(error: WorkError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

fn find(transaction: &Transaction<'_>, id: &str) -> Result<Item, Stop> {
    let missing = || Stop::Refused(WorkError::NotFound { id: id.to_owned() });
    rows::find(transaction, id)?.ok_or_else(missing)
}

fn set_labels(
    transaction: &Transaction<'_>,
    id: &str,
    added: &[String],
    removed: &[String],
) -> Result<(), Stop> {
    if rows::set_labels(transaction, id, added, removed)? > LABELS_MAX {
        return Err(WorkError::invalid(format!("an item has at most {LABELS_MAX} labels")).into());
    }
    Ok(())
}

impl Tracker for BuiltIn {
    fn name(&self) -> &'static str {
        "built-in"
    }

    fn open(&self, limit: usize) -> Result<Vec<Item>, WorkError> {
        self.list(List::Open, limit)
    }

    fn assigned(&self, to: &str, limit: usize) -> Result<Vec<Item>, WorkError> {
        limits::assignee(to)?;
        self.list(List::Assigned(to), limit)
    }

    fn blocked(&self, limit: usize) -> Result<Vec<Item>, WorkError> {
        self.list(List::Blocked, limit)
    }

    fn recent(&self, limit: usize) -> Result<Vec<Item>, WorkError> {
        self.list(List::Recent, limit)
    }

    fn show(&self, id: &str) -> Result<Item, WorkError> {
        limits::check_id(id)?;
        self.transact(TransactionBehavior::Deferred, |transaction| find(transaction, id))
    }

    fn create(&self, new: &NewItem) -> Result<Item, WorkError> {
        limits::check_new(new)?;
        self.transact(TransactionBehavior::Immediate, |transaction| {
            let time = now().to_string();
            for characters in ID_CHARACTERS_MIN..=ID_CHARACTERS_MAX {
                for _ in 0..ID_ATTEMPTS {
                    let id = self.prefix.new_id(characters)?;
                    if rows::insert(transaction, &id, new, &time)? {
                        set_labels(transaction, &id, &new.labels, &[])?;
                        return find(transaction, &id);
                    }
                }
            }
            Err(WorkError::unavailable("no id is free").into())
        })
    }

    fn update(&self, id: &str, change: &Change) -> Result<Item, WorkError> {
        limits::check_change(change)?;
        self.change(id, |transaction| {
            rows::change(transaction, id, change, &now().to_string())?;
            set_labels(transaction, id, &change.labels_added, &change.labels_removed)
        })
    }

    fn close(&self, id: &str, reason: &str) -> Result<Item, WorkError> {
        limits::check_reason(reason)?;
        self.change(id, |transaction| Ok(rows::close(transaction, id, reason, &now().to_string())?))
    }

    fn link(&self, from: &str, to: &str, kind: LinkKind) -> Result<(), WorkError> {
        limits::check_id(from)?;
        limits::check_id(to)?;
        if from == to {
            return Err(WorkError::invalid("an item is not linked to itself"));
        }
        // A relation has no direction, and is kept once.
        let (from, to) = match kind {
            LinkKind::Related if from > to => (to, from),
            LinkKind::Related | LinkKind::Blocks | LinkKind::Parent => (from, to),
        };
        self.transact(TransactionBehavior::Immediate, |transaction| {
            find(transaction, from)?;
            find(transaction, to)?;
            check_link(transaction, from, to, kind)?;
            if rows::insert_link(transaction, from, to, kind)? {
                let time = now().to_string();
                rows::touch(transaction, from, &time)?;
                rows::touch(transaction, to, &time)?;
                for id in [from, to] {
                    if rows::link_count(transaction, id)? > LINKS_MAX {
                        let reason = format!("an item has at most {LINKS_MAX} links");
                        return Err(WorkError::invalid(reason).into());
                    }
                }
            }
            Ok(())
        })
    }

    fn sync(&self) -> Result<String, WorkError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|error| WorkError::of_database(error.into(), self.deadline))?;
        Ok("the built-in tracker is a local file: there is nothing to exchange".to_owned())
    }
}

/// Refuses cycles, and a second parent.
fn check_link(
    transaction: &Transaction<'_>,
    from: &str,
    to: &str,
    kind: LinkKind,
) -> Result<(), Stop> {
    let what = match kind {
        LinkKind::Related => return Ok(()),
        LinkKind::Blocks => "block",
        LinkKind::Parent => {
            if let Some(parent) =
                rows::parent(transaction, to)?.filter(|parent| parent.as_str() != from)
            {
                let reason = format!("`{to}` has the parent `{parent}`");
                return Err(WorkError::invalid(reason).into());
            }
            "contain"
        }
    };
    if rows::reaches(transaction, from, to, kind)? {
        let reason = format!("`{from}` and `{to}` would {what} each other");
        return Err(WorkError::invalid(reason).into());
    }
    Ok(())
}
