//! The contract of a store: the trait, its errors, the checks that all stores share, a store in memory,
//! and (with the feature `conformance`) the suite that tests whether a store keeps the contract.
//!
//! There is no SQL and no database driver here. The transition rules are in the kernel.

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
pub mod fault;
mod memory;
pub mod rules;
mod store;
mod types;

pub use error::{AcquireError, AppendError, StoreError};
pub use memory::{MemoryStore, Shared, Tables};
pub use store::{Appended, Store};
pub use types::{
    After, Append, Claim, Counts, IdempotencyRecord, KeyAction, KeyMismatch, Lease, NewEntry,
    Parts, Record, Reservation, Slot, TraceFilter, TraceState, Visitor,
};
