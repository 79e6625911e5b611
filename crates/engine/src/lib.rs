//! Takes runs through their loops: asks the machine what comes next, records it, performs it.
//!
//! No SQL, no HTTP, no terminal, no views here. The order is always: lease, load, `next`, append, then
//! perform. Work is performed by [`PhaseExecutor`]; observers ([`RunObservers`]) see what is recorded.

mod branch;
mod checkpointer;
mod drive;
mod engine;
mod error;
pub mod executors;
mod git_snapshot_store;
mod import;
mod phase_executor;
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
pub use engine::{Engine, GatewayProvider, HoldPackets, Parts, Settings};
pub use error::EngineError;
pub use git_snapshot_store::GitSnapshotStore;
pub use import::Imported;
pub use phase_executor::{
    Answer, Assignment, Completion, PhaseExecutor, PhaseRecorder, Subject, Verdict, WorkResult,
};
pub use purge::{Purged, PurgedOne, Retention};
pub use queue::{Answered, Queue, Waiting};
pub use recover::Recovered;
pub use repository::{GitRepository, Prepared, Repository};
pub use rollback::{RollbackPlan, RollbackRequest};
pub use run_recorder::{EventExpander, RunObservers, RunRecorder};
pub use snapshot_store::{SnapshotStore, recorded_tree};
pub use start::NewRun;
pub use stop::{Stop, StopRequest};
