//! The rate of SQLite itself on this machine: commits of one row, nothing else.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use rusqlite::{Connection, params};

use crate::{Rate, process};

/// The rate of calls if each only made these commits, of one row with so many bytes, and `shared` calls
/// shared each commit.
pub fn rate(folder: &Path, commits: &[usize], shared: u32, seconds: f64) -> Result<Rate> {
    let started = Instant::now();
    make(folder, commits, shared, |_| started.elapsed().as_secs_f64() < seconds)
}

/// The same for a fixed number of calls, for a profiler.
pub fn count(folder: &Path, commits: &[usize], calls: u32) -> Result<Rate> {
    make(folder, commits, 1, |made| made < calls)
}

/// Makes calls as long as `more` returns true for their number.
fn make(folder: &Path, commits: &[usize], shared: u32, more: impl Fn(u32) -> bool) -> Result<Rate> {
    let path = folder.join("raw.db");
    let connection = Connection::open(&path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE log (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT",
    )?;
    let rows: Vec<Vec<u8>> = commits.iter().map(|bytes| vec![b'x'; *bytes]).collect();
    let mut insert = connection.prepare("INSERT INTO log (body) VALUES (?1)")?;
    let mut begin = connection.prepare("BEGIN IMMEDIATE")?;
    let mut commit = connection.prepare("COMMIT")?;
    let (started, cpu) = (Instant::now(), process::cpu_seconds()?);
    let mut calls = 0_u32;
    while more(calls) {
        for row in &rows {
            // A single row needs no explicit transaction.
            if shared == 1 {
                insert.execute(params![row])?;
                continue;
            }
            begin.execute([])?;
            for _ in 0..shared {
                insert.execute(params![row])?;
            }
            commit.execute([])?;
        }
        calls += shared;
    }
    // The checkpoint of the log when it is closed does not count: Windlass leaves it to the next opening.
    let rate = Rate::new(calls, started, cpu)?;
    drop((insert, begin, commit));
    drop(connection);
    crate::remove(&path);
    Ok(rate)
}
