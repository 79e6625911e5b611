//! The store: the contract, implemented with SQLite.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, params};
use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{HolderId, ReplayPoint, TraceId, canon};
use windlass_store::{
    AcquireError, After, Append, AppendError, Appended, Claim, Counts, IdempotencyRecord,
    KeyAction, Lease, Record, Slot, Store, StoreError, TraceFilter, TraceState, Visitor, rules,
};

use crate::entry_batch::EntryBatch;
use crate::group_commit::GroupCommit;
use crate::liveness::Liveness;
use crate::open::{self, Settings};
use crate::sql::{Context as _, execute, query_each, query_first, query_value};
use crate::types::{KeyHash, TraceRow, lock};
use crate::unindexed::UnindexedTraces;
use crate::write_connection::WriteTransaction;
use crate::{append, listing, lookup, scan, trace_rows};

/// A store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    settings: Settings,
    writer: GroupCommit,
    /// Connections for reading that nobody uses at the moment.
    readers: Mutex<Vec<Connection>>,
    unindexed: Arc<Mutex<UnindexedTraces>>,
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
        let connection = open::open(path, settings)?;
        let mut locks = path.as_os_str().to_owned();
        locks.push(".locks");
        let liveness = Liveness::register(Path::new(&locks))?;
        let writer = GroupCommit::new(connection, settings)?;
        Ok(Self {
            path: path.to_owned(),
            settings,
            unindexed: writer.unindexed(),
            writer,
            readers: Mutex::default(),
            liveness,
            held: HeldLeases::default(),
        })
    }

    /// The id under which this process holds leases.
    #[must_use]
    pub const fn holder(&self) -> HolderId {
        self.liveness.id()
    }

    /// Runs `work` in a snapshot, on a connection of its own.
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = lock(&self.readers).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open::connect(&self.path, self.settings)?,
        };
        execute(&connection, "read", "BEGIN", [])?;
        let result = work(&connection);
        if !connection.is_autocommit() {
            execute(&connection, "read", "COMMIT", [])?;
        }
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

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.writer.close();
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
        let document = to_document(&point)?;
        self.writer.write(move |transaction| {
            let trace_id = lease.trace_id();
            let current = load_indexed(transaction, trace_id)?.map(|row| row.state);
            if let Err(error) = rules::decide_replay_point(current.as_ref(), &lease, me, &point) {
                return Ok(Err(error));
            }
            let number = i64::try_from(point.checkpoint_sequence_number).unwrap_or(i64::MAX);
            let row = params![trace_id.0.as_bytes(), number, document];
            let sql = "INSERT OR REPLACE INTO replay_points VALUES (?1, ?2, ?3)";
            execute(transaction.connection, "write a replay point", sql, row).map(Ok)
        })?
    }

    fn load_latest_replay_point(
        &self,
        trace_id: TraceId,
    ) -> Result<Option<ReplayPoint>, StoreError> {
        let operation = "read a replay point";
        let sql = "SELECT document FROM replay_points WHERE trace_id = ?1
            ORDER BY sequence_number DESC LIMIT 1";
        self.read(|connection| {
            query_first(connection, operation, sql, [trace_id.0.as_bytes()], |row| {
                from_document(&row.get::<_, Vec<u8>>(0).context(operation)?)
            })
        })
    }

    fn acquire(&self, trace_id: TraceId) -> Result<Lease, AcquireError> {
        let me = self.holder();
        // Tested before the transaction: a process that is dead stays dead, and a holder that comes
        // later is another one.
        let seen = self.load_state(trace_id)?.holder;
        let dead = match seen {
            Some(holder) if holder != me => !self.liveness.is_alive(holder)?,
            _ => false,
        };
        let held = self.held.clone();
        let fence = self.writer.write(move |transaction| {
            let row = load_indexed(transaction, trace_id)?;
            let mut row = row.ok_or(StoreError::NotFound { trace_id })?;
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
            trace_rows::update(transaction.connection, &row)?;
            held.insert(trace_id, row.state.fence);
            Ok(Ok(row.state.fence))
        })??;
        Ok(Lease::grant(trace_id, me, fence))
    }

    fn release(&self, lease: Lease) -> Result<(), StoreError> {
        let (trace_id, fence) = (lease.trace_id(), lease.fence());
        let result =
            self.writer.write(move |transaction| match load_indexed(transaction, trace_id)? {
                Some(mut row) if rules::holds(&lease, &row.state) => {
                    row.state.holder = None;
                    trace_rows::update(transaction.connection, &row)
                }
                _ => Ok(()),
            });
        self.held.remove(trace_id, fence);
        result
    }

    fn load_idempotency(&self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError> {
        let candidates = lock(&self.unindexed).key_candidates(KeyHash::of(slot));
        self.read(|connection| lookup::find_key(connection, slot, candidates))
    }

    fn record_redispatch(&self, lease: &Lease, redispatch: &Redispatch) -> Result<(), AppendError> {
        let operation = "record a dispatch";
        let me = self.holder();
        let lease = copy(lease);
        let attempt = redispatch.attempt;
        let document = to_document(redispatch)?;
        self.writer.write(move |transaction| {
            let trace_id = lease.trace_id();
            let connection = transaction.connection;
            let current = load_indexed(transaction, trace_id)?.map(|row| row.state);
            let sql = "SELECT count(*) FROM redispatches WHERE trace_id = ?1";
            let recorded = query_value(connection, operation, sql, [trace_id.0.as_bytes()])?;
            if let Err(error) =
                rules::decide_redispatch(current.as_ref(), &lease, me, recorded, attempt)
            {
                return Ok(Err(error));
            }
            let row = params![trace_id.0.as_bytes(), attempt, document];
            execute(connection, operation, "INSERT INTO redispatches VALUES (?1, ?2, ?3)", row)
                .map(Ok)
        })?
    }

    fn list_redispatches(&self, trace_id: TraceId) -> Result<Vec<Redispatch>, StoreError> {
        let operation = "read a call's dispatches";
        let sql = "SELECT document FROM redispatches WHERE trace_id = ?1 ORDER BY attempt";
        self.read(|connection| {
            let mut redispatches = Vec::new();
            query_each(connection, operation, sql, [trace_id.0.as_bytes()], |row| {
                let document: Vec<u8> = row.get(0).context(operation)?;
                redispatches.push(from_document(&document)?);
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(redispatches)
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

    fn is_held(&self, state: &TraceState) -> Result<bool, StoreError> {
        match state.holder {
            None => Ok(false),
            Some(holder) if holder == self.holder() => Ok(self.held.contains(state)),
            Some(holder) => self.liveness.is_alive(holder),
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

fn to_document(value: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    canon::to_bytes(value).map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}

fn from_document<T: serde::de::DeserializeOwned>(document: &[u8]) -> Result<T, StoreError> {
    let corrupt = |reason: String| StoreError::Corrupt { reason };
    let value = canon::parse(document, usize::MAX).map_err(|error| corrupt(error.to_string()))?;
    serde_json::from_value(value).map_err(|error| corrupt(error.to_string()))
}
