//! What the engine knows, as plain data.
//!
//! Every fact is optional: what is not known is `None`, and whatever needs it then fails.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use windlass_kernel::Digest;

use crate::{IntentId, NextCall, Observed, Outcome, Recorded, Selection, Usage};

/// What the engine knows of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Facts {
    /// What the task is about.
    pub intent: Option<IntentId>,
    /// The intent that the output says it answers.
    pub output_intent: Option<IntentId>,
    /// Questions of the model or the driver that nobody has answered.
    pub questions_open: Option<Vec<String>>,
    /// The model that was selected.
    pub selection: Option<Selection>,
    /// The model that answered, as its provider calls it.
    pub model_invoked: Option<String>,
    /// The project's context file.
    pub context: Option<ContextFacts>,
    /// Whether the project's memory was restored for this task.
    pub memory_restored: Option<bool>,
    /// The sandbox as recorded and as it is.
    pub sandbox: Option<SandboxFacts>,
    /// Whether the context file is being made.
    pub is_bootstrap: Option<bool>,
    /// Whether this is the first run in the project.
    pub is_first_run: Option<bool>,
    /// Whether anything failed in this task.
    pub has_failed: Option<bool>,
    /// Files that changed since the task began.
    pub paths_changed: Option<BTreeSet<String>>,
    /// What the task may change: `.` for all, `src/` for all below, `a/b` for that file.
    pub paths_allowed: Option<BTreeSet<String>>,
    /// What it may not change in any case, in the same form.
    pub paths_denied: Option<BTreeSet<String>>,
    /// What the task has spent.
    pub usage: Option<Usage>,
    /// The call that is about to be made.
    pub next_call: Option<NextCall>,
    /// Whether telemetry can be written.
    pub telemetry_writable: Option<bool>,
    /// Whether the output has its form.
    pub output_well_formed: Option<bool>,
    /// Paths that the output names as existing and that do not exist.
    pub claimed_paths_missing: Option<BTreeSet<String>>,
    /// Symbols that the output names as existing and that do not exist.
    pub claimed_symbols_missing: Option<BTreeSet<String>>,
    /// Sources that the output cites and that do not exist.
    pub claimed_citations_missing: Option<BTreeSet<String>>,
    /// The keys that the output must have.
    pub output_keys_declared: Option<BTreeSet<String>>,
    /// The keys that it has.
    pub output_keys: Option<BTreeSet<String>>,
    /// How verification ended.
    pub verification: Option<Outcome>,
}

/// What is known of the project's context file.
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

/// The sandbox as recorded and as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxFacts {
    /// What the journal says.
    pub recorded: Recorded,
    /// What is so.
    pub observed: Observed,
}
