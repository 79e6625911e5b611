//! The tests of the crate, one program.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]

mod common;
mod finding;
mod paths;
mod reading;
mod writing;
