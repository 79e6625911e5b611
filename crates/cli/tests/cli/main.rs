//! The tests of the crate, one program.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]

mod agents;
mod attacks;
mod browser;
mod dashboard;
mod e2e;
mod guarded;
mod harness;
mod kill;
mod runners;
mod runs;
mod scripted;
mod served;
mod states;
mod templates;
mod world;
