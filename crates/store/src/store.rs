//! The contract of a store.

use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{ReplayPoint, TraceId};

use crate::error::{AcquireError, AppendError, StoreError};
use crate::types::{
    Append, Counts, IdempotencyRecord, Lease, Record, Slot, TraceFilter, TraceState, Visitor,
};

/// Stores traces: entries with their artifacts, heads, leases, replay points, idempotency records.
///
/// The conformance suite defines what a store must do. A store has no transition rules of its own: it
/// applies those of the kernel. Everything it reports as done is durable.
pub trait Store: Send + Sync {
    /// Loads the state of a trace, which is kept apart from its entries.
    ///
    /// # Errors
    /// [`StoreError`]; `NotFound` if there is no such trace.
    fn load_state(&self, trace_id: TraceId) -> Result<TraceState, StoreError>;

    /// Appends entries with their artifacts, and reserves a key, in one transaction.
    ///
    /// The checks are made in this order: lease and fence; then for each entry sequence number, previous
    /// digest, current state, transition, own digest, artifact digest; then the key.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing was written.
    fn append(&self, append: Append<'_>) -> Result<Appended, AppendError>;

    /// Lists at most `limit` entries after a sequence number, with their artifacts.
    ///
    /// # Errors
    /// [`StoreError`]; `CorruptTrace` if one of them cannot be read.
    fn list_log_entries(
        &self,
        trace_id: TraceId,
        after_sequence_number: u64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError>;

    /// Writes a replay point of a trace that the caller holds.
    ///
    /// # Errors
    /// [`AppendError`] if the lease is lost or the replay point does not match the head.
    fn write_replay_point(&self, lease: &Lease, point: &ReplayPoint) -> Result<(), AppendError>;

    /// Loads the newest replay point of a trace, without checking it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn load_latest_replay_point(
        &self,
        trace_id: TraceId,
    ) -> Result<Option<ReplayPoint>, StoreError>;

    /// Acquires the lease of an existing trace. The lease of a dead process is free at once.
    ///
    /// # Errors
    /// [`AcquireError::Held`] if a live process holds it.
    fn acquire(&self, trace_id: TraceId) -> Result<Lease, AcquireError>;

    /// Releases a lease. If another holder has taken the trace over, nothing happens.
    ///
    /// # Errors
    /// [`StoreError`].
    fn release(&self, lease: Lease) -> Result<(), StoreError>;

    /// Loads the idempotency record of a key.
    ///
    /// # Errors
    /// [`StoreError`].
    fn load_idempotency(&self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError>;

    /// Records that a call is about to be dispatched again.
    ///
    /// # Errors
    /// [`AppendError`] if the lease is lost, or the number of the attempt is not the next one.
    fn record_redispatch(&self, lease: &Lease, redispatch: &Redispatch) -> Result<(), AppendError>;

    /// Lists the dispatches of a call after its first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn list_redispatches(&self, trace_id: TraceId) -> Result<Vec<Redispatch>, StoreError>;

    /// Lists traces, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn list_traces(&self, filter: &TraceFilter) -> Result<Vec<TraceState>, StoreError>;

    /// Counts traces and entries without reading the entries.
    ///
    /// # Errors
    /// [`StoreError`]; `Corrupt` if a trace has an unknown state.
    fn count(&self) -> Result<Counts, StoreError>;

    /// Visits every trace with its entries, in bounded memory.
    ///
    /// # Errors
    /// [`StoreError`] if the store itself cannot be read.
    fn scan(&self, visitor: &mut dyn Visitor) -> Result<(), StoreError>;

    /// Finds what is wrong with the store itself, which no trace shows; each finding in words.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    fn check(&self) -> Result<Vec<String>, StoreError>;

    /// Whether a live process holds the trace, or the caller's own process uses its lease.
    ///
    /// # Errors
    /// [`StoreError`].
    fn is_held(&self, state: &TraceState) -> Result<bool, StoreError>;
}

/// The result of an append.
#[derive(Debug, PartialEq, Eq)]
pub struct Appended {
    /// The trace after the append.
    pub state: TraceState,
    /// The lease, if the append created the trace and keeps it.
    pub lease: Option<Lease>,
}
