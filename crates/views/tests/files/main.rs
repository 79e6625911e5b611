//! The files that show runs: what is in them, and that nothing but the journal decides it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]
#![expect(clippy::disallowed_methods, reason = "tests look at the files as others do")]

mod contract;
mod disk;
mod holds;
mod ledger;
mod metrics;
mod rebuild;
mod watch;
mod world;
