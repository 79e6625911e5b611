//! Takes runs through their loops: asks the machine what comes next, records it, has it done.
//!
//! No SQL, no HTTP, no terminal here. What is done outside is behind [`Hands`]; what files are written
//! from the journal is behind [`Projector`]. Order, always: lease, load, `next`, append, then perform.

mod book;
mod branch;
pub mod checkpoint;
mod checkpointer;
pub mod doers;
mod drive;
mod engine;
mod error;
mod find;
mod git_snapshot_store;
mod glance;
mod hands;
mod import;
mod log;
mod projection;
mod queue;
mod recover;
mod repository;
mod resume;
mod review;
mod rollback;
mod snapshot_store;
mod start;
mod stop;
mod tally;
pub mod telemetry;
mod watch;

pub use book::Book;
pub use checkpointer::Checkpointer;
pub use engine::{Engine, Escort, Parts, Projector, Settings, Workshop};
pub use error::EngineError;
pub use find::{Found, RunFilter, Runs};
pub use git_snapshot_store::GitSnapshotStore;
pub use glance::Glance;
pub use hands::{Assignment, Desk, Hands, Outcome, Subject, Verdict};
pub use import::Imported;
pub use projection::Files;
pub use queue::{Answered, Queue, Waiting};
pub use recover::Recovered;
pub use repository::{GitRepository, Prepared, Repository};
pub use rollback::{RollbackPlan, RollbackRequest};
pub use snapshot_store::SnapshotStore;
pub use start::NewRun;
pub use stop::{Stop, StopRequest};
pub use tally::{Standing, Tally};
pub use watch::{Follower, Look, Step, Watcher};
