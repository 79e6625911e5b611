//! The facts about a task.
//!
//! Every fact is optional: an unknown one is `None`, and a check that needs it fails.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use windlass_kernel::Digest;

use crate::{IntentId, NextCall, ObservedState, Outcome, RecordedState, Selection, Usage};

/// The facts about a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Facts {
    /// The intent of the task.
    pub intent: Option<IntentId>,
    /// The intent that the output says it answers.
    pub output_intent: Option<IntentId>,
    /// Unanswered questions of the model or the driver.
    pub questions_open: Option<Vec<String>>,
    /// The model that was selected.
    pub selection: Option<Selection>,
    /// The model that answered, as its provider calls it.
    pub model_invoked: Option<String>,
    /// The project's context file.
    pub context: Option<ContextFacts>,
    /// Whether the project's memory was restored for this task.
    pub memory_restored: Option<bool>,
    /// The recorded and the observed state of the sandbox.
    pub sandbox: Option<SandboxFacts>,
    /// Whether the context file is being created.
    pub is_bootstrap: Option<bool>,
    /// Whether this is the first run in the project.
    pub is_first_run: Option<bool>,
    /// Whether anything failed in this task.
    pub has_failed: Option<bool>,
    /// Files that changed since the task began.
    pub paths_changed: Option<BTreeSet<String>>,
    /// The paths that the task may change: `.` for all, `src/` for all below, `a/b` for that file.
    pub paths_allowed: Option<BTreeSet<String>>,
    /// The paths that it may never change, in the same form.
    pub paths_denied: Option<BTreeSet<String>>,
    /// What the task has used.
    pub usage: Option<Usage>,
    /// The call that is about to be made.
    pub next_call: Option<NextCall>,
    /// Whether telemetry can be written.
    pub telemetry_writable: Option<bool>,
    /// Whether the output is well formed.
    pub output_well_formed: Option<bool>,
    /// Paths that the output names as existing and that do not exist.
    pub claimed_paths_missing: Option<BTreeSet<String>>,
    /// Symbols that the output names as existing and that do not exist.
    pub claimed_symbols_missing: Option<BTreeSet<String>>,
    /// Sources that the output cites and that do not exist.
    pub claimed_citations_missing: Option<BTreeSet<String>>,
    /// The keys that the output must have.
    pub output_keys_declared: Option<BTreeSet<String>>,
    /// The keys that the output has.
    pub output_keys: Option<BTreeSet<String>>,
    /// The outcome of verification.
    pub verification: Option<Outcome>,
}

/// The facts about the project's context file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextFacts {
    /// Whether it exists.
    pub is_present: bool,
    /// Whether it was found valid.
    pub is_valid: Option<bool>,
    /// Its digest now.
    pub digest: Option<Digest>,
    /// Its digest when the task assembled its context.
    pub digest_assembled: Option<Digest>,
    /// Whether the person was asked for it before, in this task.
    pub was_asked: bool,
}

/// The recorded and the observed state of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxFacts {
    /// The recorded state.
    pub recorded: RecordedState,
    /// The observed state.
    pub observed: ObservedState,
}
