//! Reads and writes traces. Everything above the stores goes through this crate.
//!
//! - [`Fold`]: a state that is folded from a trace's entries. [`Call`](windlass_kernel::Call),
//!   [`Run`](windlass_kernel::run::Run), [`Grant`](windlass_kernel::grant::Grant) and
//!   [`Notification`](windlass_kernel::notification::Notification) implement it.
//! - [`Reader`]: folds a trace from a store, with an explicit choice of what is verified ([`Check`]).
//! - [`Recorder`]: holds a trace's lease, folds new entries and commits them. [`Observer`]s see each
//!   entry once, as it is folded.
//! - [`TraceVerifier`]: verifies a trace of any kind in constant memory, also where artifacts were
//!   purged. [`verify_store`] and [`verify_trace`] use it, and so does the check of a bundle.
//!
//! Entries, artifacts and the links between them are verified here and nowhere else. This crate
//! decides nothing, runs no tool and contains no SQL.

mod error;
mod fold;
mod lease;
mod observer;
mod reader;
mod recorder;
mod replay;
mod runs;
mod verifier;
mod verify;

pub use error::JournalError;
pub use fold::{ChainOnly, Fold};
pub use observer::{Observer, ObserverError, Origin, Step};
pub use reader::{Check, Reader, read_entry};
pub use recorder::Recorder;
pub use replay::{Replayed, replay};
pub use runs::{RunFilter, RunListing, Runs, is_run};
pub use verifier::{Signature, TraceVerifier};
pub use verify::{Problem, StoreReport, TraceReport, verify_store, verify_trace};
