//! Takes runs through their loops: asks the machine what comes next, records it, performs it.
//!
//! No SQL, no HTTP, no terminal, no views here. The order is always: lease, load, `next`, append, then
//! perform. Work is performed by [`Hands`]; observers ([`RunObservers`]) see what is recorded.

mod branch;
mod checkpointer;
pub mod doers;
mod drive;
mod engine;
mod error;
mod git_snapshot_store;
mod hands;
mod import;
mod purge;
mod queue;
mod recover;
mod repository;
mod resume;
mod review;
mod rollback;
mod run_recorder;
mod snapshot_store;
mod start;
mod stop;

pub use checkpointer::Checkpointer;
pub use engine::{Engine, HoldPackets, Parts, Settings, Workshop};
pub use error::EngineError;
pub use git_snapshot_store::GitSnapshotStore;
pub use hands::{Assignment, Desk, Hands, Outcome, Subject, Verdict};
pub use import::Imported;
pub use purge::{Purged, PurgedOne, Retention};
pub use queue::{Answered, Queue, Waiting};
pub use recover::Recovered;
pub use repository::{GitRepository, Prepared, Repository};
pub use rollback::{RollbackPlan, RollbackRequest};
pub use run_recorder::{EventExpander, RunObservers, RunRecorder};
pub use snapshot_store::{SnapshotStore, recorded_tree};
pub use start::NewRun;
pub use stop::{Stop, StopRequest};
