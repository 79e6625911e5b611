//! What the engine itself can do in a phase.

mod call;
mod commit;
mod hydrate;
mod policy;
mod scope;

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_runtime::Clock;

use super::agent::Agent;
use super::tool_caller::ToolCaller;
use crate::engine::GatewayProvider;
use crate::error::EngineError;
use crate::phase_executor::{Assignment, PhaseRecorder, WorkResult};
use crate::repository::Repository;

/// The names of the builtins that every loop can use.
pub const BUILTINS: [&str; 5] = ["call", "commit", "hydrate", "policy", "scope"];

/// One builtin.
pub trait Builtin: Send + Sync {
    /// Does it.
    ///
    /// # Errors
    /// [`EngineError`] only when something could not be recorded or told at all.
    fn perform(&self, job: &Job<'_>) -> Result<WorkResult, EngineError>;
}

/// What a builtin works with.
pub struct Job<'a> {
    /// What is to be done.
    pub assignment: &'a Assignment,
    /// The plan's settings for it.
    pub with: &'a BTreeMap<String, Value>,
    /// Tools.
    pub tools: &'a ToolCaller<'a>,
    /// Where things are put on record.
    pub recorder: &'a PhaseRecorder<'a>,
    /// The repository.
    pub repository: &'a dyn Repository,
    /// The policy's sizes and classes.
    pub gateways: &'a dyn GatewayProvider,
    /// The time.
    pub clock: &'a dyn Clock,
    /// The agents.
    pub agents: &'a BTreeMap<String, Agent>,
}

impl Job<'_> {
    /// The task of the run.
    #[must_use]
    pub fn task(&self) -> &Value {
        self.assignment.run.started.as_ref().map_or(&Value::Null, |started| &started.task)
    }
}

/// The builtins that every loop can use.
pub(super) fn shipped() -> BTreeMap<String, Box<dyn Builtin>> {
    let list: [(&str, Box<dyn Builtin>); BUILTINS.len()] = [
        ("call", Box::new(call::Call)),
        ("commit", Box::new(commit::Commit)),
        ("hydrate", Box::new(hydrate::Hydrate)),
        ("policy", Box::new(policy::Policy)),
        ("scope", Box::new(scope::Scope)),
    ];
    list.into_iter().map(|(name, builtin)| (name.to_owned(), builtin)).collect()
}

/// A list of texts in a task; an absent list is empty.
///
/// # Errors
/// A message when the value is something else.
pub fn texts<'a>(task: &'a Value, pointer: &str) -> Result<Vec<&'a str>, String> {
    let fault = || format!("the task's `{}` is not a list of texts", pointer.trim_matches('/'));
    match task.pointer(pointer) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(|one| one.as_str().ok_or_else(fault)).collect(),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            Err(fault())
        }
    }
}
