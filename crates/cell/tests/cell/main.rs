//! Real commands in real cells. Where the machine makes no namespaces these tests fail.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]

mod attacks;
mod bwrap;
mod common;
mod end;
mod judged;
mod limits;
mod locks;
mod root;
mod work;
