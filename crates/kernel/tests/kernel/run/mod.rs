//! The state machine of runs: whole runs, every event in every state, and random runs of random plans.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    clippy::large_enum_variant,
    reason = "tests look at the few cases that they are about"
)]

mod agreements;
mod branches;
mod budgets;
mod checkpoints;
mod governance;
mod harness;
mod history;
mod holds;
mod judgements;
mod keeping;
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
mod ride;
mod rollback_rules;
mod rollbacks;
mod send_back;
mod setups;
mod table;
mod tell;
