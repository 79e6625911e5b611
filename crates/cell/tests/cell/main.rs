//! Real commands in real cells. Where the machine makes no namespaces these tests fail.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attacks;
mod bwrap;
mod common;
mod end;
mod judged;
mod limits;
mod locks;
mod root;
mod work;
