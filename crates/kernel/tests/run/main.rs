//! The run machine: whole walks, every event in every state, and random runs of random plans.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod budgets;
mod harness;
mod holds;
mod judgements;
mod loops;
mod many;
mod model;
mod names;
mod plans;
mod properties;
mod random;
mod refusals;
mod replay;
mod restarts;
mod table;
