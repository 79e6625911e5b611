//! The driver loop on the engine: its phases, its checks, what it adds to the record, and its guard.
//!
//! Nothing is decided here that `windlass_driver` decides: these builtins gather what is recorded and
//! what is so, ask its functions, and put the answer on record.

mod bootstrap;
mod check;
mod classify;
mod context;
mod delegate;
mod earlier_tasks;
mod event_expander;
mod facts;
mod guard;
mod intervene;
mod memory;
mod observe;
mod output;
mod recorded;
mod report;
mod select;
mod state;
mod telemetry;
mod terminate;
mod verify;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{DriverConfig, Outcome, Phase, RecordedState, Sandbox, SandboxEvent as Happening};
use serde_json::{Map, Value, json};
use windlass_kernel::run::plan::Doer;
use windlass_kernel::run::{Event, NoteKind, Run};
use windlass_kernel::{Code, TraceId};
use windlass_store::Store;

pub use guard::{Confinement, InMemory};

use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::{Builtin, Job};

/// The names of the builtins of the driver loop.
pub const DRIVER_BUILTINS: [&str; 12] = [
    "driver/bootstrap",
    "driver/check",
    "driver/classify",
    "driver/context",
    "driver/delegate",
    "driver/intervene",
    "driver/memory",
    "driver/select",
    "driver/state",
    "driver/telemetry",
    "driver/terminate",
    "driver/verify",
];

/// How the names of its builtins begin.
const PREFIX: &str = "driver/";

/// What the driver is put together from.
#[derive(Clone)]
pub struct DriverSettings {
    /// Every table that it is judged by.
    pub config: DriverConfig,
    /// The models that can be reached, as their providers call them.
    pub available: BTreeSet<String>,
    /// The project's name; memory and telemetry are kept under it.
    pub project_id: String,
    /// The process.
    pub session_id: String,
    /// The folder of the files that show the project's memory.
    pub memory: PathBuf,
    /// The folder of the outputs that a person is to edit.
    pub edits: PathBuf,
    /// The journal.
    pub store: Arc<dyn Store>,
}

/// The driver: one for a process.
pub struct Driver {
    pub(crate) settings: DriverSettings,
    pub(crate) confinement: Arc<dyn Confinement>,
}

