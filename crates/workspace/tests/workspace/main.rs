//! The tests of the crate, one program.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]

mod blobs;
mod git;
mod seed;
mod snapshot;
mod takeover;
