//! Keeps the index equal to the knowledge folder.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use crate::markdown::passages;
use crate::rows;
use crate::walk::{FoundFile, Walk, WalkLimits, read, walk};

/// The most files of a folder.
const FILES_MAX: usize = 20_000;
/// The most that is read of one file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// The most that is indexed at once; what is left comes next time.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// So many files are indexed in one transaction.
const BATCH_FILES: usize = 200;
/// So many bytes are indexed in one transaction.
const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// Indexes the files that are new or changed, and drops those that are gone, as far as the time allows.
/// What cannot be read, and what is left, comes next time.
pub fn refresh(connection: &mut Connection, folder: &Path, time: Duration) -> rusqlite::Result<()> {
    let now = Instant::now();
    let deadline = now.checked_add(time).unwrap_or(now);
    let name = folder.to_string_lossy().into_owned();
    let known = rows::files(connection, &name)?;
    let found = match walk(folder, WalkLimits { files_max: FILES_MAX, deadline }) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Walk { files: Vec::new(), complete: true }
        }
        // What cannot be read at this moment is not gone.
        Err(_) => Walk::default(),
    };
    let is_new = |file: &&FoundFile| {
        known
            .get(&file.path)
            .is_none_or(|(_, bytes, ns)| (*bytes, *ns) != (file.bytes, file.modified_ns))
    };
    let changed: Vec<&FoundFile> = found.files.iter().filter(is_new).collect();
    let gone: Vec<i64> = if found.complete { gone(&known, &found.files) } else { Vec::new() };
    forget(connection, &name, &gone)?;
    let mut bytes = 0;
    let mut waiting = changed.into_iter().peekable();
    while waiting.peek().is_some() && bytes < BYTES_MAX && Instant::now() < deadline {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let start = bytes;
        for file in waiting.by_ref().take(BATCH_FILES) {
            if let Some((file, text)) = read(folder, &file.path, FILE_BYTES_MAX) {
                bytes += text.len();
                rows::set_file(&transaction, &name, &file, &passages(&text))?;
            }
            if bytes - start >= BATCH_BYTES {
                break;
            }
        }
        transaction.commit()?;
    }
    Ok(())
}

type Known = HashMap<String, (i64, i64, i64)>;

/// The numbers of the files that are not there any more.
fn gone(known: &Known, found: &[FoundFile]) -> Vec<i64> {
    let is_gone = |path: &str| found.binary_search_by(|file| file.path.as_str().cmp(path)).is_err();
    known.iter().filter(|(path, _)| is_gone(path)).map(|(_, (number, ..))| *number).collect()
}

/// Drops files, and those of other folders.
fn forget(connection: &mut Connection, folder: &str, gone: &[i64]) -> rusqlite::Result<()> {
    let others = rows::has_other_folders(connection, folder)?;
    if gone.is_empty() && !others {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for number in gone {
        rows::drop_file(&transaction, *number)?;
    }
    rows::drop_other_folders(&transaction, folder)?;
    transaction.commit()
}
