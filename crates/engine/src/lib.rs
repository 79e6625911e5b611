//! Executes runs: asks the state machine for the next step, records it, then performs it.
//!
//! No SQL, no HTTP, no terminal, no views here. The order is always: lease, load, `next`, append, then
//! perform. A [`PhaseExecutor`] performs the work; observers ([`RunObservers`]) see every entry.

mod branch;
mod cancel;
mod checkpointer;
mod drive;
mod engine;
mod error;
pub mod executors;
mod gateway_provider;
mod git_repository;
mod git_snapshot_store;
mod hold_packets;
mod import;
mod integrate;
mod kept_outputs;
mod own_commit;
mod phase_executor;
mod pinning;
mod policy_reader;
mod ports;
mod purge;
mod put_back;
mod queue;
mod recover;
mod redaction;
mod repository;
mod resume;
mod review;
mod rollback;
mod rollback_refusal;
mod run_recorder;
mod setup;
mod snapshot_store;
mod start;
mod stop;
mod turn;

pub use cancel::Cancellation;
pub use checkpointer::Checkpointer;
pub use engine::{Engine, Parts, Settings};
pub use error::EngineError;
pub use gateway_provider::{GatewayProvider, ToolDefinition};
pub use git_repository::GitRepository;
pub use git_snapshot_store::GitSnapshotStore;
pub use hold_packets::HoldPackets;
pub use import::ImportedRun;
pub use integrate::{IntegrationRequest, IntegrationResult};
pub use kept_outputs::KeptOutputs;
pub use phase_executor::{
    Answer, Assignment, Completion, PhaseExecutor, PhaseRecorder, Subject, Verdict, WorkResult,
};
pub use policy_reader::{PolicyReader, PolicyStamp};
pub use purge::{GateRetention, PurgeReport, PurgedCheckpoint, Retention};
pub use put_back::PutBack;
pub use queue::{Again, AnswerResult, HoldAnswer, HoldDetails, HoldQueue, WaitingRun};
pub use recover::RecoveredRun;
pub use repository::{CommitHook, Patch, PinRequest, PreparedCommit, Repository};
pub use rollback::{RollbackPlan, RollbackRequest};
pub use run_recorder::{EventExpander, RunObservers, RunRecorder};
pub use setup::{NewSetup, SetupOutput, SetupRunner};
pub use snapshot_store::{SnapshotStore, recorded_tree};
pub use start::NewRun;
pub use stop::{StopRequest, StopSwitch};
pub use windlass_workspace::PinnedPath;
