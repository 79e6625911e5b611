//! The tests of the crate, one program.

mod corpus;
mod draw;
mod phases;
mod plans;
mod properties;
mod shipped_workflows;
mod variants;
mod workflows;
mod write;
