//! One task going through a loop: what it follows, what was recorded of it, what comes next.
//!
//! [`Run`] is the fold of a run's entries; [`Run::next`] says from it alone what to record or perform.

mod branch;
mod check;
mod checkpoint;
mod consensus;
mod due;
mod effect;
mod event;
mod fold;
mod govern;
mod hold;
mod index;
mod journal;
mod judge;
mod name;
mod next;
mod parts;
pub mod plan;
mod rewind;
mod state;

pub use branch::{Branch, Conflict, Merging};
pub use checkpoint::{
    Checkpoint, CheckpointArtifact, CheckpointKind, CheckpointRecord, CheckpointSide,
    DueCheckpoint, Rollback, Workspace, checkpoint_name,
};
pub use consensus::{APPROVED, CONDITIONAL, REJECTED, Review};
pub use event::{Event, Note, RunEvent};
pub use govern::{ComplianceResult, GateResult, GateStatus, Governed};
pub use name::{RunName, RunNameError};
pub use next::{Next, Work};
pub use parts::{
    Base, Call, Change, Decision, Done, Failure, Held, InvocationResult, Started, Usage, Vote,
};
pub use state::{
    Commit, Ended, Hold, Judged, Noted, PhaseState, PhaseStatus, Resolution, Run, Source, Spent,
    Stage,
};
