//! What the SQLite store promises beyond the contract: its file, its processes, its disk.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]

mod audit;
mod closing;
mod conformance;
mod copies;
mod counts;
mod crash;
mod damage;
mod disk;
mod displaced;
mod flips;
mod group;
mod head;
mod indexing;
mod key_audit;
mod opening;
mod processes;
mod schema;
mod sizes;
mod support;
mod two_writers;
mod unindexed_damage;
