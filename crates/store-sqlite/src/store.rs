//! The store: the contract, implemented with SQLite.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{HolderId, ReplayPoint, TraceId};
use windlass_store::{
    AcquireError, After, Append, AppendError, Appended, Claim, Counts, IdempotencyRecord,
    KeyAction, Lease, Record, Slot, Store, StoreError, TraceFilter, TraceState, Visitor, rules,
};

use crate::entry_batch::EntryBatch;
use crate::files::DatabaseFiles;
use crate::group_commit::GroupCommit;
use crate::liveness::{Holder, Liveness};
use crate::open::{self, Life, Missing, Opened, Settings};
use crate::sql::execute;
use crate::turns::Turns;
use crate::types::{KeyHash, TraceRow, is_open, lock};
use crate::unindexed::UnindexedTraces;
use crate::write_connection::{Disk, WriteTransaction};
use crate::{append, audit, listing, lookup, redispatches, scan, trace_rows};

/// A store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    settings: Settings,
    writer: GroupCommit,
    /// Connections for reading that nobody uses at the moment.
    readers: Mutex<Vec<Connection>>,
    unindexed: Arc<Mutex<UnindexedTraces>>,
    files: DatabaseFiles,
    liveness: Liveness,
    held: HeldLeases,
}

/// The leases that this process uses, with their fences. A row that names this process with another
/// fence is a lease that was lost, and can be acquired.
#[derive(Clone, Default)]
struct HeldLeases(Arc<Mutex<BTreeSet<(TraceId, u64)>>>);

impl HeldLeases {
    fn insert(&self, trace_id: TraceId, fence: u64) {
        lock(&self.0).insert((trace_id, fence));
    }

    fn remove(&self, trace_id: TraceId, fence: u64) {
        lock(&self.0).remove(&(trace_id, fence));
    }

    fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    fn contains(&self, state: &TraceState) -> bool {
        lock(&self.0).contains(&(state.head.trace_id, state.fence))
    }
}

impl SqliteStore {
    /// Opens the store at `path`, or creates it. A folder for lock files is created beside it.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be opened, is not a store, or has another format.
    pub fn open(path: &Path, settings: Settings) -> Result<Self, StoreError> {
        Self::open_with(path, settings, None)
    }

    /// Opens the store as [`Self::open`] does, unless it is behind what the file `witness` says it was, which lies
    /// elsewhere and grows with it. The file is created if it does not exist.
    ///
    /// # Errors
    /// [`StoreError`] as above; [`StoreError::Truncated`] if it is behind, or another store.
    pub fn open_witnessed(
        path: &Path,
        settings: Settings,
        witness: &Path,
    ) -> Result<Self, StoreError> {
        Self::open_with(path, settings, Some(witness))
    }

    fn open_with(
        path: &Path,
        settings: Settings,
        witness: Option<&Path>,
    ) -> Result<Self, StoreError> {
        let Opened { connection, head, wal_pages, files } = open::open(path, settings, witness)?;
        let mut locks = path.as_os_str().to_owned();
        locks.push(".locks");
        let liveness = Liveness::register(Path::new(&locks))?;
        liveness.remove_stale(|| listing::open_holders(&connection));
        let turns = match settings.life {
            Life::Long => None,
            Life::Moment => Some(Turns::open(path)?),
        };
        let (lock, files_of_disk) = (liveness.file().clone(), files.clone());
        let disk = Disk { head, wal_pages, files: files_of_disk, lock, turns };
        let writer = GroupCommit::new(connection, settings, Some(disk))?;
        Ok(Self {
            path: path.to_owned(),
            settings,
            unindexed: writer.unindexed(),
            writer,
            readers: Mutex::default(),
            files,
            liveness,
            held: HeldLeases::default(),
        })
    }

    /// The id under which this process holds leases.
    #[must_use]
    pub const fn holder(&self) -> HolderId {
        self.liveness.id()
    }

