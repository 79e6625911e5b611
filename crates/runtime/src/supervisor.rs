//! The interface between the gateway and the policy.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use windlass_connect::{Confinement, Limits, Target};
use windlass_kernel::artifact::{ActionRequest, NamedFile};
use windlass_kernel::grant::Terms;
use windlass_kernel::recovery::UncertainRule;
use windlass_kernel::{Code, Digest, RiskLevel};
use windlass_policy::{OnUncertain, RuleHit, Verdict};

use crate::secrets::FilledArgs;

/// Judges requests and prepares their dispatch. The default implementation uses the policy crate; the
/// trait allows another policy engine.
pub trait Supervisor: Send + Sync {
    /// The digest of the policy.
    fn policy_hash(&self) -> Digest;

    /// Judges a request. An error while judging is a denial.
    fn judge(&self, request: &ActionRequest) -> Ruling;

    /// Everything about a request that a person should see before deciding on it.
    fn examine(&self, request: &ActionRequest) -> Examination;

    /// Prepares the dispatch of a request.
    ///
    /// # Errors
    /// [`Refusal`] if the tool is not registered or its arguments are invalid.
    fn prepare(&self, request: &ActionRequest) -> Result<Preparation, Refusal>;

    /// Whether a grant with these terms covers everything that a person would be asked about. The scope,
    /// the uses and the expiry of the grant are not considered. An error while judging is a no.
    fn covers(&self, request: &ActionRequest, terms: &Terms) -> bool;

    /// Checks whether a grant with these terms can be given under the policy.
    ///
    /// # Errors
    /// [`Refusal`] if it is malformed or too wide, or the policy denies all that it covers.
    fn check_grant(&self, terms: &Terms) -> Result<(), Refusal>;

    /// Removes secrets from data before it is stored.
    fn redact(&self, value: &mut Value);
}

/// The ruling of a supervisor on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// Allow, ask or deny.
    pub verdict: Verdict,
    /// The code of a denial.
    pub code: Option<Code>,
    /// The reason, for a person.
    pub reason: String,
    /// The ids of the rules that matched.
    pub rules: Vec<String>,
}

/// What a person should see of a request before deciding on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examination {
    /// The commands that the call would run.
    pub commands: Vec<String>,
    /// The files that it names, as they are now.
    pub files: Vec<NamedFile>,
    /// What judging found besides.
    pub findings: Vec<String>,
    /// The folder that it would run in.
    pub folder: String,
    /// All rules that matched, strictest first.
    pub rules: Vec<RuleHit>,
}

/// Why a request or a call is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// The reason, in one line.
    pub reason: String,
}

/// How to dispatch a request, and what to do if its effect is unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Preparation {
    /// The target.
    pub target: Target,
    /// The name of the tool at the target.
    pub tool: String,
    /// The risk level of the tool in the tool registry.
    pub class: RiskLevel,
    /// The limits of time and output.
    pub limits: Limits,
    /// What to do if the effect is unknown.
    pub on_uncertain: OnUncertain,
    /// The maximum number of repeated dispatches.
    pub retries_max: u32,
    /// The confinement of a command; `None` means unconfined.
    pub confinement: Option<Confinement>,
    /// The arguments with the values of the secrets that they name; those of the request if `None`.
    pub args: Option<FilledArgs>,
    /// Whether an exit with 1 without a message is an answer: a search found nothing.
    pub no_match_is_an_answer: bool,
    /// When the working time of whoever makes the call is over.
    pub until: Option<Instant>,
}

/// The conditions under which a call is dispatched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conditions {
    /// When the working time is over.
    pub until: Option<Instant>,
    /// Whether it probes or undoes another call: then it is not undone itself.
    pub serves_other: bool,
}

impl Conditions {
    /// The conditions of a call for which this time is left.
    pub fn within(time_left: Option<Duration>) -> Self {
        let until = time_left.and_then(|left| Instant::now().checked_add(left));
        Self { until, serves_other: false }
    }
}

impl Preparation {
    /// The same, under the conditions of a caller.
    pub(crate) fn under(mut self, conditions: Conditions) -> Self {
        self.until = conditions.until;
        if conditions.serves_other && matches!(self.on_uncertain, OnUncertain::Compensate { .. }) {
            self.on_uncertain = OnUncertain::Hold;
        }
        self
    }

    /// Whether the working time is over.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    /// The time that the next dispatch may take.
    pub(crate) fn timeout(&self) -> Duration {
        let timeout = self.limits.timeout;
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        self.until.map_or(timeout, |until| left(until).min(timeout))
    }

    /// The kernel's rule for an unknown effect.
    #[must_use]
    pub const fn uncertain_rule(&self) -> UncertainRule {
        match self.on_uncertain {
            OnUncertain::Retry => UncertainRule::Retry,
            OnUncertain::Hold => UncertainRule::Hold,
            OnUncertain::Probe { .. } => UncertainRule::Probe,
            OnUncertain::Compensate { .. } => UncertainRule::Compensate,
        }
    }
}
