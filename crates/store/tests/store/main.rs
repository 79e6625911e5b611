//! The tests of the crate, one program.

mod fixture;
mod memory;
