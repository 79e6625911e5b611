//! The tests of the crate, one program.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops at the first surprise"
)]
#![expect(clippy::large_enum_variant, reason = "tests look at the few cases that they are about")]

mod grant;
mod links;
mod notification;
mod properties;
mod run;
mod vectors;
