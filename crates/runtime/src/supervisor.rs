//! What the gateway asks of policy and registry.

use serde::Serialize;
use serde_json::Value;
use windlass_connect::{Confinement, Limits, Target};
use windlass_kernel::artifact::ActionRequest;
use windlass_kernel::recovery::UncertainRule;
use windlass_kernel::{Code, Digest, RiskLevel};
use windlass_policy::{OnUncertain, Verdict};

/// Judges requests and knows how their tools are reached. The policy crate's set is behind the
/// shipped one; the seam lets another engine in.
pub trait Supervisor: Send + Sync {
    /// The digest of everything that decides.
    fn policy_hash(&self) -> Digest;

    /// Judges a request. Any error while judging is a denial.
    fn judge(&self, request: &ActionRequest) -> Ruling;

    /// Says how a request is handed over.
    ///
    /// # Errors
    /// A refusal: the tool is not registered, or its arguments do not fit it.
    fn prepare(&self, request: &ActionRequest) -> Result<Preparation, Refusal>;

    /// Takes known secrets out of what a tool said, before it is stored.
    fn redact(&self, value: &mut Value);
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// Allow, ask or deny.
    pub verdict: Verdict,
    /// The code of a denial.
    pub code: Option<Code>,
    /// Why, in words a person can act on.
    pub reason: String,
    /// The ids of the rules that matched.
    pub rules: Vec<String>,
}

/// Why a request or a call is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// Why, in one line.
    pub reason: String,
}

/// How a request is handed over, and what to do if nobody knows what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Preparation {
    /// Where it goes.
    pub target: Target,
    /// The tool's name there.
    pub tool: String,
    /// The registry's class of the tool.
    pub class: RiskLevel,
    /// How long it may take and how much it may say.
    pub limits: Limits,
    /// What to do when its effect is unknown.
    pub on_uncertain: OnUncertain,
    /// How often it may be handed over again.
    pub retries_max: u32,
    /// What a command is confined to; nothing means that it is free.
    pub confinement: Option<Confinement>,
}

impl Preparation {
    /// The kernel's name for what to do when the effect is unknown.
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
