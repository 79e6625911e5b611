//! The tests of the crate, one program.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::disallowed_methods, reason = "the vectors are files")]

mod backlog;
mod core_answers;
mod core_documents;
mod core_reflection;
mod corpus;
mod ledger;
mod packets;
mod task;
mod yaml;
