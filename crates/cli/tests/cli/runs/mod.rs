//! Runs from outside: the real binary, real repositories, real commands.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]

mod after;
mod anchors;
mod backlog;
mod bad_input;
mod breakers;
mod budgets;
mod bundles;
mod checkpoints;
mod contract;
mod core;
mod decisions;
mod demo;
mod gates;
mod governance;
mod guides;
mod holds;
mod interrupt;
mod large;
mod mends_01_cancel;
mod mends_02_policy;
mod mends_03_holds;
mod mends_04_put_back;
mod mends_06_backlog;
mod mends_07_truth;
mod mends_08_backup;
mod mends_08_import;
mod mends_08_missions;
mod mends_08_retention;
mod mends_08_subagents;
mod mends_09_driver;
mod mends_10_files;
mod mends_11_checkpoints;
mod mends_12_bundles;
mod mends_15_dirty;
mod mends_16_calls;
mod mends_16_words;
mod mends_17_missing;
mod mends_19_growth;
mod mends_21_commits;
mod mends_21_meanwhile;
mod mistakes;
mod packets;
mod phases;
mod purge;
mod queue;
mod recover;
mod repository;
mod reviewed;
mod rollback;
mod scenarios;
mod secrets;
mod send_back;
mod stop;
mod tasks;
mod workspaces;
mod worktrees;
