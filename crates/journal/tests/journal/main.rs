//! Reading and writing traces on a store in memory: what each check notices, what a failed commit
//! leaves behind, and what observers see.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod checks;
mod growing;
mod observers;
mod pages;
mod recorder;
mod world;
