//! A copy of a journal that cannot be written to, so that it can be read and verified: SQLite reads no write-ahead log
//! without writing beside it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use windlass_kernel::Code;
use windlass_store_sqlite::{Settings, SqliteStore};
use windlass_workspace::{TemporaryFolder, TemporaryUse, sweep_temporary_folders};

use crate::failure::Failure;
use crate::input;
use crate::scratch::no_folder;

/// How often the copy is made again, if somebody writes to the journal meanwhile.
const TRIES_MAX: usize = 5;

/// A journal that is only read.
pub struct JournalCopy {
    /// The store on the copy. It is closed before the folder is removed.
    pub store: SqliteStore,
    /// The folder of the copy, which is removed with this.
    pub folder: TemporaryFolder,
}

impl JournalCopy {
    /// Copies a journal with its write-ahead log and head file, and opens the copy.
    pub fn new(journal: &Path, settings: Settings) -> Result<Self, Failure> {
        sweep_temporary_folders();
        let folder =
            TemporaryFolder::new(TemporaryUse::Journal).map_err(|error| no_folder(&error))?;
        let log = beside(journal, "-wal");
        let copy = folder.path().join("windlass.db");
        for _ in 0..TRIES_MAX {
            let stamps = || [journal, &log].map(|path| path.metadata().ok().map(|of| stamp(&of)));
            let before = stamps();
            copy_file(journal, &copy)?;
            if log.exists() {
                copy_file(&log, &beside(&copy, "-wal"))?;
            }
            let head = beside(journal, ".head");
            if head.exists() {
                copy_file(&head, &beside(&copy, ".head"))?;
            }
            if stamps() == before {
                let store = SqliteStore::open(&copy, settings)?;
                return Ok(Self { store, folder });
            }
        }
        let message = format!("the journal `{}` changes all the time", journal.display());
        Err(Failure::new(Code::StoreUnavailable, message).hint("wait until nobody writes to it"))
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// What differs if a file is written to.
fn stamp(found: &Metadata) -> (u64, u64, i64, i64) {
    (found.ino(), found.len(), found.mtime(), found.mtime_nsec())
}

fn copy_file(from: &Path, to: &Path) -> Result<(), Failure> {
    let mut source = input::open(from)?;
    let copied = File::create(to).and_then(|mut target| io::copy(&mut source, &mut target));
    copied.map(drop).map_err(|error| {
        let message = format!("`{}` cannot be copied: {error}", from.display());
        Failure::new(Code::FileUnwritable, message)
    })
}
