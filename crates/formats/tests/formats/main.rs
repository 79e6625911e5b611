//! The tests of the crate, one program.

mod backlog;
mod core_answers;
mod core_documents;
mod core_reflection;
mod corpus;
mod ledger;
mod packets;
mod task;
mod yaml;
