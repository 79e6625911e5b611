//! The four check points.

use serde::{Deserialize, Serialize};

use crate::outcome::Finding;
use crate::{DriverConfig, ExitConditions, Facts, FailureClass, Outcome, rules};

/// A point where the driver checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckPoint {
    /// Before a model is called.
    BeforeModel,
    /// After a model has answered.
    AfterModel,
    /// Before the project's memory is saved.
    BeforeSave,
    /// Before the sandbox is left.
    BeforeSandboxExit,
}

impl CheckPoint {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::BeforeModel, Self::AfterModel, Self::BeforeSave, Self::BeforeSandboxExit];
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckResult {
    /// PASS, or the outcome of the failure.
    pub outcome: Outcome,
    /// The class of failure; none at PASS.
    pub class: Option<FailureClass>,
    /// The reason; none at PASS.
    pub reason: Option<String>,
    /// The standard response to the person; none at PASS.
    pub response: Option<String>,
}

impl CheckResult {
    pub(crate) fn of(config: &DriverConfig, checked: Result<(), Finding>) -> Self {
        match checked {
            Ok(()) => Self { outcome: Outcome::Pass, class: None, reason: None, response: None },
            Err(finding) => Self {
                outcome: config.outcome(finding.class),
                class: Some(finding.class),
                reason: Some(finding.reason),
                response: Some(config.response(finding.response).to_owned()),
            },
        }
    }
}

/// Checks the facts at one point; a required fact that is unknown is a failure.
#[must_use]
pub fn check(config: &DriverConfig, point: CheckPoint, facts: &Facts) -> CheckResult {
    let checked = match point {
        CheckPoint::BeforeModel => before_model(config, facts),
        CheckPoint::AfterModel => after_model(config, facts),
        CheckPoint::BeforeSave => before_save(config, facts),
        CheckPoint::BeforeSandboxExit => before_sandbox_exit(config, facts),
    };
    CheckResult::of(config, checked)
}

fn before_model(config: &DriverConfig, facts: &Facts) -> Result<(), Finding> {
    rules::telemetry(facts)?;
    let intent = rules::intent(config, facts)?;
    rules::sandbox(facts)?;
    rules::questions(facts)?;
    let selection = rules::selection(config, intent, facts)?;
    rules::context(intent, facts)?;
    rules::next_call(config, facts, selection)
}

fn after_model(config: &DriverConfig, facts: &Facts) -> Result<(), Finding> {
    rules::telemetry(facts)?;
    let intent = rules::intent(config, facts)?;
    rules::sandbox(facts)?;
    let selection = rules::selection(config, intent, facts)?;
    rules::invoked(facts, selection)?;
    rules::spent(config, facts, selection)?;
    rules::scope(config, intent, facts)?;
    rules::well_formed(facts)
}

fn before_save(config: &DriverConfig, facts: &Facts) -> Result<(), Finding> {
    rules::telemetry(facts)?;
    let intent = rules::intent(config, facts)?;
    rules::sandbox(facts)?;
    if !intent.save_allowed {
        return Err(Finding::scope(format!("intent `{}` may not save", intent.name)));
    }
    rules::passed(facts)?;
    rules::context(intent, facts)
}

fn before_sandbox_exit(config: &DriverConfig, facts: &Facts) -> Result<(), Finding> {
    rules::telemetry(facts)?;
    rules::intent(config, facts)?;
    rules::sandbox(facts)?;
    rules::questions(facts)?;
    rules::context_file(facts)?;
    let absent = rules::absent;
    absent(
        facts.is_bootstrap,
        "whether the context file is being made",
        "the context file is being made",
    )?;
    absent(
        facts.is_first_run,
        "whether the project had a run before",
        "it is the first run in the project",
    )?;
    absent(facts.has_failed, "whether anything failed", "something failed in this task")
}

/// The conditions for leaving the sandbox that hold; unknown ones do not hold.
#[must_use]
pub fn exit_conditions(config: &DriverConfig, facts: &Facts) -> ExitConditions {
    let context = facts.context.as_ref();
    let point = CheckPoint::BeforeSandboxExit;
    ExitConditions {
        context_present: context.is_some_and(|context| context.is_present),
        context_validated: context.is_some_and(|context| context.is_valid == Some(true)),
        not_bootstrap: facts.is_bootstrap == Some(false),
        intent_resolved: facts.intent.as_ref().is_some_and(|name| config.intent(name).is_some()),
        not_first_run: facts.is_first_run == Some(false),
        no_failure_since: facts.has_failed == Some(false),
        checks_passed: check(config, point, facts).outcome.is_success(),
    }
}
