//! Opening a database: settings, format, schema.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use rustix::fs::Access;
use rustix::io::Errno;
use windlass_store::StoreError;

use crate::files::{DatabaseFiles, KnownFile};
use crate::head_file::{self, Head, HeadFile, Slots};
use crate::liveness::random_id;
use crate::progress::Progress;
use crate::sql::{Context as _, query_value};

/// The schema of a database. It sets the application id and the format as well.
pub const SCHEMA: &str = concat!(
    include_str!("../schema.sql"),
    include_str!("../counts.sql"),
    include_str!("../indexes.sql")
);

/// The parts of the schema that earlier stores of this format do not have, each with the name of one of its objects.
const ADDED: [(&str, &str); 2] = [
    (
        "trace_counts",
        concat!(
            include_str!("../counts.sql"),
            "INSERT INTO trace_counts
                SELECT state, count(*), sum(last_sequence_number) FROM traces GROUP BY state;"
        ),
    ),
    (
        "traces_held",
        concat!("DROP INDEX IF EXISTS traces_ended_runs;", include_str!("../indexes.sql")),
    ),
];

/// The format that this version reads and writes.
pub const FORMAT: i64 = 1;

/// The application id in the file of a store ("WNDL").
const APPLICATION_ID: i64 = 0x574e_444c;

/// The settings of a store.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long to wait for another process's transaction.
    pub busy_timeout: Duration,
    /// At so many pages the write-ahead log is checkpointed.
    pub wal_pages: u32,
    /// At so many unindexed traces the older half is indexed.
    pub unindexed_max: usize,
    /// How long the process lives.
    pub life: Life,
}

/// How long the process of a store lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// For any time. It reads beside its writes, and indexes when it closes the store.
    #[default]
    Long,
    /// For a moment, as one of many. It has one connection, takes its turn in a queue instead of trying again and again,
    /// and leaves indexing to those that find much to index. Waiting in the queue has no end: the process must have a
    /// deadline of its own.
    Moment,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(30),
            wal_pages: 1000,
            // The more are indexed together, the more share a page; but another process that reads
            // must replay all that are unindexed: 9 ms for so many, and a call writes a twentieth more pages
            // than with eight times as many.
            unindexed_max: 256,
            life: Life::Long,
        }
    }
}

/// The shortest file that can be a database: one page of the smallest size.
const DATABASE_BYTES_MIN: u64 = 512;

/// An open database.
pub struct Opened {
    pub connection: Connection,
    pub head: HeadFile,
    /// The length of its write-ahead log, in pages.
    pub wal_pages: u32,
    pub files: DatabaseFiles,
}

/// Opens a database and its head file, or creates them where there is no database.
pub fn open(path: &Path, settings: Settings, witness: Option<&Path>) -> Result<Opened, StoreError> {
    // Before the database: what others commit meanwhile is in the database, and not in what was read.
    let head_path = head_file::path_of(path);
    let head = head_file::read(&head_path)?;
    let seen = witness.map(head_file::read).transpose()?.flatten();
    // SQLite treats a file that is too short as an empty one, and would overwrite it.
    let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
    if path.is_file() && (1..DATABASE_BYTES_MIN).contains(&bytes) {
        let reason = format!("its file has {bytes} bytes, too few for a database");
        return Err(StoreError::Corrupt { reason });
    }
    // Checked before SQLite creates files beside it.
    if is_write_protected(path) {
        return Err(StoreError::ReadOnly { operation: "open its file" });
    }
    if let (0, Some(head)) = (bytes, head.or(seen)) {
        return Err(truncated(&head, 0));
    }
    let before = KnownFile::at("database", path.to_owned()).ok();
    let mut connection = open_database(path, settings).map_err(|error| explain(path, error))?;
    let present = check_position(&connection, head, seen)?;
    // Not before it is known that nothing is missing: what was written before must not be overwritten.
    complete_schema(&mut connection)?;
    let files = DatabaseFiles::new(path, before)?;
    let own = Slots::open(&head_path, head, present)?;
    let second = witness.map(|witness| Slots::open(witness, seen, present)).transpose()?;
    let file = HeadFile::new(own, second);
    if head.is_some_and(|head| head.wal_pages >= settings.wal_pages) {
        fold(&connection);
    }
    Ok(Opened { connection, head: file, wal_pages: present.wal_pages, files })
}

