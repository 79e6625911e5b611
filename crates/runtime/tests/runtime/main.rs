//! The tests of the crate, one program.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]

mod corruption;
mod decisions;
mod grants;
mod hand_over;
mod idempotency;
mod planted_bugs;
mod policy;
mod recovery;
mod requests;
mod run_verification;
mod store_failures;
mod sweep;
mod time_limits;
mod unknown_effects;
mod verification;
