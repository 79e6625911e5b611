//! The real binary, from outside: what it prints, where it prints it, and how it ends.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]

mod canon;
mod harness;
mod help;
mod init;
mod snapshot;
mod tamper;
mod verify_file;
mod verify_vectors;
