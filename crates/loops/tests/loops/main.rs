//! The tests of the crate, one program.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]
#![expect(clippy::disallowed_methods, reason = "a test may fail loudly, and reads the vectors")]

mod corpus;
mod draw;
mod phases;
mod plans;
mod properties;
mod shipped_workflows;
mod variants;
mod workflows;
mod write;
