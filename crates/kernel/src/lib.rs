//! The pure core: ids, canonical JSON and digests; the state machines of calls, runs, grants and notifications; the hash
//! chain of the journal; the next step of a call or run, and the recovery of an interrupted call;
//! hosts on the network and the rules that list them.
//!
//! This crate reads no clock, file, environment or socket and generates no random numbers. The caller
//! passes time, ids and results as arguments.

pub mod artifact;
mod artifact_chain;
mod call;
pub mod canon;
mod chain;
mod code;
mod digest;
mod entry;
mod event_artifact;
mod git_name;
pub mod grant;
mod host;
mod id;
mod json_scan;
mod key;
pub mod notification;
mod person;
pub mod recovery;
mod replay_point;
mod request_limits;
mod risk;
pub mod run;
mod sealed_entry;
mod secret_files;
mod state;
mod text_form;
mod time;
pub mod verify;

pub use artifact::{Artifact, Outcome};
pub use artifact_chain::{
    ArtifactChain, ArtifactHeader, HoldReference, ReservedKey, dispatch_decision, settled_decision,
};
pub use call::{Call, Next, edited, is_call_artifact, transition_of};
pub use chain::{ChainError, Head, StateOrEmpty};
pub use code::Code;
pub use digest::{Digest, DigestError, HexDigest};
pub use entry::{Draft, Entry, KEY_CHARS_MAX, SCHEMA_VERSION};
pub use event_artifact::{EventArtifact, TraceEvent};
pub use git_name::is_git_name;
pub use host::{Authority, Host, HostError, HostProblem, HostRule};
pub use id::{ArtifactId, CheckpointId, HolderId, IdError, PlanId, ToolCallId, TraceId, Uuid7};
pub use key::{KeyId, PublicKey, Signature, Signer};
pub use person::{
    SecurityKey, Signed, Statement, check_name, is_same_name, normalise_name, shown_with_files,
};

pub use replay_point::{ExecutionState, ReplayPoint, ReplayPointState};
pub use request_limits::{
    AGENT_BYTES_MAX, ID_BYTES_MAX, INTENT_CHARS, KIND_BYTES_MAX, RequestFault,
};
pub use risk::RiskLevel;
pub use sealed_entry::{ArtifactBody, SealedEntry};
pub use secret_files::{SECRET_FILE_EXAMPLES, SECRET_FILES};
pub use state::{ArtifactType, Machine, State, Transition, UnknownName};
pub use time::{Timestamp, TimestampError};
