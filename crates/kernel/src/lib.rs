//! The pure core: ids, canonical JSON, digests; the call machine; the journal's chain; checkpoints;
//! what comes next and how a recorded call is recovered.
//!
//! Nothing here reads a clock, a file, the environment or a socket, and nothing draws a random
//! number. Time, ids and results come in as arguments.

pub mod artifact;
mod call;
pub mod canon;
mod chain;
mod code;
mod digest;
mod entry;
mod id;
mod link;
pub mod recovery;
mod replay_point;
mod risk;
pub mod run;
mod scan;
mod seal;
mod state;
mod text;
mod time;
pub mod verify;

pub use artifact::{Artifact, Outcome};
pub use call::{Call, Next, is_call_artifact, transition_of};
pub use chain::{ChainError, Head, StateOrEmpty};
pub use code::Code;
pub use digest::{Digest, DigestError, HexDigest};
pub use entry::{Draft, Entry, KEY_CHARS_MAX, SCHEMA_VERSION};
pub use id::{ArtifactId, CheckpointId, HolderId, IdError, PlanId, ToolCallId, TraceId, Uuid7};
pub use link::{Link, Links, Reserved};
pub use replay_point::{ExecutionState, ReplayPoint, ReplayPointState};
pub use risk::RiskLevel;
pub use seal::{Body, Sealed};
pub use state::{ArtifactType, Machine, State, Transition, UnknownName};
pub use time::{Timestamp, TimestampError};
