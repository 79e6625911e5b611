//! The tests of the crate, one program.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;
mod exceptions;
mod grants;
mod load;
mod own_tools;
mod searches;
mod shipped;
mod wrapped;