/// Compares the position of a store with that of its head file, and with what its witness has seen.
fn check_position(
    connection: &Connection,
    head: Option<Head>,
    seen: Option<Head>,
) -> Result<Head, StoreError> {
    let snapshot = connection.unchecked_transaction().context("read its position")?;
    let progress = Progress::load(&snapshot)?;
    let position = progress.position(&snapshot)?;
    snapshot.commit().context("read its position")?;
    let others = [
        (head, "its head file belongs to another journal"),
        (seen, "it is not the journal that was here before"),
    ];
    for (known, reason) in others {
        match known {
            Some(known) if known.store != progress.store => {
                return Err(StoreError::Truncated { reason: reason.to_owned() });
            }
            Some(known) if known.position > position => return Err(truncated(&known, position)),
            Some(_) | None => {}
        }
    }
    let wal_pages = head.map_or(0, |head| head.wal_pages);
    Ok(Head { position, wal_pages, store: progress.store })
}

fn truncated(head: &Head, found: i64) -> StoreError {
    let lost = head.position.saturating_sub(found);
    let reason = format!("{lost} of {} writes are missing", head.position);
    StoreError::Truncated { reason }
}

/// Checkpoints a write-ahead log that earlier processes left long. If that fails, the log stays as it is.
fn fold(connection: &Connection) {
    let folded = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    drop(folded);
}

/// Finds the cause if a file cannot be opened: SQLite has one code for all causes.
fn explain(path: &Path, error: StoreError) -> StoreError {
    let StoreError::Unavailable { operation, source } = &error else { return error };
    let code = source.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
    if code != Some(ErrorCode::CannotOpen) {
        return error;
    }
    if path.is_dir() {
        return StoreError::Corrupt { reason: "its path is a folder".to_owned() };
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if is_write_protected(folder.unwrap_or(Path::new("."))) {
        return StoreError::ReadOnly { operation };
    }
    error
}

/// Checks without opening the file: to close it would release the locks that this process has on it.
fn is_write_protected(path: &Path) -> bool {
    let access = rustix::fs::access(path, Access::WRITE_OK);
    matches!(access, Err(Errno::ACCESS | Errno::ROFS | Errno::PERM))
}

fn open_database(path: &Path, settings: Settings) -> Result<Connection, StoreError> {
    let mut connection = connect(path, settings, Missing::IsCreated)?;
    // In one transaction: another process may create the schema between two queries.
    let snapshot = connection.transaction().context("read its format")?;
    let format = check_format(&snapshot)?;
    snapshot.commit().context("read its format")?;
    if format == Format::Empty {
        create_schema(&mut connection)?;
    }
    let mode = switch_to_wal(&connection, settings).context("switch on its write-ahead log")?;
    if mode != "wal" {
        return Err(StoreError::Corrupt { reason: format!("its journal mode stays `{mode}`") });
    }
    Ok(connection)
}

/// Switches the write-ahead log on, and returns the journal mode. SQLite does not wait for processes that
/// do the same at this moment, so this function waits.
fn switch_to_wal(connection: &Connection, settings: Settings) -> rusqlite::Result<String> {
    let started = Instant::now();
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && started.elapsed() < settings.busy_timeout =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            mode => return mode,
        }
    }
}

/// What happens if there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    IsCreated,
    Fails,
}

/// Opens a connection to a database.
pub fn connect(
    path: &Path,
    settings: Settings,
    missing: Missing,
) -> Result<Connection, StoreError> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    match missing {
        Missing::IsCreated => flags |= OpenFlags::SQLITE_OPEN_CREATE,
        Missing::Fails => {}
    }
    let connection = Connection::open_with_flags(path, flags).context("open its file")?;
    connection.busy_timeout(settings.busy_timeout).context("set its time-out")?;
    // A process that lives for one call must not pay for a checkpoint.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .context("set its closing")?;
    // Query plans do not depend on bound values, so that no statement is compiled again.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .context("set its plans")?;
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA foreign_keys = ON;
             PRAGMA trusted_schema = OFF;",
        )
        .context("set its durability")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// What a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Nothing yet.
    Empty,
    /// A store of this format.
    Current,
}

