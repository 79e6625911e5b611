//! Git operations on real repositories.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod commit;
mod hostile;
mod repository;
mod status;
mod tree;
mod worktree;
