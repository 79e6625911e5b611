//! The state of the sandbox: enabled unless every condition for leaving it is met.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_kernel::{Code, Digest};

use crate::config::CONTEXT_INTENT;
use crate::{DriverConfig, IntentId, Outcome};

/// Why the sandbox is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxReason {
    /// It is on by default.
    Default,
    /// A task began or ended.
    TaskBoundary,
    /// Something failed; the reason remains until the task ends.
    Failure,
    /// The context file changed and has not been validated since.
    ContextChanged,
    /// There is no context file.
    ContextMissing,
    /// The context file is not validated.
    ContextUnvalidated,
    /// The intent changed.
    IntentChanged,
    /// The intent is unknown.
    IntentUnresolved,
    /// The context file is being created.
    Bootstrap,
    /// This is the first run in the project; the reason remains until the task ends.
    FirstRun,
    /// The checks before leaving did not pass.
    ChecksNotPassed,
}

impl SandboxReason {
    /// All reasons.
    pub const ALL: [Self; 11] = [
        Self::Default,
        Self::TaskBoundary,
        Self::Failure,
        Self::ContextChanged,
        Self::ContextMissing,
        Self::ContextUnvalidated,
        Self::IntentChanged,
        Self::IntentUnresolved,
        Self::Bootstrap,
        Self::FirstRun,
        Self::ChecksNotPassed,
    ];

    /// Whether only an event can remove the reason, regardless of what an exit request claims.
    const fn needs_event(self) -> bool {
        match self {
            Self::Failure
            | Self::ContextChanged
            | Self::ContextMissing
            | Self::ContextUnvalidated
            | Self::Bootstrap
            | Self::FirstRun => true,
            Self::Default
            | Self::TaskBoundary
            | Self::IntentChanged
            | Self::IntentUnresolved
            | Self::ChecksNotPassed => false,
        }
    }

    /// Whether the reason concerns the context file, so that validation removes it.
    const fn is_context(self) -> bool {
        matches!(self, Self::ContextChanged | Self::ContextMissing | Self::ContextUnvalidated)
    }
}

/// The state of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
pub enum Sandbox {
    /// Enabled, for these reasons; an empty set is refused on reading.
    Enabled {
        /// The reasons; never empty.
        #[serde(deserialize_with = "some_reasons")]
        reasons: BTreeSet<SandboxReason>,
    },
    /// Disabled: every condition was met at the exit, and no event has enabled it since.
    Disabled,
}

fn some_reasons<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeSet<SandboxReason>, D::Error> {
    let reasons = BTreeSet::deserialize(deserializer)?;
    if reasons.is_empty() {
        return Err(serde::de::Error::custom("an enabled sandbox has a reason"));
    }
    Ok(reasons)
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::Enabled { reasons: BTreeSet::from([SandboxReason::Default]) }
    }
}

/// The conditions for leaving the sandbox; all must be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitConditions {
    /// The context file exists.
    pub context_present: bool,
    /// The current context file is validated.
    pub context_validated: bool,
    /// The context file is not being made.
    pub not_bootstrap: bool,
    /// The intent is known.
    pub intent_resolved: bool,
    /// The project had a run before.
    pub not_first_run: bool,
    /// Nothing failed in this task.
    pub no_failure_since: bool,
    /// The checks before leaving passed.
    pub checks_passed: bool,
}

impl ExitConditions {
    /// All conditions are met.
    pub const MET: Self = Self {
        context_present: true,
        context_validated: true,
        not_bootstrap: true,
        intent_resolved: true,
        not_first_run: true,
        no_failure_since: true,
        checks_passed: true,
    };

    /// The reasons that follow from the unmet conditions.
    #[must_use]
    pub fn unmet(&self) -> BTreeSet<SandboxReason> {
        let conditions = [
            (self.context_present, SandboxReason::ContextMissing),
            (self.context_validated, SandboxReason::ContextUnvalidated),
            (self.not_bootstrap, SandboxReason::Bootstrap),
            (self.intent_resolved, SandboxReason::IntentUnresolved),
            (self.not_first_run, SandboxReason::FirstRun),
            (self.no_failure_since, SandboxReason::Failure),
            (self.checks_passed, SandboxReason::ChecksNotPassed),
        ];
        conditions.into_iter().filter(|(holds, _)| !holds).map(|(_, reason)| reason).collect()
    }
}

/// An event that changes the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SandboxEvent {
    /// A task begins or ends.
    TaskBoundary,
    /// Something failed.
    Failure,
    /// The context file changed.
    ContextChanged,
    /// The intent changed.
    IntentChanged,
    /// The intent is not known.
    IntentUnresolved,
    /// There is no context file.
    ContextMissing,
    /// The current context file was validated.
    ContextValidated,
    /// The context file is being made.
    BootstrapStarted,
    /// The context file was created.
    BootstrapEnded,
    /// The project had no run before.
    FirstRunInProject,
    /// The driver requests to leave the sandbox.
    ExitRequested {
        /// The conditions that are met.
        conditions: ExitConditions,
    },
}

