//! Agents run without a client: by a model that is asked directly, by a program, by a person. None of them needs to be
//! installed; the model is scripted.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod command;
mod kills;
mod lab;
mod mends_08_subagents;
mod model;
mod person;
mod waiting;
