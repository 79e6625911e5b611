//! A store that dies at an append, or refuses some.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{ReplayPoint, TraceId};
use windlass_store::{
    AcquireError, Append, AppendError, Appended, IdempotencyRecord, Lease, Record, Slot, Store,
    StoreError, TraceFilter, TraceState, Visitor,
};

/// When the store fails.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Never.
    None,
    /// From this append on, which is not written.
    Before(u64),
    /// From this append on, which is written though nobody hears of it.
    After(u64),
    /// Whenever an entry's body holds this text.
    Holding(&'static str),
    /// From the append on that holds this text, which is written though nobody hears of it.
    AfterHolding(&'static str),
}

pub struct Faulty {
    pub inner: Arc<dyn Store>,
    pub fault: Mutex<Fault>,
    pub appends: AtomicU64,
    /// The appends that came after the first refusal.
    pub after_refusal: AtomicU64,
    refused: AtomicU64,
}

impl Faulty {
    pub fn new(inner: Arc<dyn Store>, fault: Fault) -> Self {
        Self {
            inner,
            fault: Mutex::new(fault),
            appends: AtomicU64::new(0),
            after_refusal: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    fn gone() -> AppendError {
        AppendError::Store(StoreError::ReadOnly { operation: "append" })
    }
}

impl Store for Faulty {
    fn append(&self, append: Append<'_>) -> Result<Appended, AppendError> {
        let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        let is_run = append.entries[0].entry.schema_id.contains("run");
        if self.refused.load(Ordering::SeqCst) > 0 && is_run {
            self.after_refusal.fetch_add(1, Ordering::SeqCst);
        }
        let fault = *self.fault.lock().unwrap();
        let refuse = || {
            self.refused.fetch_add(1, Ordering::SeqCst);
            Err(Self::gone())
        };
        match fault {
            Fault::Before(at) if number >= at => refuse(),
            Fault::After(at) if number > at => refuse(),
            Fault::After(at) if number == at => {
                self.inner.append(append)?;
                refuse()
            }
            Fault::Holding(text) => {
                let holds = |body: &[u8]| String::from_utf8_lossy(body).contains(text);
                if append.entries.iter().any(|entry| holds(&entry.body)) {
                    return refuse();
                }
                self.inner.append(append)
            }
            Fault::AfterHolding(text) => {
                let holds = |body: &[u8]| String::from_utf8_lossy(body).contains(text);
                if self.refused.load(Ordering::SeqCst) > 0 {
                    return refuse();
                }
                if append.entries.iter().any(|entry| holds(&entry.body)) {
                    self.inner.append(append)?;
                    return refuse();
                }
                self.inner.append(append)
            }
            Fault::None | Fault::Before(_) | Fault::After(_) => self.inner.append(append),
        }
    }

    fn load_state(&self, trace_id: TraceId) -> Result<TraceState, StoreError> {
        self.inner.load_state(trace_id)
    }
    fn list_log_entries(
        &self,
        id: TraceId,
        after: u64,
        n: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.inner.list_log_entries(id, after, n)
    }
    fn write_replay_point(&self, lease: &Lease, one: &ReplayPoint) -> Result<(), AppendError> {
        self.inner.write_replay_point(lease, one)
    }
    fn load_latest_replay_point(&self, id: TraceId) -> Result<Option<ReplayPoint>, StoreError> {
        self.inner.load_latest_replay_point(id)
    }
    fn acquire(&self, trace_id: TraceId) -> Result<Lease, AcquireError> {
        self.inner.acquire(trace_id)
    }
    fn release(&self, lease: Lease) -> Result<(), StoreError> {
        self.inner.release(lease)
    }
    fn load_idempotency(&self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.inner.load_idempotency(slot)
    }
    fn record_redispatch(&self, lease: &Lease, again: &Redispatch) -> Result<(), AppendError> {
        self.inner.record_redispatch(lease, again)
    }
    fn list_redispatches(&self, trace_id: TraceId) -> Result<Vec<Redispatch>, StoreError> {
        self.inner.list_redispatches(trace_id)
    }
    fn list_traces(&self, filter: &TraceFilter) -> Result<Vec<TraceState>, StoreError> {
        self.inner.list_traces(filter)
    }
    fn count(&self) -> Result<windlass_store::Counts, StoreError> {
        self.inner.count()
    }
    fn scan(&self, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
        self.inner.scan(visitor)
    }
    fn is_held(&self, state: &TraceState) -> Result<bool, StoreError> {
        self.inner.is_held(state)
    }
}
