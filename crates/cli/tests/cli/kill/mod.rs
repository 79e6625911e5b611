//! The real binary, killed with SIGKILL wherever it can be, and raced against itself: real processes,
//! real SQLite files, a real MCP server whose own log says what was executed.

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