/// What one builtin does.
type Perform = fn(&Driver, &Job<'_>) -> Result<WorkResult, EngineError>;

/// One builtin of the loop, with the driver that it asks.
struct Step {
    driver: Arc<Driver>,
    perform: Perform,
}

impl Builtin for Step {
    fn perform(&self, job: &Job<'_>) -> Result<WorkResult, EngineError> {
        (self.perform)(&self.driver, job)
    }
}

impl Driver {
    /// Puts a driver together; agents are confined by the engine's own tool_caller.
    #[must_use]
    pub fn new(settings: DriverSettings) -> Self {
        Self::confined_by(settings, Arc::new(InMemory::default()))
    }

    /// Puts a driver together around something else that confines.
    #[must_use]
    pub fn confined_by(settings: DriverSettings, confinement: Arc<dyn Confinement>) -> Self {
        Self { settings, confinement }
    }

    /// The builtins of the loop.
    #[must_use]
    pub fn builtins(driver: &Arc<Self>) -> Vec<(String, Box<dyn Builtin>)> {
        let list: [(&str, Perform); 12] = [
            ("driver/bootstrap", bootstrap::perform),
            ("driver/check", check::perform),
            ("driver/classify", classify::perform),
            ("driver/context", context::perform),
            ("driver/delegate", delegate::perform),
            ("driver/intervene", intervene::perform),
            ("driver/memory", memory::perform),
            ("driver/select", select::perform),
            ("driver/state", state::perform),
            ("driver/telemetry", telemetry::perform),
            ("driver/terminate", terminate::perform),
            ("driver/verify", verify::perform),
        ];
        let step = |perform| Box::new(Step { driver: Arc::clone(driver), perform });
        list.into_iter()
            .map(|(name, perform)| (name.to_owned(), step(perform) as Box<dyn Builtin>))
            .collect()
    }

    const fn config(&self) -> &DriverConfig {
        &self.settings.config
    }

    /// Puts on record what happened to the sandbox, and confines accordingly.
    ///
    /// Confining comes before the entry and letting go after it, so that nothing is ever less
    /// confined than the journal says.
    fn change_sandbox(
        &self,
        job: &Job<'_>,
        happening: Happening,
        about: impl FnOnce(&mut RecordedState),
        why: &str,
    ) -> Result<Sandbox, EngineError> {
        let run = job.recorder.run();
        let mut recorded = recorded::sandbox(&run).unwrap_or_else(recorded::unknown);
        about(&mut recorded);
        recorded.sandbox = recorded.sandbox.apply(happening);
        let on = recorded.sandbox.is_enabled();
        if on {
            self.confinement.confine(run.head.trace_id, true);
        }
        job.recorder.record(sandbox_note(happening, &recorded, why)?)?;
        if !on {
            self.confinement.confine(run.head.trace_id, false);
        }
        Ok(recorded.sandbox)
    }
}

/// The note of a change of the sandbox.
fn sandbox_note(
    happening: Happening,
    recorded: &RecordedState,
    why: &str,
) -> Result<Event, EngineError> {
    let body = json!({
        "event": to_value(&happening)?,
        "sandbox": to_value(&recorded.sandbox)?,
        "context": recorded.context,
        "intent": recorded.intent,
        "why": why,
    });
    Ok(Event::Noted { what: NoteKind::Sandbox, body })
}

/// What something is in JSON.
fn to_value(thing: &impl serde::Serialize) -> Result<Value, EngineError> {
    serde_json::to_value(thing).map_err(|error| EngineError::Invalid {
        code: Code::Internal,
        message: format!("what the driver knows cannot be recorded: {error}"),
        hint: None,
    })
}

/// Whether a run follows a loop with the driver's builtins.
pub(crate) fn is_driven(run: &Run) -> bool {
    run.builtins().any(is_ours)
}

/// Whether a builtin is the driver's.
pub(crate) fn is_ours(builtin: &str) -> bool {
    builtin.starts_with(PREFIX)
}

const fn is_agent(doer: &Doer) -> bool {
    matches!(doer, Doer::Agent { .. })
}

/// Which phase of a task one that is done so stands for: those of people are interventions, those of
/// agents execution.
fn phase_of(doer: &Doer) -> Option<Phase> {
    match doer {
        Doer::Agent { .. } => Some(Phase::Execution),
        Doer::Person { .. } => Some(Phase::Intervention),
        Doer::Command { .. } | Doer::Consensus { .. } => None,
        Doer::Builtin { name, .. } => match name.strip_prefix(PREFIX)? {
            "state" => Some(Phase::StateValidation),
            "classify" => Some(Phase::IntentClassification),
            "context" => Some(Phase::ContextAssembly),
            "bootstrap" => Some(Phase::ContextBootstrap),
            "select" => Some(Phase::ModelSelection),
            "delegate" => Some(Phase::Delegation),
            "verify" => Some(Phase::Verification),
            "intervene" => Some(Phase::Intervention),
            "telemetry" => Some(Phase::TelemetryFinalization),
            "memory" => Some(Phase::MemorySync),
            "terminate" => Some(Phase::TaskTermination),
            _ => None,
        },
    }
}

/// The answer of a phase or check: one outcome, and what else is to be kept.
fn answer(outcome: Outcome, reason: impl Into<String>, more: Value) -> WorkResult {
    let mut object = match more {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    };
    let reason: String = reason.into().chars().take(2000).collect();
    object.entry("summary").or_insert_with(|| json!(format!("{outcome}: {reason}")));
    object.insert("reason".to_owned(), json!(reason));
    object.insert("verdict".to_owned(), json!(outcome.as_str()));
    WorkResult::answer(Value::Object(object))
}

/// The task's name: the run's.
fn task_id(run: &Run) -> String {
    run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default()
}

/// A refusal of a trace's, for a person.
fn invalid(trace_id: TraceId, message: impl std::fmt::Display) -> EngineError {
    EngineError::Invalid {
        code: Code::StateRecoveryFailed,
        message: format!("task {trace_id}: {message}"),
        hint: None,
    }
}
