//! The queue of processes that live for a moment. SQLite waits for another process by trying again, later and later;
//! one of many would try often and in vain.

use std::fs::{File, OpenOptions};
use std::path::Path;

use windlass_store::StoreError;

use crate::sql::Context as _;

/// The lock file whose holder may write.
pub struct Turns(File);

/// The turn of this process; the next one's begins when it is dropped.
pub struct Turn<'a>(&'a File);

impl Turns {
    /// Opens the lock file beside a database.
    pub fn open(database: &Path) -> Result<Self, StoreError> {
        let mut path = database.as_os_str().to_owned();
        path.push(".turn");
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self(file.context("open its queue")?))
    }

    /// Waits for the turn of this process.
    pub fn wait(&self) -> Result<Turn<'_>, StoreError> {
        self.0.lock().context("wait in its queue")?;
        Ok(Turn(&self.0))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Closing the file would do it, too.
        drop(self.0.unlock());
    }
}
