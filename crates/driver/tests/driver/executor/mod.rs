//! The driver loop as it ships, on the engine: real files, real commands, recorded answers.

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
