//! Signed documents verify with a public key, and every change to them is detected.

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
mod people;
mod tamper;
mod trust;
mod vectors;
mod world;
