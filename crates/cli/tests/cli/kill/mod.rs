//! The real binary, killed with SIGKILL wherever it can be, and raced against itself: real processes,
//! real SQLite files, a real MCP server whose own log says what was executed.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot go on should say so"
)]

mod check;
mod core;
mod hook;
mod outside;
mod project;
mod race;
mod rewind;
mod runs;
mod scene;
mod sweep;
