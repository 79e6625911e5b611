//! Performs one thing outside.
mod job;
pub use job::{Certainty, Connect, Job, Limits, MESSAGE_BYTES_MAX, Reply, Target};