    /// Releases all leases. A copy of a store has none: their holders use the original.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn void_leases(&self) -> Result<(), StoreError> {
        self.writer.write(|transaction| {
            transaction.unindexed().index_all(transaction.connection)?;
            for before in listing::held_rows(transaction.connection)? {
                let mut row = before;
                row.state.holder = None;
                trace_rows::update(transaction.connection, &before, &row)?;
                transaction.record_write()?;
            }
            Ok(())
        })
    }

    /// Copies all that is committed into a new database at `path`, while others may write.
    ///
    /// # Errors
    /// [`StoreError`]; then there may be an incomplete file.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let operation = "copy its contents";
        let connection = self.connect()?;
        let target = path.to_str().ok_or_else(|| StoreError::Unavailable {
            operation,
            source: "the path of the copy is not UTF-8".into(),
        })?;
        execute(&connection, operation, "VACUUM INTO ?1", [target])
    }

    /// Opens one more connection to the same file.
    fn connect(&self) -> Result<Connection, StoreError> {
        let connection = open::connect(&self.path, self.settings, Missing::Fails)?;
        self.files.check()?;
        Ok(connection)
    }

    /// Runs `work` in a snapshot, on a connection of its own.
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.files.database.check()?;
        // What is read may be read further while it is visited, so that it can be in use.
        if self.settings.life == Life::Moment
            && let Some(idle) = self.writer.idle()
        {
            return snapshot(idle.connection(), work)?;
        }
        let idle = lock(&self.readers).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let result = snapshot(&connection, work)?;
        lock(&self.readers).push(connection);
        result
    }

    /// Runs `work` in a snapshot, with the row of a trace.
    fn read_trace<T>(
        &self,
        trace_id: TraceId,
        work: impl FnOnce(&Connection, Option<TraceRow>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let candidates = lock(&self.unindexed).candidates(trace_id);
        self.read(|connection| {
            work(connection, lookup::find_trace(connection, trace_id, candidates)?)
        })
    }
}

/// Runs `work` in a snapshot.
fn snapshot<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<Result<T, StoreError>, StoreError> {
    execute(connection, "read", "BEGIN", [])?;
    let result = work(connection);
    if !connection.is_autocommit() {
        execute(connection, "read", "COMMIT", [])?;
    }
    Ok(result)
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.writer.close();
        if !self.held.is_empty() {
            self.liveness.keep();
        }
    }
}

impl Store for SqliteStore {
    fn load_state(&self, trace_id: TraceId) -> Result<TraceState, StoreError> {
        self.read_trace(trace_id, |_, row| Ok(row))?
            .map(|row| row.state)
            .ok_or(StoreError::NotFound { trace_id })
    }

    fn append(&self, append: Append<'_>) -> Result<Appended, AppendError> {
        let me = self.holder();
        let trace_id = append.claim.trace_id();
        // Digests and encoding need no transaction, so nobody waits for them.
        let digests = rules::Digests::of(&append);
        let batch = EntryBatch::new(&append, me);
        // Another thread may run the work, so it owns all of the append.
        let Append { claim, mut entries, mut key, after } = append;
        let claim = match claim {
            Claim::Held(lease) => Ok(copy(lease)),
            Claim::New { plan_id, .. } => Err(plan_id),
        };
        let fence = claim.as_ref().map_or(1, Lease::fence);
        let kept = claim.is_err() && after == After::Keep;
        let held = self.held.clone();
        let state = self.writer.write(move |transaction| {
            let claim = match &claim {
                Ok(lease) => Claim::Held(lease),
                Err(plan_id) => Claim::New { trace_id, plan_id: *plan_id },
            };
            let append = Append {
                claim,
                entries: std::mem::take(&mut entries),
                key: std::mem::replace(&mut key, KeyAction::None),
                after,
            };
            let result = append::append(transaction, &append, &batch, me, digests);
            (entries, key) = (append.entries, append.key);
            // Noted before the commit, so that nobody finds the trace and not the lease.
            if let (Ok(Ok(state)), true) = (&result, kept) {
                held.insert(trace_id, state.fence);
            }
            result
        })??;
        if after == After::Release {
            self.held.remove(trace_id, fence);
        }
        Ok(Appended { state, lease: kept.then(|| Lease::grant(trace_id, me, state.fence)) })
    }

    fn list_log_entries(
        &self,
        trace_id: TraceId,
        after_sequence_number: u64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.read_trace(trace_id, |connection, row| match row {
            Some(row) => listing::entries(connection, &row, after_sequence_number, limit),
            None => Ok(Vec::new()),
        })
    }

    fn write_replay_point(&self, lease: &Lease, point: &ReplayPoint) -> Result<(), AppendError> {
        let me = self.holder();
        let (lease, point) = (copy(lease), point.clone());
        self.writer.write(move |transaction| {
            let trace_id = lease.trace_id();
            let current = load_indexed(transaction, trace_id)?.map(|row| row.state);
            if let Err(error) = rules::decide_replay_point(current.as_ref(), &lease, me, &point) {
                return Ok(Err(error));
            }
            redispatches::write_replay_point(transaction.connection, trace_id, &point)?;
            transaction.record_write().map(Ok)
        })?
    }

    fn load_latest_replay_point(
        &self,
        trace_id: TraceId,
    ) -> Result<Option<ReplayPoint>, StoreError> {
        self.read(|connection| redispatches::load_latest_replay_point(connection, trace_id))
    }

