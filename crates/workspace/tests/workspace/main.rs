//! The tests of the crate, one program.

mod blobs;
mod git;
mod seed;
mod snapshot;
mod takeover;
