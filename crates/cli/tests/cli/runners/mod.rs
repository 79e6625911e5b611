//! Agents run without a client: by a model that is asked directly, by a program, by a person. None of them needs to be
//! installed; the model is scripted.

mod command;
mod kills;
mod lab;
mod mends_08_subagents;
mod model;
mod person;
mod waiting;
