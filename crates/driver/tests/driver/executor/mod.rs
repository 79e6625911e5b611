//! The driver loop as it ships, on the engine: real files, real commands, recorded answers.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "tests stop at the first surprise"
)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "only the rules of this crate are pure"
)]

mod calm;
mod checks;
mod faults;
mod intervention;
mod limits;
mod memory;
mod restart;
mod sandbox;
mod telemetry;
mod verification;
mod world;
