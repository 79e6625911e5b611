//! The real binary, from outside: what it prints, where it prints it, and how it ends.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]

mod call_input;
mod call_run;
mod call_tools;
mod canon;
mod codes;
mod config;
mod core_session;
mod damage;
mod decide;
mod disk;
mod doctor;
mod file_tools;
mod grants;
mod help;
mod hooks;
mod init;
mod input_files;
mod install;
mod install_codex;
mod machines;
mod mcp;
mod mcp_client;
mod mcp_wrap;
mod mends_05_names;
mod mends_13_contracts;
mod mends_14_bounds;
mod mends_15_words;
mod mends_18_machines;
mod observe;
mod observe_spans;
mod opencode_database;
mod output;
mod pages;
mod people;
mod policy;
mod recover;
mod run_scenarios;
mod sandbox;
mod scenarios;
mod seal_scenarios;
mod secrets;
mod server_sandbox;
mod sessions;
mod snapshot;
mod state;
mod tamper;
mod trace;
mod trust;
mod verify_file;
mod verify_vectors;
mod work;
mod workflows;
