//! The sandbox: on unless every condition for leaving it holds.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_kernel::{Code, Digest};

use crate::config::CONTEXT_INTENT;
use crate::{DriverConfig, IntentId, Outcome};

/// Why the sandbox is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It is on by default.
    Default,
    /// A task began or ended.
    TaskBoundary,
    /// Something failed; it stays so until the task ends.
    Failure,
    /// The context file changed and is not validated since.
    ContextChanged,
    /// There is no context file.
    ContextMissing,
    /// The context file is not validated.
    ContextUnvalidated,
    /// The intent changed.
    IntentChanged,
    /// The intent is not known.
    IntentUnresolved,
    /// The context file is being made.
    Bootstrap,
    /// It is the first run in this project; it stays so until the task ends.
    FirstRun,
    /// The checks before leaving it did not pass.
    ChecksNotPassed,
}

impl Reason {
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

    /// Whether only a recorded event can take the reason away, whatever a request to leave claims.
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

    /// Whether the reason is about the context file, which validating it answers.
    const fn is_context(self) -> bool {
        matches!(self, Self::ContextChanged | Self::ContextMissing | Self::ContextUnvalidated)
    }
}

/// Where the sandbox stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
pub enum Sandbox {
    /// On, for these reasons; without a reason it could not be explained, and is not read.
    Enabled {
        /// Why; never empty.
        #[serde(deserialize_with = "some_reasons")]
        reasons: BTreeSet<Reason>,
    },
    /// Off: every condition held when it was left, and nothing has happened since.
    Disabled,
}

fn some_reasons<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeSet<Reason>, D::Error> {
    let reasons = BTreeSet::deserialize(deserializer)?;
    if reasons.is_empty() {
        return Err(serde::de::Error::custom("an enabled sandbox has a reason"));
    }
    Ok(reasons)
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::Enabled { reasons: BTreeSet::from([Reason::Default]) }
    }
}

/// What must hold to leave the sandbox: all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitConditions {
    /// The context file exists.
    pub context_present: bool,
    /// The context file is validated as it is now.
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
    /// All conditions hold.
    pub const MET: Self = Self {
        context_present: true,
        context_validated: true,
        not_bootstrap: true,
        intent_resolved: true,
        not_first_run: true,
        no_failure_since: true,
        checks_passed: true,
    };

    /// What the unmet conditions mean.
    #[must_use]
    pub fn unmet(&self) -> BTreeSet<Reason> {
        let conditions = [
            (self.context_present, Reason::ContextMissing),
            (self.context_validated, Reason::ContextUnvalidated),
            (self.not_bootstrap, Reason::Bootstrap),
            (self.intent_resolved, Reason::IntentUnresolved),
            (self.not_first_run, Reason::FirstRun),
            (self.no_failure_since, Reason::Failure),
            (self.checks_passed, Reason::ChecksNotPassed),
        ];
        conditions.into_iter().filter(|(holds, _)| !holds).map(|(_, reason)| reason).collect()
    }
}

/// What happens to the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A task begins or ends.
    TaskBoundary,
    /// Something failed.
    Failure,
    /// The context file is not what it was.
    ContextChanged,
    /// The intent is not what it was.
    IntentChanged,
    /// The intent is not known.
    IntentUnresolved,
    /// There is no context file.
    ContextMissing,
    /// The context file was validated as it is now.
    ContextValidated,
    /// The context file is being made.
    BootstrapStarted,
    /// The context file has been made.
    BootstrapEnded,
    /// The project had no run before.
    FirstRunInProject,
    /// The driver wants to leave the sandbox.
    ExitRequested {
        /// What holds.
        conditions: ExitConditions,
    },
}

