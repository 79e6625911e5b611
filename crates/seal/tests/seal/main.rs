//! What is signed can be checked by anybody, and nothing else passes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod anchor;
mod bundle;
mod hostile;
mod keys;
mod tamper;
mod trust;
mod vectors;
mod world;
