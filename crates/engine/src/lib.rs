//! Takes runs through their loops: asks the machine what comes next, records it, performs it.
//!
//! No SQL, no HTTP, no terminal, no views here. The order is always: lease, load, `next`, append, then
//! perform. Work is performed by [`Hands`]; observers ([`RunObservers`]) see what is recorded.

mod branch;
pub mod doers;
mod drive;
mod engine;
mod error;
mod git_vault;
mod hands;
mod import;
mod keeper;
mod place;
mod purge;
mod queue;
mod recover;
mod resume;
mod review;
mod rollback;
mod run_recorder;
mod start;
mod stop;
mod vault;

pub use engine::{Engine, HoldPackets, Parts, Place, Prepared, Settings, Workshop};
pub use error::EngineError;
pub use git_vault::GitVault;
pub use hands::{Assignment, Desk, Hands, Outcome, Subject, Verdict};
pub use import::Imported;
pub use keeper::Keeper;
pub use place::GitPlace;
pub use purge::{Purged, PurgedOne, Retention};
pub use queue::{Answered, Queue, Waiting};
pub use recover::Recovered;
pub use rollback::{RollbackPlan, RollbackRequest};
pub use run_recorder::{EventExpander, RunObservers, RunRecorder};
pub use start::NewRun;
pub use stop::{Stop, StopRequest};
pub use vault::{Altered, How, Joined, Vault, Way};
