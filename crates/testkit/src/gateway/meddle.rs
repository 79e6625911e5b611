//! A store that someone meddles with, call by call.

use std::sync::Arc;

use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{ReplayPoint, TraceId};
use windlass_store::{
    AcquireError, Append, AppendError, Appended, Counts, IdempotencyRecord, Lease, Record, Slot,
    Store, StoreError, TraceFilter, TraceState, Visitor,
};

macro_rules! meddle {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        /// What is done instead of a store's own doing; by default just that.
        #[expect(clippy::missing_errors_doc, reason = "as the store's own")]
        pub trait Meddle: Send + Sync {
            $($(#[$doc])* fn $name(&self, inner: &dyn Store, $($arg: $type),*) -> $result {
                inner.$name($($arg),*)
            })*
        }

        impl Store for Meddled {
            $(fn $name(&self, $($arg: $type),*) -> $result {
                self.meddler.$name(self.inner.as_ref(), $($arg),*)
            })*
        }
    };
}

/// A store behind a meddler.
pub struct Meddled {
    inner: Arc<dyn Store>,
    meddler: Box<dyn Meddle>,
}

impl Meddled {
    /// Puts `meddler` before `inner`.
    pub fn new(inner: Arc<dyn Store>, meddler: impl Meddle + 'static) -> Self {
        Self { inner, meddler: Box::new(meddler) }
    }
}

meddle! {
    /// See [`Store::load_state`].
    load_state(trace_id: TraceId) -> Result<TraceState, StoreError>;
    /// See [`Store::append`].
    append(append: Append<'_>) -> Result<Appended, AppendError>;
    /// See [`Store::list_log_entries`].
    list_log_entries(trace_id: TraceId, after: u64, limit: usize)
        -> Result<Vec<Record>, StoreError>;
    /// See [`Store::write_replay_point`].
    write_replay_point(lease: &Lease, point: &ReplayPoint) -> Result<(), AppendError>;
    /// See [`Store::load_latest_replay_point`].
    load_latest_replay_point(trace_id: TraceId) -> Result<Option<ReplayPoint>, StoreError>;
    /// See [`Store::acquire`].
    acquire(trace_id: TraceId) -> Result<Lease, AcquireError>;
    /// See [`Store::release`].
    release(lease: Lease) -> Result<(), StoreError>;
    /// See [`Store::load_idempotency`].
    load_idempotency(slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError>;
    /// See [`Store::record_redispatch`].
    record_redispatch(lease: &Lease, redispatch: &Redispatch) -> Result<(), AppendError>;
    /// See [`Store::list_redispatches`].
    list_redispatches(trace_id: TraceId) -> Result<Vec<Redispatch>, StoreError>;
    /// See [`Store::list_traces`].
    list_traces(filter: &TraceFilter) -> Result<Vec<TraceState>, StoreError>;
    /// See [`Store::count`].
    count() -> Result<Counts, StoreError>;
    /// See [`Store::scan`].
    scan(visitor: &mut dyn Visitor) -> Result<(), StoreError>;
    /// See [`Store::check`].
    check() -> Result<Vec<String>, StoreError>;
    /// See [`Store::is_held`].
    is_held(state: &TraceState) -> Result<bool, StoreError>;
}
