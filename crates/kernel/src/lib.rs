//! The pure core: ids, canonical JSON, digests; the call machine; the journal's chain; checkpoints;
//! what comes next and how a recorded call is recovered.
//!
//! Nothing here reads a clock, a file, the environment or a socket, and nothing draws a random
//! number. Time, ids and results come in as arguments.

pub mod canon;
mod code;
mod digest;
mod id;
mod risk;
mod time;

pub use code::Code;
pub use digest::{Digest, DigestError, HexDigest};
pub use id::{ArtifactId, HolderId, IdError, PlanId, ToolCallId, TraceId, Uuid7};
pub use risk::RiskLevel;
pub use time::{Timestamp, TimestampError};
