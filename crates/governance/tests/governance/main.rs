//! The tests of the crate, one program.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod composing;
mod files;
mod judging;
