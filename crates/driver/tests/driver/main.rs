//! The rules of the driver loop, by vectors, tables and properties.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

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