    fn acquire(&self, trace_id: TraceId) -> Result<Lease, AcquireError> {
        let me = self.holder();
        // Tested before the transaction: a process that is dead stays dead, and a holder that comes
        // later is another one.
        let state = self.load_state(trace_id)?;
        let seen = state.holder;
        let dead = seen.is_some() && !self.is_held(&state)?;
        let held = self.held.clone();
        let fence = self.writer.write(move |transaction| {
            let before = load_indexed(transaction, trace_id)?;
            let before = before.ok_or(StoreError::NotFound { trace_id })?;
            let mut row = before;
            if let Some(holder) = row.state.holder {
                let free = if holder == me {
                    !held.contains(&row.state)
                } else {
                    dead && seen == Some(holder)
                };
                if !free {
                    return Ok(Err(AcquireError::Held { trace_id, holder }));
                }
            }
            row.state.fence += 1;
            row.state.holder = Some(me);
            trace_rows::update(transaction.connection, &before, &row)?;
            transaction.record_write()?;
            held.insert(trace_id, row.state.fence);
            Ok(Ok(row.state.fence))
        })??;
        Ok(Lease::grant(trace_id, me, fence))
    }

    fn release(&self, lease: Lease) -> Result<(), StoreError> {
        let (trace_id, fence) = (lease.trace_id(), lease.fence());
        let result =
            self.writer.write(move |transaction| match load_indexed(transaction, trace_id)? {
                Some(before) if rules::holds(&lease, &before.state) => {
                    let mut row = before;
                    row.state.holder = None;
                    trace_rows::update(transaction.connection, &before, &row)?;
                    transaction.record_write()
                }
                _ => Ok(()),
            });
        self.held.remove(trace_id, fence);
        if result.is_err() {
            self.liveness.keep();
        }
        result
    }

    fn load_idempotency(&self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError> {
        let candidates = lock(&self.unindexed).key_candidates(KeyHash::of(slot));
        self.read(|connection| lookup::find_key(connection, slot, candidates))
    }

    fn record_redispatch(&self, lease: &Lease, redispatch: &Redispatch) -> Result<(), AppendError> {
        let me = self.holder();
        let (lease, redispatch) = (copy(lease), redispatch.clone());
        self.writer.write(move |transaction| {
            let trace_id = lease.trace_id();
            let connection = transaction.connection;
            let row = load_indexed(transaction, trace_id)?;
            let recorded = redispatches::list(connection, trace_id, row.as_ref())?.len();
            let recorded = u32::try_from(recorded).unwrap_or(u32::MAX - 2);
            let (current, attempt) = (row.map(|row| row.state), redispatch.attempt);
            if let Err(error) =
                rules::decide_redispatch(current.as_ref(), &lease, me, recorded, attempt)
            {
                return Ok(Err(error));
            }
            let row = row.ok_or(StoreError::NotFound { trace_id })?;
            redispatches::record(connection, row, &redispatch)?;
            transaction.record_write().map(Ok)
        })?
    }

    fn list_redispatches(&self, trace_id: TraceId) -> Result<Vec<Redispatch>, StoreError> {
        self.read(|connection| {
            let row = trace_rows::load(connection, trace_id)?;
            redispatches::list(connection, trace_id, row.as_ref())
        })
    }

    fn list_traces(&self, filter: &TraceFilter) -> Result<Vec<TraceState>, StoreError> {
        self.read(|connection| listing::traces(connection, filter))
    }

    fn count(&self) -> Result<Counts, StoreError> {
        self.read(listing::count)
    }

    fn scan(&self, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
        self.read(|connection| scan::scan(connection, visitor))
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        self.read(audit::check)
    }

    fn is_held(&self, state: &TraceState) -> Result<bool, StoreError> {
        match state.holder {
            None => Ok(false),
            Some(holder) if holder == self.holder() => Ok(self.held.contains(state)),
            Some(holder) => Ok(match self.liveness.holder(holder)? {
                Holder::Alive => true,
                Holder::Dead => false,
                // Nobody can append to a trace that has ended.
                Holder::Unknown => is_open(state),
            }),
        }
    }
}

/// Copies a lease for work that may run on another thread, while its owner waits.
const fn copy(lease: &Lease) -> Lease {
    Lease::grant(lease.trace_id(), lease.holder(), lease.fence())
}

/// Loads the row of a trace, indexing the trace first if necessary.
fn load_indexed(
    transaction: &WriteTransaction<'_>,
    trace_id: TraceId,
) -> Result<Option<TraceRow>, StoreError> {
    transaction.index_trace(trace_id)?;
    trace_rows::load(transaction.connection, trace_id)
}
