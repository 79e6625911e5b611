//! The one intervention of a person: only the output is edited, and no model works.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_kernel::Digest;

use crate::outcome::Finding;
use crate::rules::known;
use crate::{CheckResult, DriverConfig, Outcome, Sandbox, Usage};

/// The outcome of a task after its one intervention: a second outcome other than PASS halts it.
///
/// Only a first outcome of INTERVENTION_REQUIRED leads to an intervention.
#[must_use]
pub const fn after_intervention(first: Outcome, second: Outcome) -> Outcome {
    match (first, second) {
        (Outcome::InterventionRequired, Outcome::Pass) => Outcome::Pass,
        (
            Outcome::Pass | Outcome::AskUser | Outcome::InterventionRequired | Outcome::Halt,
            Outcome::Pass | Outcome::AskUser | Outcome::InterventionRequired | Outcome::Halt,
        ) => Outcome::Halt,
    }
}

/// The facts about an intervention; an unknown one is a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InterventionFacts {
    /// The files that had changed before it, with their digests.
    pub changed_before: Option<BTreeMap<String, Digest>>,
    /// The files that have changed after it, with their digests.
    pub changed_after: Option<BTreeMap<String, Digest>>,
    /// The files that are the output.
    pub output_paths: Option<BTreeSet<String>>,
    /// What the task had used before it.
    pub usage_before: Option<Usage>,
    /// What the task has used after it.
    pub usage_after: Option<Usage>,
    /// The sandbox after it.
    pub sandbox: Option<Sandbox>,
}

/// Checks an intervention: no model worked, only the output was edited, the sandbox stayed on, and
/// no counter was reset.
#[must_use]
pub fn check_intervention(config: &DriverConfig, facts: &InterventionFacts) -> CheckResult {
    CheckResult::of(config, judge(facts))
}

fn judge(facts: &InterventionFacts) -> Result<(), Finding> {
    let before = known(facts.usage_before.as_ref(), "what the task had used")?;
    let after = known(facts.usage_after.as_ref(), "what the task has used")?;
    if after.calls() > before.calls() || after.tokens() > before.tokens() {
        return Err(Finding::authority("a model worked during the intervention"));
    }
    if after != before {
        return Err(Finding::policy("the task's counters changed during the intervention"));
    }
    let sandbox = known(facts.sandbox.as_ref(), "the state of the sandbox")?;
    if !sandbox.is_enabled() {
        return Err(Finding::policy("the sandbox is off during the intervention"));
    }
    let output = known(facts.output_paths.as_ref(), "which files are the output")?;
    let before = known(facts.changed_before.as_ref(), "what had changed")?;
    let after = known(facts.changed_after.as_ref(), "what has changed")?;
    let touched = |path: &&String| before.get(*path) != after.get(*path);
    let mut outside = before.keys().chain(after.keys()).filter(touched);
    match outside.find(|path| !output.contains(*path)) {
        None => Ok(()),
        Some(path) => Err(Finding::scope(format!("`{path}` was edited and is not the output"))),
    }
}
