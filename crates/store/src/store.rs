//! The contract of a store.

use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{ReplayPoint, TraceId};

use crate::error::{AcquireError, AppendError, StoreError};
use crate::types::{
    Append, Counts, IdempotencyRecord, Lease, Record, Slot, TraceFilter, TraceState, Visitor,
};

/// Keeps traces: entries with their artifacts, heads, leases, replay points, idempotency records.
///
/// What it must do is the conformance suite, not this comment. It holds no transition rule: it asks
/// the kernel. Everything it reports as done is durable.
pub trait Store: Send + Sync {
    /// Loads where a trace stands, as kept apart from its entries.
    ///
    /// # Errors
    /// [`StoreError`], `NotFound` when there is no such trace.
    fn load_state(&self, trace_id: TraceId) -> Result<TraceState, StoreError>;

    /// Appends entries with their artifacts, and what goes with them, in one transaction.
    ///
    /// Checked in this order: lease and fence; then for each entry sequence, previous digest,
    /// current state, transition, own digest, artifact digest; then the key.
    ///
    /// Returns the trace after it, and the lease if a new trace is kept.
    ///
    /// # Errors
    /// [`AppendError`], and then nothing was written.
    fn append(&self, append: Append<'_>) -> Result<Appended, AppendError>;

    /// Lists entries after a sequence number, at most `limit`, with their artifacts.
    ///
    /// # Errors
    /// [`StoreError`]; rows that cannot be entries are `CorruptTrace`.
    fn list_log_entries(
        &self,
        trace_id: TraceId,
        after_sequence_number: u64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError>;

    /// Keeps a replay point of a held trace.
    ///
    /// # Errors
    /// [`AppendError`] when the lease is lost or the replay point does not match the head.
    fn write_replay_point(&self, lease: &Lease, point: &ReplayPoint) -> Result<(), AppendError>;

    /// Loads a trace's newest replay point, unvalidated.
    ///
    /// # Errors
    /// [`StoreError`].
    fn load_latest_replay_point(
        &self,
        trace_id: TraceId,
    ) -> Result<Option<ReplayPoint>, StoreError>;

    /// Takes the lease of an existing trace; a dead holder's is free at once.
    ///
    /// # Errors
    /// [`AcquireError::Held`] when a live holder has it.
    fn acquire(&self, trace_id: TraceId) -> Result<Lease, AcquireError>;

    /// Gives a lease back. A lease that was taken over meanwhile is left to its new holder.
    ///
    /// # Errors
    /// [`StoreError`].
    fn release(&self, lease: Lease) -> Result<(), StoreError>;

    /// Looks up an idempotency record.
    ///
    /// # Errors
    /// [`StoreError`].
    fn load_idempotency(&self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError>;

    /// Records that a held call is about to be handed over once more.
    ///
    /// # Errors
    /// [`AppendError`] when the lease is lost, or the attempt's number is not the next one.
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

    /// Counts traces and entries in one pass that reads no entry.
    ///
    /// # Errors
    /// [`StoreError`]; a row that names no state is `Corrupt`.
    fn count(&self) -> Result<Counts, StoreError>;

    /// Shows every trace with its entries to `visitor`, in memory that does not grow.
    ///
    /// # Errors
    /// [`StoreError`] when the store itself cannot be read.
    fn scan(&self, visitor: &mut dyn Visitor) -> Result<(), StoreError>;

    /// Whether the holder of a trace is a live process other than the caller's use of it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn is_held(&self, state: &TraceState) -> Result<bool, StoreError>;
}

/// What an append returns.
#[derive(Debug, PartialEq, Eq)]
pub struct Appended {
    /// The trace after it.
    pub state: TraceState,
    /// The lease of a trace that was made and kept.
    pub lease: Option<Lease>,
}
