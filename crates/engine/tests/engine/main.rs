//! The engine as a whole: calm runs, people's answers, crashes at every point, random plans, and the
//! executors with real tools, programs and repositories.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for the events it is about")]

mod calm;
mod checkpoints;
mod crash;
mod executors;
mod holds;
mod interrupted;
mod journal;
mod large;
mod phase_executor;
mod plans;
mod random;
mod resuming;
mod starting;
mod stopping;
mod sweep;
mod world;
