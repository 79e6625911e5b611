//! Git operations on real repositories.

mod commit;
mod helper;
mod hostile;
mod merge;
mod pinned;
mod programs;
mod remote;
mod repository;
mod status;
mod tree;
mod worktree;
