//! Builtins: phases that the engine performs itself.

mod call;
mod commit;
mod hydrate;
mod policy;
mod scope;

pub(crate) use commit::commit_message;

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_runtime::Clock;
use windlass_workspace::Git;

use super::Executors;
use super::agent::Agent;
use super::tool_caller::ToolCaller;
use crate::error::EngineError;
use crate::gateway_provider::GatewayProvider;
use crate::git_repository::git_of;
use crate::phase_executor::{Assignment, PhaseRecorder, WorkResult};
use crate::repository::Repository;

/// The names of the builtins that every loop can use.
pub const BUILTINS: [&str; 5] = ["call", "commit", "hydrate", "policy", "scope"];

/// A builtin.
pub trait Builtin: Send + Sync {
    /// Performs the builtin.
    ///
    /// # Errors
    /// [`EngineError`] only if an event cannot be recorded, or the repository cannot be read.
    fn perform(&self, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError>;
}

/// One invocation of a builtin.
pub struct BuiltinJob<'a> {
    /// The work to perform.
    pub assignment: &'a Assignment,
    /// The settings in the plan.
    pub with: &'a BTreeMap<String, Value>,
    /// The tools.
    pub tools: &'a ToolCaller<'a>,
    /// Records events.
    pub recorder: &'a PhaseRecorder<'a>,
    /// The repository.
    pub repository: &'a dyn Repository,
    /// The tool registry and the policy.
    pub gateways: &'a dyn GatewayProvider,
    /// The clock.
    pub clock: &'a dyn Clock,
    /// The agents.
    pub agents: &'a BTreeMap<String, Agent>,
    /// Runs programs.
    pub(super) executors: &'a Executors,
}

impl BuiltinJob<'_> {
    /// The repository of the workspace, without the files that were copied into it.
    #[must_use]
    pub fn git(&self) -> Git {
        git_of(&self.assignment.workspace, &self.assignment.run)
    }

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

/// Returns a list of strings in a task; an absent list is empty.
///
/// # Errors
/// A message if the value is not a list of strings.
pub fn task_strings<'a>(task: &'a Value, pointer: &str) -> Result<Vec<&'a str>, String> {
    let invalid = || format!("the task's `{}` is not a list of strings", pointer.trim_matches('/'));
    match task.pointer(pointer) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => {
            list.iter().map(|one| one.as_str().ok_or_else(invalid)).collect()
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            Err(invalid())
        }
    }
}