/// Reads the format, and refuses whatever is not a store of this format.
fn check_format(connection: &Connection) -> Result<Format, StoreError> {
    let query = |sql: &str| -> Result<i64, StoreError> {
        connection.query_row(sql, [], |row| row.get(0)).context("read its format")
    };
    let found = query("PRAGMA user_version")?;
    let application = query("PRAGMA application_id")?;
    let objects = query("SELECT count(*) FROM sqlite_schema")?;
    if (objects, application, found) == (0, 0, 0) {
        return Ok(Format::Empty);
    }
    if application != APPLICATION_ID {
        let reason = "its file is a database of something else".to_owned();
        return Err(StoreError::Corrupt { reason });
    }
    // Format 1 is the first one, so any other is newer.
    if found != FORMAT {
        return Err(StoreError::TooNew { found, supported: FORMAT });
    }
    Ok(Format::Current)
}

/// Makes a copy that is not in use one file that is durable: without a write-ahead log beside it.
///
/// # Errors
/// [`StoreError`].
pub fn seal_copy(path: &Path) -> Result<(), StoreError> {
    let operation = "finish a copy of it";
    let connection = connect(path, Settings::default(), Missing::Fails)?;
    let mode: String = connection
        .query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))
        .context(operation)?;
    connection.close().map_err(|(_, error)| error).context(operation)?;
    if mode != "delete" {
        let source = format!("its journal mode stays `{mode}`").into();
        return Err(StoreError::Unavailable { operation, source });
    }
    std::fs::File::open(path).and_then(|file| file.sync_all()).context(operation)
}

/// Creates the schema in an empty database.
fn create_schema(connection: &mut Connection) -> Result<(), StoreError> {
    let operation = "create its schema";
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).context(operation)?;
    // Another process may have been faster.
    if check_format(&transaction)? == Format::Empty {
        create(&transaction)?;
    }
    transaction.commit().context(operation)
}

/// Adds what the schema of a store of an earlier build does not have.
fn complete_schema(connection: &mut Connection) -> Result<(), StoreError> {
    let operation = "complete its schema";
    let mut is_complete = true;
    for (name, _) in ADDED {
        is_complete &= has(connection, name)?;
    }
    if is_complete {
        return Ok(());
    }
    let mut add = || {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .context(operation)?;
        for (name, sql) in ADDED {
            // Another process may have been faster.
            if !has(&transaction, name)? {
                transaction.execute_batch(sql).context(operation)?;
            }
        }
        transaction.commit().context(operation)
    };
    match add() {
        // Without them lists are slower; whoever wants to free space must be able to read.
        Err(StoreError::Full { .. }) => Ok(()),
        added => added,
    }
}

/// Whether traces are counted when they change.
pub fn has_counts(connection: &Connection) -> Result<bool, StoreError> {
    has(connection, "trace_counts")
}

/// Whether the schema has an object of this name.
fn has(connection: &Connection, name: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1)";
    query_value(connection, "read its schema", sql, [name])
}

/// Creates the schema, and the id of the store.
pub fn create(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch(SCHEMA).context("create its schema")?;
    let random = random_id();
    let (_, id) = random.as_u64_pair();
    Progress::create(connection, id.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_full_disk_the_schema_stays_as_it_is() {
        let mut connection = Connection::open_in_memory().unwrap();
        create(&connection).unwrap();
        let earlier =
            "DROP INDEX traces_of_plan; DROP INDEX traces_in_state; DROP INDEX traces_held;
            VACUUM; PRAGMA max_page_count = 1";
        connection.execute_batch(earlier).unwrap();
        complete_schema(&mut connection).unwrap();
        assert!(!has(&connection, "traces_held").unwrap());
        connection.execute_batch("PRAGMA max_page_count = 1000000").unwrap();
        complete_schema(&mut connection).unwrap();
        assert!(has(&connection, "traces_held").unwrap());
    }

    #[test]
    fn write_and_read_connections_have_their_settings() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("windlass.db");
        let busy_timeout = Duration::from_millis(1_234);
        let settings = Settings { busy_timeout, ..Settings::default() };
        let writing = open(&path, settings, None).unwrap().connection;
        let reading = connect(&path, settings, Missing::Fails).unwrap();
        for connection in [writing, reading] {
            let text = |name: &str| -> String {
                let sql = format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}");
                connection.query_row(&sql, [], |row| row.get(0)).unwrap()
            };
            assert_eq!(text("journal_mode"), "wal");
            assert_eq!(text("synchronous"), "2");
            assert_eq!(text("foreign_keys"), "1");
            assert_eq!(text("trusted_schema"), "0");
            let number = |name: &str| -> i64 {
                connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
            };
            assert_eq!(number("busy_timeout"), 1_234);
        }
    }
}
