//! The hook protocols of coding agents: what their events say, which call of ours a tool use of theirs is, and which
//! answer of ours they understand.
//!
//! Takes bytes and returns bytes; reads no file, no environment and no clock.

mod client;

pub use client::Client;
