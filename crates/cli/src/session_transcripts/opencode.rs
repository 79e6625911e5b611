//! The sessions in OpenCode's databases. They are read and never written, not even their locks, while OpenCode may be
//! running; and an agent may have changed them, so that nothing in them is trusted to be as the client makes it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use windlass_hooks::{OPENCODE_DATA, OpenCodeReader, TRANSCRIPT_BYTES_MAX, Transcript};

use super::Search;
use crate::client_file::folder_of;

/// The variable that names another database.
const VARIABLE: &str = "OPENCODE_DB";
/// The most databases that are read: one for each channel of versions.
const DATABASES_MAX: usize = 16;
/// The most sessions of a database that are read, those that changed last.
const SESSIONS_MAX: usize = 500;
/// The most parts of a session that are read.
const PARTS_MAX: usize = 100_000;
/// The longest part that is read.
const PART_BYTES_MAX: usize = 32 << 20;
/// The most sessions that one is inside of.
const DEPTH_MAX: usize = 32;
/// How long a database is read.
const TIME_MAX: Duration = Duration::from_secs(5);
/// How many steps of SQLite's machine are between two looks at the clock.
const STEPS: i32 = 10_000;

/// Both are tables, and nothing that computes rows.
const TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' \
    AND name IN ('part', 'session') AND sql LIKE 'CREATE TABLE %'";
/// The sessions that changed last.
const SESSIONS: &str = "SELECT id, directory FROM session WHERE time_updated >= ?1 \
    ORDER BY time_updated DESC, id LIMIT ?2";
/// The session that started one.
const PARENT: &str = "SELECT parent_id FROM session WHERE id = ?1";
/// The parts of a session that may be uses of tools, in the order in which they were made.
const PARTS: &str = "SELECT CASE WHEN octet_length(data) <= ?3 THEN data END FROM part \
    WHERE session_id = ?1 AND time_created >= ?2 \
    AND (octet_length(data) > ?3 OR instr(data, '\"tool\"') > 0) ORDER BY rowid LIMIT ?4";

/// Which sessions are looked for. Those of subagents belong to the one that was asked for.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    /// All that began in a folder or below.
    In(&'a Path),
    /// One session.
    Session(&'a str),
}

/// The uses of tools since a time, by session.
pub fn find(wanted: Wanted<'_>, since: SystemTime) -> Search {
    let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let mut search = Search::default();
    for path in databases() {
        let read = read(&path, wanted, since, &mut search);
        search.is_incomplete |= read.is_err();
    }
    search
}

/// The databases there are.
fn databases() -> Vec<PathBuf> {
    let Ok(folder) = folder_of(OPENCODE_DATA, Path::new("/")) else { return Vec::new() };
    let is_one = |name: &str| name.starts_with("opencode") && name.ends_with(".db");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_one))
        .map(|entry| entry.path())
        .collect();
    found.extend(std::env::var_os(VARIABLE).map(|named| folder.join(named)));
    found.sort();
    found.dedup();
    // Opening a pipe would wait for ever.
    found.retain(|path| path.is_file());
    found.truncate(DATABASES_MAX);
    found
}

/// Adds the sessions of one database.
fn read(
    path: &Path,
    wanted: Wanted<'_>,
    since: i64,
    search: &mut Search,
) -> Result<(), rusqlite::Error> {
    let (mut database, is_whole) = open(path)?;
    search.is_incomplete |= !is_whole;
    // All is read as it is at one moment.
    let database = database.transaction()?;
    let limit = i64::try_from(SESSIONS_MAX).unwrap_or(i64::MAX);
    let mut statement = database.prepare(SESSIONS)?;
    let sessions = statement.query_map((since, limit), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let sessions: Vec<(String, String)> = sessions.collect::<Result<_, _>>()?;
    search.is_incomplete |= sessions.len() == SESSIONS_MAX;
    let mut bytes_left = TRANSCRIPT_BYTES_MAX;
    for (id, folder) in &sessions {
        let chain = chain(&database, id)?;
        let owner = match wanted {
            Wanted::In(root) if Path::new(folder).starts_with(root) => chain.last(),
            Wanted::In(_) => None,
            Wanted::Session(wanted) => chain.iter().find(|one| *one == wanted),
        };
        if let Some(owner) = owner {
            let reader = OpenCodeReader::new(id, folder, chain.len() > 1);
            let transcript = parts(&database, id, since, reader, &mut bytes_left)?;
            search.add(owner, transcript);
        }
    }
    Ok(())
}

/// Opens a database without changing anything in its folder; says whether all of it can be seen.
fn open(path: &Path) -> Result<(Connection, bool), rusqlite::Error> {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    // A client that has ended properly leaves nothing but the database itself; else its last writes are in the log.
    let has_log = beside("-wal").metadata().is_ok_and(|log| log.len() > 0);
    if has_log || beside("-shm").exists() {
        match open_with(path, "mode=ro&readonly_shm=1") {
            Ok(database) => return Ok((database, true)),
            // The log cannot be read without files that are not there.
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error),
        }
        return Ok((open_with(path, "immutable=1")?, false));
    }
    Ok((open_with(path, "immutable=1")?, true))
}

fn is_missing(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    code == Some(rusqlite::ErrorCode::CannotOpen) || code == Some(rusqlite::ErrorCode::ReadOnly)
}

fn open_with(path: &Path, how: &str) -> Result<Connection, rusqlite::Error> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let name: String = bytes
        .map(
            |byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") },
        )
        .collect();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(format!("file:{name}?{how}"), flags)?;
    let end = Instant::now().checked_add(TIME_MAX);
    let is_late = move || end.is_none_or(|end| Instant::now() >= end);
    database.progress_handler(STEPS, Some(is_late))?;
    database.busy_timeout(Duration::from_millis(500))?;
    database.execute_batch(
        "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; \
         PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;",
    )?;
    let tables: i64 = database.query_row(TABLES, [], |row| row.get(0))?;
    if tables == 2 { Ok(database) } else { Err(rusqlite::Error::QueryReturnedNoRows) }
}

/// A session and those that it is inside of, innermost first.
fn chain(database: &Connection, id: &str) -> Result<Vec<String>, rusqlite::Error> {
    let mut statement = database.prepare_cached(PARENT)?;
    let mut chain = vec![id.to_owned()];
    while let Some(last) = chain.last()
        && chain.len() < DEPTH_MAX
    {
        let parent: Option<Option<String>> =
            statement.query_row([last], |row| row.get(0)).optional()?;
        match parent.flatten() {
            Some(parent) if !chain.contains(&parent) => chain.push(parent),
            Some(_) | None => break,
        }
    }
    Ok(chain)
}

/// Reads the parts of a session.
fn parts(
    database: &Connection,
    id: &str,
    since: i64,
    mut reader: OpenCodeReader,
    bytes_left: &mut usize,
) -> Result<Transcript, rusqlite::Error> {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let mut statement = database.prepare_cached(PARTS)?;
    let mut rows = statement.query((id, since, number(PART_BYTES_MAX), number(PARTS_MAX)))?;
    let mut count = 0_usize;
    while let Some(row) = rows.next()? {
        count = count.saturating_add(1);
        let text = match row.get_ref(0)? {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => None,
        };
        match text {
            Some(text) if text.len() <= *bytes_left => {
                *bytes_left = bytes_left.saturating_sub(text.len());
                reader.part(text);
            }
            Some(_) | None => reader.skip(),
        }
    }
    if count == PARTS_MAX {
        reader.skip();
    }
    Ok(reader.finish())
}
