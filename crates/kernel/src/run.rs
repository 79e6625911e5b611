//! The state machine of a run: one task that goes through the phases of a loop.
//!
//! [`Run`] is folded from the entries of a run; [`Run::next`] derives from it alone what to record or
//! perform next.

mod branch;
mod checkpoint;
mod consensus;
mod effect;
mod event;
mod event_order;
mod fold;
mod governance;
mod hold;
mod index;
mod integration;
mod invocation;
mod judges;
mod measuring;
mod name;
mod next;
mod payload;
mod pinned;
pub mod plan;
mod plan_check;
mod rollback;
mod send_back;
mod session;
mod setup;
mod state;
mod verdict;
mod votes;

pub use branch::{Branch, Conflict, PendingMerge};
pub use checkpoint::{
    Checkpoint, CheckpointArtifact, CheckpointKind, CheckpointRecord, CheckpointSide,
    CheckpointWorkspace, DueCheckpoint, KeptEnd, Rollback, checkpoint_name,
};
pub use consensus::{APPROVED, CONDITIONAL, REJECTED, Review};
pub use event::{Event, NoteKind, RunEvent};
pub use governance::{ComplianceResult, GateResult, GateStatus, GovernanceResult};
pub use integration::{
    Integration, IntegrationState, IntegrationStep, MergeStrategy, OpenConflict,
};
pub use invocation::SUBAGENT_DEPTH_MAX;
pub use measuring::{MeasuringFiles, is_measuring, is_measuring_folder};
pub use name::{RunName, RunNameError};
pub use next::{Next, Work};
pub use payload::{
    Base, CallRecord, Change, Failure, HoldRequest, InvocationResult, PhaseResult, Revocation,
    SendBack, Started, UnsignedVote, Usage, Vote, VoteDecision, WaitsFor,
};
pub use pinned::{NamedAs, NamedPath, PINNED_MAX, named_paths, pinned_path_error};
pub use session::SESSION_BUILTIN;
pub use setup::{CopiedFile, PortRange, Setup, SetupState, SetupStep};
pub use state::{
    AttemptStage, Commit, Ended, JudgedBy, PendingVerdict, PhaseState, PhaseStatus, RecordedNote,
    Run, Spent, Waiting,
};
pub use votes::{Hold, Resolution};
