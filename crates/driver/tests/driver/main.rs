//! The rules of the driver loop, by vectors, tables and properties.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops at the first surprise"
)]
#![expect(clippy::disallowed_methods, reason = "only the rules of this crate are pure")]
#![expect(clippy::disallowed_types, reason = "only the rules of this crate are pure")]

mod checks;
mod classify;
mod executor;
mod intervention;
mod load;
mod memory;
mod sandbox;
mod select;
mod shipped;
mod usage;
mod verify;
mod world;
