//! The contract, kept with SQLite.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};
use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{HolderId, ReplayPoint, TraceId, canon};
use windlass_store::{
    AcquireError, After, Append, AppendError, Appended, Claim, Counts, IdempotencyRecord, Lease,
    Record, Slot, Store, StoreError, TraceFilter, TraceState, Visitor, rules,
};

use crate::books::{Desk, run};
use crate::error::During;
use crate::find::Index;
use crate::holder::Holder;
use crate::open::{self, Settings};
use crate::rows::TraceRow;
use crate::sheet::Sheet;
use crate::writer::Writer;
use crate::{append, filing, find, rows, scan};

/// A store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    settings: Settings,
    writer: Writer,
    readers: Mutex<Vec<Connection>>,
    index: Arc<Mutex<Index>>,
    holder: Holder,
    held: Held,
}

/// The leases that this process uses, each with the fence it was granted with. A row that names
/// this process with another fence is a lease that was lost on the way, and free to take.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<BTreeSet<(TraceId, u64)>>>);

impl Held {
    fn insert(&self, trace_id: TraceId, fence: u64) {
        lock(&self.0).insert((trace_id, fence));
    }

    /// Forgets that lease and no other.
    fn remove(&self, trace_id: TraceId, fence: u64) {
        lock(&self.0).remove(&(trace_id, fence));
    }

    fn contains(&self, state: &TraceState) -> bool {
        lock(&self.0).contains(&(state.head.trace_id, state.fence))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SqliteStore {
    /// Opens the store at `path`, making it if there is none; locks lie beside it.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be opened, is not a store, or is of a newer version.
    pub fn open(path: &Path, settings: Settings) -> Result<Self, StoreError> {
        let connection = open::open(path, settings)?;
        let mut locks = path.as_os_str().to_owned();
        locks.push(".locks");
        let holder = Holder::register(Path::new(&locks))?;
        let writer = Writer::new(connection, settings)?;
        Ok(Self {
            path: path.to_owned(),
            settings,
            index: writer.index(),
            writer,
            readers: Mutex::default(),
            holder,
            held: Held::default(),
        })
    }

    /// This process's id among the holders of leases.
    #[must_use]
    pub const fn holder(&self) -> HolderId {
        self.holder.id()
    }

    /// Runs `work` in a snapshot, on a connection that nobody else uses meanwhile.
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = lock(&self.readers).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open::connect(&self.path, self.settings)?,
        };
        let operation = "read";
        run(&connection, "BEGIN", operation)?;
        let result = work(&connection);
        if !connection.is_autocommit() {
            run(&connection, "COMMIT", operation)?;
        }
        lock(&self.readers).push(connection);
        result
    }

