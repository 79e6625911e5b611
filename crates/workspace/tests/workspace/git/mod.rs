//! Git operations on real repositories.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod commit;
mod helper;
mod hostile;
mod pinned;
mod programs;
mod remote;
mod repository;
mod status;
mod tree;
mod worktree;
