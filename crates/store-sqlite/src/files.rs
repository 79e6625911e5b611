//! The files that a process has opened, compared with those at their paths: what was removed or replaced while
//! it was in use is noticed before anything is committed to it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use windlass_store::StoreError;

use crate::sql::Context as _;

/// A file at a path.
#[derive(Clone, Debug)]
pub struct KnownFile {
    name: &'static str,
    path: PathBuf,
    /// Its device and inode.
    id: (u64, u64),
}

impl KnownFile {
    pub fn new(name: &'static str, path: PathBuf, found: &Metadata) -> Self {
        Self { name, path, id: (found.dev(), found.ino()) }
    }

    /// The file that is at a path now.
    pub fn at(name: &'static str, path: PathBuf) -> Result<Self, StoreError> {
        let found = std::fs::metadata(&path).context("look at its files")?;
        Ok(Self::new(name, path, &found))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_there(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.id)
    }

    /// Fails if the path has no file or another one.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.is_there() { Ok(()) } else { Err(StoreError::Displaced { file: self.name }) }
    }
}

/// The files of an open database.
#[derive(Clone, Debug)]
pub struct DatabaseFiles {
    pub database: KnownFile,
    log: KnownFile,
}

impl DatabaseFiles {
    /// The files of a database that was opened with its write-ahead log. `before` is what was at its path
    /// before.
    pub fn new(path: &Path, before: Option<KnownFile>) -> Result<Self, StoreError> {
        let database = match before {
            Some(before) => before,
            None => KnownFile::at("database", path.to_owned())?,
        };
        database.check()?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Ok(Self { database, log: KnownFile::at("write-ahead log", log.into())? })
    }

    pub fn check(&self) -> Result<(), StoreError> {
        self.database.check()?;
        self.log.check()
    }

    /// The size of the write-ahead log; 0 if it cannot be found out.
    pub fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.log.path()).map_or(0, |found| found.len())
    }
}
