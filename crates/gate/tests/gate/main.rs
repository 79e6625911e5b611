//! The tests of the crate, one program.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod commits;
mod died;
mod git_folders;
mod held_back;
mod links;
mod settings;
mod world;
