//! The rules of the driver loop as functions over data.
//!
//! The driver does not reason, generate or override: each of its phases asks one of these functions,
//! records the answer, and acts on what was recorded. [`DriverConfig`] holds every table.
//!
//! - What a request is about: [`classify()`]. Which model takes it: [`select()`].
//! - What a task may spend: [`Usage`]. Whether the sandbox is on: [`Sandbox`].
//! - The four checks and verification: [`check()`], [`verify()`], over [`Facts`].
//! - One intervention: [`check_intervention`], [`after_intervention`].
//! - What is recorded and kept: [`TelemetryRecord`], [`Memory`].
//!
//! Nothing here does IO, reads a clock, or has a default of PASS: what is not known fails.

mod check;
mod classify;
mod config;
mod error;
pub mod executor;
mod facts;
mod intervention;
mod memory;
mod names;
mod outcome;
mod paths;
mod phase;
mod rules;
mod sandbox;
mod select;
mod source;
mod telemetry;
mod usage;
mod verify;

pub use check::{CheckPoint, CheckResult, check, exit_conditions};
pub use classify::{Classification, REQUEST_BYTES_MAX, classify};
pub use config::{CONTEXT_INTENT, DriverConfig, Intent, Model, Profile, Step, Trigger};
pub use error::ConfigError;
pub use facts::{ContextFacts, Facts, SandboxFacts};
pub use intervention::{InterventionFacts, after_intervention, check_intervention};
pub use memory::{
    MEMORY_BYTES_MAX, Memory, MemoryError, SaveError, SaveRequest, VERSION_BYTES_MAX, Version, View,
};
pub use names::{IntentId, ModelId, NAME_BYTES_MAX, NameError, ProfileId, Role, Tier};
pub use outcome::{FailureClass, Outcome, Response};
pub use phase::Phase;
pub use sandbox::{
    Event, ExitConditions, Inconsistent, Observed, Reason, Recorded, Sandbox, consistent, may_write,
};
pub use select::{SelectError, Selection, select};
pub use telemetry::{TaskResult, TelemetryError, TelemetryFields, TelemetryRecord};
pub use usage::{CallKind, Limit, NextCall, Overrun, Usage};
pub use verify::{StepResult, Verification, verify};