impl Sandbox {
    /// Where the sandbox stands after an event.
    ///
    /// INVARIANT: this is the only table; only a request to leave with every condition met, and no
    /// recorded reason against it, ends in [`Sandbox::Disabled`].
    #[must_use]
    pub fn apply(self, event: Event) -> Self {
        let (mut reasons, was_off) = match self {
            Self::Enabled { reasons } => (reasons, false),
            Self::Disabled => (BTreeSet::new(), true),
        };
        match event {
            Event::TaskBoundary => {
                // The task is over; what is wrong with the context file is not.
                reasons.retain(|reason| reason.is_context());
                reasons.insert(Reason::TaskBoundary);
            }
            Event::Failure => _ = reasons.insert(Reason::Failure),
            Event::ContextChanged => _ = reasons.insert(Reason::ContextChanged),
            Event::IntentChanged => _ = reasons.insert(Reason::IntentChanged),
            Event::IntentUnresolved => _ = reasons.insert(Reason::IntentUnresolved),
            Event::ContextMissing => _ = reasons.insert(Reason::ContextMissing),
            Event::BootstrapStarted => _ = reasons.insert(Reason::Bootstrap),
            Event::FirstRunInProject => _ = reasons.insert(Reason::FirstRun),
            Event::ContextValidated if was_off => return Self::Disabled,
            Event::ContextValidated => {
                reasons.retain(|reason| !reason.is_context());
                Self::keep_one(&mut reasons);
            }
            // An end without a beginning: the record is not to be trusted.
            Event::BootstrapEnded if was_off => _ = reasons.insert(Reason::Failure),
            Event::BootstrapEnded => {
                reasons.remove(&Reason::Bootstrap);
                Self::keep_one(&mut reasons);
            }
            Event::ExitRequested { conditions } => {
                let unmet = conditions.unmet();
                if unmet.is_empty() && !reasons.iter().any(|reason| reason.needs_event()) {
                    return Self::Disabled;
                }
                // These two are as the request says; the others stay until an event answers them.
                reasons.remove(&Reason::ChecksNotPassed);
                reasons.remove(&Reason::IntentUnresolved);
                reasons.extend(unmet);
            }
        }
        Self::Enabled { reasons }
    }

    /// Taking the last reason away is not leaving: that has to be asked for.
    fn keep_one(reasons: &mut BTreeSet<Reason>) {
        if reasons.is_empty() {
            reasons.insert(Reason::Default);
        }
    }

    /// Whether the sandbox is on.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        matches!(self, Self::Enabled { .. })
    }
}

/// Whether the sandbox lets a task of this intent write to a path.
///
/// Inside it there is one such path: the context file itself, for the intent that makes it. Outside
/// it the task's scope decides, not the sandbox.
#[must_use]
pub fn may_write(config: &DriverConfig, sandbox: &Sandbox, intent: &IntentId, path: &str) -> bool {
    match sandbox {
        Sandbox::Disabled => true,
        Sandbox::Enabled { .. } => {
            intent.as_str() == CONTEXT_INTENT && path == config.context_file()
        }
    }
}

/// What the journal says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The sandbox, folded from its events.
    pub sandbox: Sandbox,
    /// The digest of the context file; none when there was no file.
    pub context: Option<Digest>,
    /// The intent; none while it is not known.
    pub intent: Option<IntentId>,
}

/// What is so in the world, as far as it could be found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// Whether what runs now would be confined; none when that could not be found out.
    pub confined: Option<bool>,
    /// The digest of the context file; none when there is no file.
    pub context: Option<Digest>,
    /// The intent that is about to be worked on.
    pub intent: Option<IntentId>,
}

/// A sandbox that is not as recorded: nothing may be executed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Inconsistent {
    /// Nobody knows whether commands are confined.
    #[error("whether the sandbox is on could not be found out")]
    Unknown,
    /// Confinement is not as recorded.
    #[error("the sandbox is recorded as {recorded} and is {observed}")]
    Confinement {
        /// As recorded.
        recorded: &'static str,
        /// As it is.
        observed: &'static str,
    },
    /// The context file is not the recorded one.
    #[error("the context file is not the recorded one")]
    Context,
    /// The intent is not the recorded one.
    #[error("the intent is not the recorded one")]
    Intent,
    /// The sandbox is off without what it takes to be off.
    #[error("the sandbox is recorded as off without {missing}")]
    OffWithout {
        /// What is not there.
        missing: &'static str,
    },
}

impl Inconsistent {
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

    /// What the task comes to.
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

/// Says whether the world is as recorded; only then may anything be executed.
///
/// # Errors
/// [`Inconsistent`] for the first difference.
pub fn consistent(recorded: &Recorded, observed: &Observed) -> Result<(), Inconsistent> {
    let name = |on: bool| if on { "on" } else { "off" };
    let on = recorded.sandbox.is_enabled();
    let confined = observed.confined.ok_or(Inconsistent::Unknown)?;
    if confined != on {
        return Err(Inconsistent::Confinement { recorded: name(on), observed: name(confined) });
    }
    if recorded.context != observed.context {
        return Err(Inconsistent::Context);
    }
    if recorded.intent != observed.intent {
        return Err(Inconsistent::Intent);
    }
    if !on && recorded.context.is_none() {
        return Err(Inconsistent::OffWithout { missing: "a context file" });
    }
    if !on && recorded.intent.is_none() {
        return Err(Inconsistent::OffWithout { missing: "an intent" });
    }
    Ok(())
}
