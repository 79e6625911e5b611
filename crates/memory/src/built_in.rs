//! The built-in memory: one SQLite file with a full-text index.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use sha2::{Digest as _, Sha256};
use windlass_database::{Format, now, open};

use crate::query::{match_expression, normalise};
use crate::{Hit, Memory, MemoryError, NewMemory, index, rows};

const FORMAT: Format =
    Format { application_id: 0x574e_444d, version: 1, schema: include_str!("../schema.sql") };
/// After so many steps of a statement SQLite looks at the time.
const STEPS: i32 = 10_000;
/// How many bytes of a digest an id has.
const ID_BYTES: usize = 8;
/// The most that one request finds.
const HITS_MAX: usize = 1000;

/// The settings of a built-in memory.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A folder of Markdown files that is searched, too. It needs not exist.
    pub knowledge: Option<PathBuf>,
    /// How long a request may take. The first half of it may go to indexing.
    pub deadline: Duration,
}

/// A memory in one file. Many threads and processes may use the file at once.
#[derive(Debug)]
pub struct BuiltIn {
    connection: Mutex<Connection>,
    settings: Settings,
}

impl BuiltIn {
    /// Opens the file, or creates it where there is none.
    ///
    /// # Errors
    /// [`MemoryError`]; a file of another kind or version is refused.
    pub fn open(path: &Path, settings: Settings) -> Result<Self, MemoryError> {
        let connection = open(path, &FORMAT, settings.deadline)
            .map_err(|error| MemoryError::of_database(error, settings.deadline))?;
        Ok(Self { connection: Mutex::new(connection), settings })
    }

    /// The connection, whose statements are interrupted at the deadline.
    fn connection(&self) -> Result<MutexGuard<'_, Connection>, MemoryError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now().checked_add(self.settings.deadline);
        let late = move || end.is_some_and(|end| Instant::now() >= end);
        connection
            .progress_handler(STEPS, Some(late))
            .and_then(|()| connection.busy_timeout(self.settings.deadline))
            .map_err(|error| self.failed(error))?;
        Ok(connection)
    }

    fn failed(&self, error: rusqlite::Error) -> MemoryError {
        MemoryError::of_statement(error, self.settings.deadline)
    }
}

/// The id of a memory: the same for the same text.
fn id(text: &str) -> String {
    let digest = Sha256::digest(normalise(text));
    let digits = digest.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}"));
    format!("m-{}", digits.collect::<String>())
}

impl Memory for BuiltIn {
    fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<Hit>, MemoryError> {
        let mut connection = self.connection()?;
        if let Some(folder) = &self.settings.knowledge {
            let time = self.settings.deadline / 2;
            // The other half is for the search.
            let refreshed = connection
                .busy_timeout(time)
                .and_then(|()| index::refresh(&mut connection, folder, time));
            match refreshed.map_err(|error| self.failed(error)) {
                // Another process indexes it at this moment, and an old index is better than none.
                Ok(()) | Err(MemoryError::DeadlinePassed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        drop(connection);
        let expression = match_expression(query);
        if expression.is_none() && !query.trim().is_empty() {
            return Ok(Vec::new());
        }
        let connection = self.connection()?;
        rows::find(&connection, expression.as_deref(), limit.min(HITS_MAX))
            .map_err(|error| self.failed(error))
    }

    fn store(&self, new: &NewMemory) -> Result<String, MemoryError> {
        new.check()?;
        let id = id(&new.text);
        let mut connection = self.connection()?;
        let mut stored = || -> rusqlite::Result<()> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            rows::store(&transaction, &id, new, &now().to_string())?;
            transaction.commit()
        };
        stored().map_err(|error| self.failed(error))?;
        Ok(id)
    }
}
