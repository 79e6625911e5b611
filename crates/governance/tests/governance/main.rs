//! The tests of the crate, one program.

mod composing;
mod files;
mod judging;
