//! A world in memory in which gateways live, crash at any point, and are checked afterwards.
//!
//! A [`World`] is what survives a process: the store's tables and what the tools did. A
//! [`Scenario`] is what clients and people want of it. [`explore()`] lets the processes that serve
//! them crash at every point, again during recovery, and holds what is left against the
//! `invariant_…` functions.

mod clock;
mod crash;
mod explore;
mod invariant;
mod invariant_effects;
mod meddle;
mod race;
mod scenario;
mod scenarios;
mod supervisor;
mod tools;
mod world;

pub use clock::TestClock;
pub use crash::{Crash, CrashingConnector, CrashingStore};
pub use explore::{Share, Tally, Violation, explore, explore_share};
pub use invariant::{INVARIANTS, Outcome, check};
pub use meddle::{Meddle, Meddled};
pub use race::{Lease as RacedLease, race};
pub use scenario::{Client, Life, Scenario, Step, call, interrupt, live};
pub use scenarios::{scenario, scenarios};
pub use supervisor::{SECRET, TOOLS, TestSupervisor, test_set};
pub use tools::{Dispatch, Run, Standing, ToolWorld, Tools};
pub use world::{Honest, Parts, Process, World};