impl Sandbox {
    /// The state after an event.
    ///
    /// INVARIANT: this is the only transition table; only an exit request with every condition met,
    /// and no reason that needs an event, leads to [`Sandbox::Disabled`].
    #[must_use]
    pub fn apply(self, event: SandboxEvent) -> Self {
        let (mut reasons, was_off) = match self {
            Self::Enabled { reasons } => (reasons, false),
            Self::Disabled => (BTreeSet::new(), true),
        };
        match event {
            SandboxEvent::TaskBoundary => {
                // The task is over; problems of the context file remain.
                reasons.retain(|reason| reason.is_context());
                reasons.insert(SandboxReason::TaskBoundary);
            }
            SandboxEvent::Failure => _ = reasons.insert(SandboxReason::Failure),
            SandboxEvent::ContextChanged => _ = reasons.insert(SandboxReason::ContextChanged),
            SandboxEvent::IntentChanged => _ = reasons.insert(SandboxReason::IntentChanged),
            SandboxEvent::IntentUnresolved => _ = reasons.insert(SandboxReason::IntentUnresolved),
            SandboxEvent::ContextMissing => _ = reasons.insert(SandboxReason::ContextMissing),
            SandboxEvent::BootstrapStarted => _ = reasons.insert(SandboxReason::Bootstrap),
            SandboxEvent::FirstRunInProject => _ = reasons.insert(SandboxReason::FirstRun),
            SandboxEvent::ContextValidated if was_off => return Self::Disabled,
            SandboxEvent::ContextValidated => {
                reasons.retain(|reason| !reason.is_context());
                Self::keep_one(&mut reasons);
            }
            // An end without a start: the record cannot be trusted.
            SandboxEvent::BootstrapEnded if was_off => _ = reasons.insert(SandboxReason::Failure),
            SandboxEvent::BootstrapEnded => {
                reasons.remove(&SandboxReason::Bootstrap);
                Self::keep_one(&mut reasons);
            }
            SandboxEvent::ExitRequested { conditions } => {
                let unmet = conditions.unmet();
                if unmet.is_empty() && !reasons.iter().any(|reason| reason.needs_event()) {
                    return Self::Disabled;
                }
                // The request decides these two; the others remain until an event removes them.
                reasons.remove(&SandboxReason::ChecksNotPassed);
                reasons.remove(&SandboxReason::IntentUnresolved);
                reasons.extend(unmet);
            }
        }
        Self::Enabled { reasons }
    }

    /// Removing the last reason does not leave the sandbox: an exit request is needed.
    fn keep_one(reasons: &mut BTreeSet<SandboxReason>) {
        if reasons.is_empty() {
            reasons.insert(SandboxReason::Default);
        }
    }

    /// Whether the sandbox is enabled.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        matches!(self, Self::Enabled { .. })
    }
}

/// Whether the sandbox allows a task of this intent to write to a path.
///
/// While it is enabled, only the context file may be written, by the intent that creates it. While it
/// is disabled, the task's scope decides.
#[must_use]
pub fn may_write(config: &DriverConfig, sandbox: &Sandbox, intent: &IntentId, path: &str) -> bool {
    match sandbox {
        Sandbox::Disabled => true,
        Sandbox::Enabled { .. } => {
            intent.as_str() == CONTEXT_INTENT && path == config.context_file()
        }
    }
}

/// The recorded state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedState {
    /// The sandbox, folded from its events.
    pub sandbox: Sandbox,
    /// The digest of the context file; none when there was no file.
    pub context: Option<Digest>,
    /// The intent; none while it is unknown.
    pub intent: Option<IntentId>,
}

/// The observed state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservedState {
    /// Whether commands are confined now; none if that is unknown.
    pub confined: Option<bool>,
    /// The digest of the context file; none when there is no file.
    pub context: Option<Digest>,
    /// The intent of the next work.
    pub intent: Option<IntentId>,
}

/// A difference between recorded and observed state: nothing may be executed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SandboxMismatch {
    /// Whether commands are confined is unknown.
    #[error("the state of the sandbox could not be determined")]
    Unknown,
    /// Confinement is not as recorded.
    #[error("the sandbox is recorded as {recorded} but is {observed}")]
    Confinement {
        /// The recorded state.
        recorded: &'static str,
        /// The observed state.
        observed: &'static str,
    },
    /// The context file is not the recorded one.
    #[error("the context file is not the recorded one")]
    Context,
    /// The intent is not the recorded one.
    #[error("the intent is not the recorded one")]
    Intent,
    /// The sandbox is off although a condition is missing.
    #[error("the sandbox is recorded as off without {missing}")]
    OffWithout {
        /// What is missing.
        missing: &'static str,
    },
}

impl SandboxMismatch {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Unknown
            | Self::Confinement { .. }
            | Self::Context
            | Self::Intent
            | Self::OffWithout { .. } => Code::DriverSandboxInconsistent,
        }
    }

    /// The outcome of the task.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Unknown
            | Self::Confinement { .. }
            | Self::Context
            | Self::Intent
            | Self::OffWithout { .. } => Outcome::Halt,
        }
    }
}

/// Checks that the observed state is the recorded one; only then may anything be executed.
///
/// # Errors
/// [`SandboxMismatch`] for the first difference.
pub fn check_consistency(
    recorded: &RecordedState,
    observed: &ObservedState,
) -> Result<(), SandboxMismatch> {
    let name = |on: bool| if on { "on" } else { "off" };
    let on = recorded.sandbox.is_enabled();
    let confined = observed.confined.ok_or(SandboxMismatch::Unknown)?;
    if confined != on {
        return Err(SandboxMismatch::Confinement { recorded: name(on), observed: name(confined) });
    }
    if recorded.context != observed.context {
        return Err(SandboxMismatch::Context);
    }
    if recorded.intent != observed.intent {
        return Err(SandboxMismatch::Intent);
    }
    if !on && recorded.context.is_none() {
        return Err(SandboxMismatch::OffWithout { missing: "a context file" });
    }
    if !on && recorded.intent.is_none() {
        return Err(SandboxMismatch::OffWithout { missing: "an intent" });
    }
    Ok(())
}
