//! What the SQLite store promises beyond the contract: its file, its processes, its disk.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test support"
)]

mod crash;
mod damage;
#[cfg(target_os = "linux")]
mod disk;
mod filing;
mod group;
mod opening;
mod processes;
mod reserved;
mod schema;
mod sizes;
mod snapshot;
mod support;
