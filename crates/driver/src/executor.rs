//! The driver loop on the engine: its builtins, its event expander and its guard of agents.
//!
//! The rules are the functions of this crate's other modules: these builtins gather facts from the
//! journal and the workspace, call those functions and record the answer.

#![expect(
    clippy::disallowed_methods,
    reason = "the rules of the driver do no IO; only its executor reads and writes files"
)]

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
mod leftovers;
mod memory;
mod observe;
mod output;
mod recorded;
mod report;
mod select;
mod state;
mod telemetry;
mod telemetry_view;
mod terminate;
mod verify;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{
    DriverConfig, Outcome, Phase, RecordedState as RecordedSandbox, Sandbox, SandboxEvent,
};
use serde_json::{Map, Value, json};
use windlass_kernel::run::plan::{self, Doer};
use windlass_kernel::run::{Event, NoteKind, Run};
use windlass_kernel::{Code, TraceId};
use windlass_store::Store;

pub use classify::INTENT_OPTION;
pub use guard::{InMemoryConfinement, TaskConfinement};
pub use telemetry_view::{TaskTelemetry, TelemetrySeal, task_telemetry};

use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::{Builtin, BuiltinJob};

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

/// The prefix of the names of its builtins.
const PREFIX: &str = "driver/";

/// The settings and parts of the driver.
#[derive(Clone)]
pub struct DriverSettings {
    /// The configuration.
    pub config: DriverConfig,
    /// The available models, by the names that their providers use.
    pub available: BTreeSet<String>,
    /// The project's name, recorded with memory and telemetry.
    pub project_id: String,
    /// The id of this process's session.
    pub session_id: String,
    /// The folder of the memory files.
    pub memory: PathBuf,
    /// The folder of the outputs that people edit.
    pub edits: PathBuf,
    /// The folder that lists the processes of this machine, `/proc`; without one, nobody looks for processes that a task
    /// has left.
    pub processes: Option<PathBuf>,
    /// The store of the journal.
    pub store: Arc<dyn Store>,
}

/// The driver; each process has one.
pub struct Driver {
    pub(crate) settings: DriverSettings,
    pub(crate) confinement: Arc<dyn TaskConfinement>,
}

/// The function of one builtin.
type Perform = fn(&Driver, &BuiltinJob<'_>) -> Result<WorkResult, EngineError>;

/// One builtin of the loop with its driver.
struct DriverBuiltin {
    driver: Arc<Driver>,
    perform: Perform,
}

impl Builtin for DriverBuiltin {
    fn perform(&self, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
        (self.perform)(&self.driver, job)
    }
}

impl Driver {
    /// Creates a driver whose guard confines agents.
    #[must_use]
    pub fn new(settings: DriverSettings) -> Self {
        Self::with_confinement(settings, Arc::new(InMemoryConfinement::default()))
    }

    /// Creates a driver with another confinement.
    #[must_use]
    pub fn with_confinement(
        settings: DriverSettings,
        confinement: Arc<dyn TaskConfinement>,
    ) -> Self {
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
        let step = |perform| Box::new(DriverBuiltin { driver: Arc::clone(driver), perform });
        list.into_iter()
            .map(|(name, perform)| (name.to_owned(), step(perform) as Box<dyn Builtin>))
            .collect()
    }

    /// The names of the intents that a task can have.
    pub fn intents(&self) -> impl Iterator<Item = String> + '_ {
        self.config().intents.iter().map(|intent| intent.name.to_string())
    }

    const fn config(&self) -> &DriverConfig {
        &self.settings.config
    }

    /// Records a sandbox event and sets the confinement accordingly.
    ///
    /// Confinement is set before the entry and lifted after it, so that a task is never less confined
    /// than the journal says.
    fn change_sandbox(
        &self,
        job: &BuiltinJob<'_>,
        event: SandboxEvent,
        update: impl FnOnce(&mut RecordedSandbox),
        why: &str,
    ) -> Result<Sandbox, EngineError> {
        let run = job.recorder.run();
        let mut recorded = recorded::sandbox(&run).unwrap_or_else(recorded::initial_sandbox);
        update(&mut recorded);
        recorded.sandbox = recorded.sandbox.apply(event);
        let on = recorded.sandbox.is_enabled();
        if on {
            self.confinement.set_confined(run.head.trace_id, true);
        }
        job.recorder.record(sandbox_note(event, &recorded, why)?)?;
        if !on {
            self.confinement.set_confined(run.head.trace_id, false);
        }
        Ok(recorded.sandbox)
    }
}

/// The note of a change of the sandbox.
fn sandbox_note(
    event: SandboxEvent,
    recorded: &RecordedSandbox,
    why: &str,
) -> Result<Event, EngineError> {
    let body = json!({
        "event": to_value(&event)?,
        "sandbox": to_value(&recorded.sandbox)?,
        "context": recorded.context,
        "intent": recorded.intent,
        "why": why,
    });
    Ok(Event::Noted { what: NoteKind::Sandbox, body })
}

/// Converts a value to JSON.
fn to_value(thing: &impl serde::Serialize) -> Result<Value, EngineError> {
    serde_json::to_value(thing).map_err(|error| EngineError::Invalid {
        code: Code::Internal,
        message: format!("a value of the driver cannot be recorded: {error}"),
        hint: None,
    })
}

/// Whether a run follows a loop with the driver's builtins.
pub(crate) fn is_driven(run: &Run) -> bool {
    run.builtins().any(is_driver_builtin)
}

/// Whether a builtin belongs to the driver.
pub(crate) fn is_driver_builtin(builtin: &str) -> bool {
    builtin.starts_with(PREFIX)
}

const fn is_agent(doer: &Doer) -> bool {
    matches!(doer, Doer::Agent { .. })
}

/// The phase of a task that a phase with this executor implements: people intervene, agents execute.
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

/// The phase of a task that a phase of a run implements. A question that a phase asks belongs to that phase; only the
/// one that verification asks is an intervention.
fn stage_of(run: &Run, phase: &plan::Phase) -> Option<Phase> {
    if !matches!(phase.doer, Doer::Person { .. }) {
        return phase_of(&phase.doer);
    }
    let asks = |gate: &plan::Gate| gate.verdicts.values().any(|effect| leads_to(effect, &phase.id));
    let asking = run.all_phases().find(|(other, _)| other.gate.as_ref().is_some_and(asks));
    let stage = asking.and_then(|(asking, _)| phase_of(&asking.doer));
    stage.filter(|stage| *stage != Phase::Verification).or_else(|| phase_of(&phase.doer))
}

fn leads_to(effect: &plan::Effect, id: &str) -> bool {
    match effect {
        plan::Effect::Intervene { phase, .. } => phase == id,
        plan::Effect::Block
        | plan::Effect::Continue
        | plan::Effect::Hold { .. }
        | plan::Effect::Redo { .. }
        | plan::Effect::Stop { .. } => false,
    }
}

/// Builds the answer of a phase or check from an outcome, a reason and further fields.
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

/// The task's id, which is the run's.
fn task_id(run: &Run) -> String {
    run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default()
}

/// An error about a task, for a person.
fn invalid(trace_id: TraceId, message: impl std::fmt::Display) -> EngineError {
    EngineError::Invalid {
        code: Code::StateRecoveryFailed,
        message: format!("task {trace_id}: {message}"),
        hint: None,
    }
}
