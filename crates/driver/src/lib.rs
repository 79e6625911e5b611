//! The rules of the driver loop as functions over data.
//!
//! Each phase of the driver calls one of these functions, records the result, and acts on the
//! record. [`DriverConfig`] contains every table.
//!
//! - The intent of a request: [`classify()`]. The model for it: [`select()`].
//! - The limits of a task: [`Usage`]. Whether the sandbox is on: [`Sandbox`].
//! - The four checks and verification: [`check()`], [`verify()`], over [`Facts`].
//! - The one intervention: [`check_intervention`], [`after_intervention`].
//! - Records: [`TelemetryRecord`], [`Memory`].
//!
//! Nothing here does IO, reads a clock, or passes by default: an unknown fact is a failure.

mod check;
mod classify;
mod config;
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
mod telemetry;
mod usage;
mod verify;

pub use check::{CheckPoint, CheckResult, check, exit_conditions};
pub use classify::{Classification, REQUEST_BYTES_MAX, classify, classify_as};
pub use config::{CONTEXT_INTENT, DriverConfig, Intent, Model, Profile, Trigger, VerificationStep};
pub use facts::{ContextFacts, Facts, SandboxFacts};
pub use intervention::{InterventionFacts, after_intervention, check_intervention};
pub use memory::{
    MEMORY_BYTES_MAX, Memory, MemoryError, MemoryView, SaveError, SaveRequest, VERSION_BYTES_MAX,
    Version,
};
pub use names::{IntentId, ModelId, NAME_BYTES_MAX, NameError, ProfileId, Role, Tier};
pub use outcome::{FailureClass, Outcome, Response};
pub use phase::Phase;
pub use sandbox::{
    ExitConditions, ObservedState, RecordedState, Sandbox, SandboxEvent, SandboxMismatch,
    SandboxReason, check_consistency, may_write,
};
pub use select::{SelectError, Selection, select};
pub use telemetry::{TaskResult, TelemetryError, TelemetryFields, TelemetryRecord};
pub use usage::{CallKind, Limit, NextCall, Usage, UsageError};
pub use verify::{StepResult, Verification, verify};
pub use windlass_text::FileError;