    /// Runs `work` in a snapshot, with a trace as it stands there.
    fn read_trace<T>(
        &self,
        trace_id: TraceId,
        work: impl FnOnce(&Connection, Option<TraceRow>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let hint = lock(&self.index).trace(trace_id);
        self.read(|connection| {
            let found = find::trace(connection, trace_id, hint)?;
            lock(&self.index).learn(&found);
            work(connection, found.row)
        })
    }

    /// Decides and takes a lease inside a transaction.
    fn take(
        desk: &mut Desk<'_>,
        trace_id: TraceId,
        me: HolderId,
        free: impl Fn(&TraceState) -> bool,
    ) -> Result<Result<u64, AcquireError>, StoreError> {
        desk.settle(trace_id)?;
        let Some(TraceRow { mut state, .. }) = rows::load_trace(desk.connection, trace_id)? else {
            return Err(StoreError::NotFound { trace_id });
        };
        if let Some(holder) = state.holder
            && !free(&state)
        {
            return Ok(Err(AcquireError::Held { trace_id, holder }));
        }
        state.fence += 1;
        state.holder = Some(me);
        filing::update_trace(desk.connection, &state)?;
        Ok(Ok(state.fence))
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
        let me = self.holder.id();
        let trace_id = append.claim.trace_id();
        let digests = rules::Digests::of(&append);
        let made = matches!(append.claim, Claim::New { .. });
        let after = append.after;
        // The work may be done by another thread: it takes a copy of the lease's three numbers.
        let lease = match &append.claim {
            Claim::Held(lease) => Some(Lease::grant(trace_id, lease.holder(), lease.fence())),
            Claim::New { .. } => None,
        };
        let plan_id = match append.claim {
            Claim::New { plan_id, .. } => Some(plan_id),
            Claim::Held(_) => None,
        };
        let sheet = Arc::new(Sheet::of(&append, me));
        let (entries, key) = (append.entries, append.key);
        let mut parts = Some((entries, key));
        let fence = lease.as_ref().map_or(1, Lease::fence);
        let kept = made && after == After::Keep;
        let held = self.held.clone();
        let state = self.writer.append(move |desk| {
            let Some((entries, key)) = parts.take() else {
                return Err(StoreError::Corrupt { reason: "an append ran twice".to_owned() });
            };
            let claim = match (&lease, plan_id) {
                (Some(lease), _) => Claim::Held(lease),
                (None, Some(plan_id)) => Claim::New { trace_id, plan_id },
                (None, None) => {
                    return Err(StoreError::Corrupt { reason: "a claim was lost".to_owned() });
                }
            };
            let append = Append { claim, entries, key, after };
            let result = append::append(desk, &append, &sheet, me, digests);
            parts = Some((append.entries, append.key));
            // Noted before it is durable, and by none but the one that makes the trace: nobody may
            // find it durable and not noted.
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
            Some(row) => scan::list(connection, row, after_sequence_number, limit),
            None => Ok(Vec::new()),
        })
    }

    fn write_replay_point(
        &self,
        lease: &Lease,
        checkpoint: &ReplayPoint,
    ) -> Result<(), AppendError> {
        let me = self.holder.id();
        let lease = Lease::grant(lease.trace_id(), lease.holder(), lease.fence());
        let checkpoint = checkpoint.clone();
        let document = document(&checkpoint)?;
        self.writer.write(move |desk| {
            let trace_id = lease.trace_id();
            desk.settle(trace_id)?;
            let connection = desk.connection;
            let current = rows::load_trace(connection, trace_id)?.map(|row| row.state);
            if let Err(error) = rules::decide_checkpoint(current.as_ref(), &lease, me, &checkpoint)
            {
                return Ok(Err(error));
            }
            let number = i64::try_from(checkpoint.checkpoint_sequence_number).unwrap_or(i64::MAX);
            connection
                .prepare_cached("INSERT OR REPLACE INTO checkpoints VALUES (?1, ?2, ?3)")
                .during("write a checkpoint")?
                .execute(params![trace_id.0.as_bytes(), number, document])
                .during("write a checkpoint")?;
            Ok(Ok(()))
        })?
    }

    fn load_latest_replay_point(
        &self,
        trace_id: TraceId,
    ) -> Result<Option<ReplayPoint>, StoreError> {
        let operation = "read a checkpoint";
        self.read(|connection| {
            let document: Option<Vec<u8>> = connection
                .prepare_cached(
                    "SELECT document FROM checkpoints WHERE trace_id = ?1
                     ORDER BY sequence_number DESC LIMIT 1",
                )
                .during(operation)?
                .query_row([trace_id.0.as_bytes()], |row| row.get(0))
                .optional()
                .during(operation)?;
            document.map(|document| parse(&document)).transpose()
        })
    }

    fn acquire(&self, trace_id: TraceId) -> Result<Lease, AcquireError> {
        let me = self.holder.id();
        // Asked before the transaction: the answer "dead" never becomes untrue, and a holder that
        // appears in between is not the one asked about.
        let seen = self.load_state(trace_id)?;
        let dead = match seen.holder {
            Some(holder) if holder != me => !self.holder.is_alive(holder)?,
            _ => false,
        };
        let held = self.held.clone();
        let fence = self.writer.write(move |desk| {
            let taken = Self::take(desk, trace_id, me, |state| match state.holder {
                Some(holder) if holder == me => !held.contains(state),
                Some(holder) => dead && seen.holder == Some(holder),
                None => true,
            })?;
            if let Ok(fence) = taken {
                held.insert(trace_id, fence);
            }
            Ok(taken)
        })??;
        Ok(Lease::grant(trace_id, me, fence))
    }

    fn release(&self, lease: Lease) -> Result<(), StoreError> {
        let (trace_id, fence) = (lease.trace_id(), lease.fence());
        let result = self.writer.write(move |desk| {
            desk.settle(lease.trace_id())?;
            let connection = desk.connection;
            if let Some(TraceRow { mut state, .. }) =
                rows::load_trace(connection, lease.trace_id())?
                && rules::holds(&lease, &state)
            {
                state.holder = None;
                filing::update_trace(connection, &state)?;
            }
            Ok(())
        });
        self.held.remove(trace_id, fence);
        result
    }

    fn load_idempotency(&self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError> {
        let hint = lock(&self.index).key(slot);
        self.read(|connection| find::key(connection, slot, hint))
    }

    fn record_redispatch(&self, lease: &Lease, redispatch: &Redispatch) -> Result<(), AppendError> {
        let operation = "record a dispatch";
        let me = self.holder.id();
        let lease = Lease::grant(lease.trace_id(), lease.holder(), lease.fence());
        let attempt = redispatch.attempt;
        let document = document(redispatch)?;
        self.writer.write(move |desk| {
            let trace_id = lease.trace_id();
            desk.settle(trace_id)?;
            let connection = desk.connection;
            let current = rows::load_trace(connection, trace_id)?.map(|row| row.state);
            let recorded: u32 = connection
                .prepare_cached("SELECT count(*) FROM redispatches WHERE trace_id = ?1")
                .during(operation)?
                .query_row([trace_id.0.as_bytes()], |row| row.get(0))
                .during(operation)?;
            if let Err(error) =
                rules::decide_redispatch(current.as_ref(), &lease, me, recorded, attempt)
            {
                return Ok(Err(error));
            }
            connection
                .prepare_cached("INSERT INTO redispatches VALUES (?1, ?2, ?3)")
                .during(operation)?
                .execute(params![trace_id.0.as_bytes(), attempt, document])
                .during(operation)?;
            Ok(Ok(()))
        })?
    }

    fn list_redispatches(&self, trace_id: TraceId) -> Result<Vec<Redispatch>, StoreError> {
        let operation = "read a call's dispatches";
        self.read(|connection| {
            let mut statement = connection
                .prepare_cached(
                    "SELECT document FROM redispatches WHERE trace_id = ?1 ORDER BY attempt",
                )
                .during(operation)?;
            let documents = statement
                .query_map([trace_id.0.as_bytes()], |row| row.get::<_, Vec<u8>>(0))
                .during(operation)?;
            documents.map(|document| parse(&document.during(operation)?)).collect()
        })
    }

    fn list_traces(&self, filter: &TraceFilter) -> Result<Vec<TraceState>, StoreError> {
        self.read(|connection| scan::traces(connection, filter))
    }

    fn count(&self) -> Result<Counts, StoreError> {
        self.read(scan::count)
    }

    fn scan(&self, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
        self.read(|connection| scan::scan(connection, visitor))
    }

    fn is_held(&self, state: &TraceState) -> Result<bool, StoreError> {
        match state.holder {
            None => Ok(false),
            Some(holder) if holder == self.holder.id() => Ok(self.held.contains(state)),
            Some(holder) => self.holder.is_alive(holder),
        }
    }
}

/// A document as it is stored: canonical JSON.
fn document(value: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    canon::to_bytes(value).map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}

fn parse<T: serde::de::DeserializeOwned>(document: &[u8]) -> Result<T, StoreError> {
    let corrupt = |reason: String| StoreError::Corrupt { reason };
    let value = canon::parse(document, usize::MAX).map_err(|error| corrupt(error.to_string()))?;
    serde_json::from_value(value).map_err(|error| corrupt(error.to_string()))
}
