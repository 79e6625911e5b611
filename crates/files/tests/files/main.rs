//! The tests of the crate, one program.

mod common;
mod finding;
mod paths;
mod reading;
mod writing;
