//! The tests of the crate, one program.

mod agents;
mod browser;
mod dashboard;
mod e2e;
mod guarded;
mod harness;
mod kill;
mod runners;
mod runs;
mod scripted;
mod served;
mod templates;
mod world;
