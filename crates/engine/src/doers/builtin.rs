//! What the engine itself can do in a phase.

mod call;
mod commit;
mod hydrate;
mod policy;
mod scope;

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_kernel::TraceId;
use windlass_kernel::run::Usage;
use windlass_runtime::Source;

use super::Product;
use super::agent::Agent;
use super::toolbox::Toolbox;
use crate::engine::Workshop;
use crate::error::EngineError;
use crate::hands::{Assignment, Desk};
use crate::repository::Repository;

/// The names of the builtins that every loop can use.
pub const BUILTINS: [&str; 5] = ["call", "commit", "hydrate", "policy", "scope"];

/// One builtin.
pub trait Builtin: Send + Sync {
    /// Does it.
    ///
    /// # Errors
    /// [`EngineError`] only when something could not be recorded or told at all.
    fn perform(&self, job: &Job<'_>) -> Result<Deed, EngineError>;
}

/// What a builtin works with.
pub struct Job<'a> {
    /// What is to be done.
    pub assignment: &'a Assignment,
    /// The plan's settings for it.
    pub with: &'a BTreeMap<String, Value>,
    /// Tools.
    pub tools: &'a Toolbox<'a>,
    /// Where things are put on record.
    pub desk: &'a Desk<'a>,
    /// The repository.
    pub place: &'a dyn Repository,
    /// The policy's sizes and classes.
    pub workshop: &'a dyn Workshop,
    /// The time.
    pub source: &'a dyn Source,
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

/// What came of a builtin.
#[derive(Debug)]
pub enum Deed {
    /// An answer: an object.
    Answer(Value),
    /// A failure.
    Failed {
        /// Its class.
        class: String,
        /// For a person.
        reason: String,
    },
    /// A call waits for a person.
    Waiting {
        /// The call.
        call: TraceId,
        /// What is asked.
        question: String,
    },
    /// The stop switch was seen.
    Stopped,
}

impl Deed {
    /// A failure.
    pub fn failed(class: &str, reason: impl Into<String>) -> Self {
        Self::Failed { class: class.to_owned(), reason: reason.into() }
    }
}

impl From<Deed> for Product {
    fn from(deed: Deed) -> Self {
        match deed {
            Deed::Answer(answer) => Self::Answer { answer, usage: Usage::default() },
            Deed::Failed { class, reason } => Self::failed(&class, reason),
            Deed::Waiting { call, question } => Self::Waiting { call, question },
            Deed::Stopped => Self::Stopped,
        }
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
