//! Git operations on real repositories.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod commit;
mod hostile;
mod programs;
mod repository;
mod status;
mod tree;
mod worktree;
