//! The four artifacts of a call: request, decision, call, effect, each bound to the one before it.
//!
//! A body is stored without a digest field; its digest is the SHA-256 of its canonical bytes and
//! stands in the entry that carries it.
//!
//! INVARIANT: fields are written in the order of their names, which is canonical; a property test
//! holds each artifact against the general encoder.

mod write;

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canon::{self, CanonError};
use crate::entry::present;
use crate::{
    ArtifactId, ArtifactType, Code, Digest, PlanId, RiskLevel, Timestamp, ToolCallId, TraceId,
};

/// Something an action reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// Which one it is.
    #[schemars(length(min = 1, max = 4096))]
    pub id: String,
    /// What it is, e.g. `file` or `tool`.
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,
}

/// The tool and the arguments that are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// Its arguments.
    pub args: Value,
    /// The tool.
    #[schemars(regex(pattern = r"^[a-z0-9_-]+$"), length(max = 64))]
    pub tool_name: String,
    /// The server that has the tool.
    #[schemars(regex(pattern = r"^[a-z0-9_-]+$"), length(max = 64))]
    pub tool_server: String,
}

/// What an agent wants done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// Who asks.
    #[serde(deserialize_with = "present")]
    pub agent: Option<String>,
    /// The artifact's id.
    pub artifact_id: ArtifactId,
    /// The key under which it may take effect once.
    #[serde(deserialize_with = "present")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
    /// What it is for, in words.
    #[schemars(length(min = 10, max = 1000))]
    pub intent: String,
    /// In which phase of its run.
    #[serde(deserialize_with = "present")]
    pub phase: Option<String>,
    /// The plan that the trace belongs to.
    pub plan_id: PlanId,
    /// The call that is asked for.
    pub proposal: Proposal,
    /// What it reaches.
    #[schemars(length(min = 1, max = 256))]
    pub resources: Vec<Resource>,
    /// The class that the request declares.
    pub risk_level: RiskLevel,
    /// What kind of document this is.
    pub schema_id: Cow<'static, str>,
    /// Its version.
    pub schema_version: Cow<'static, str>,
    /// The trace it opens.
    pub trace_id: TraceId,
    /// When it was made.
    pub ts: Timestamp,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    /// The call may be made.
    Approve,
    /// The call may not be made.
    Deny,
    /// A person must decide; the call stays pending.
    NeedsApproval,
}

impl Decision {
    /// The decision as artifacts write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "APPROVE",
            Self::Deny => "DENY",
            Self::NeedsApproval => "NEEDS_APPROVAL",
        }
    }
}

/// Who decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum DecidedBy {
    /// The policy, by these rules.
    Policy {
        /// The ids of the rules that matched.
        rules: Vec<String>,
    },
    /// A person.
    Person {
        /// The name given.
        name: String,
    },
}

/// The answer of policy or of a person to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SupervisorDecision {
    /// The artifact's id.
    pub artifact_id: ArtifactId,
    /// The code of a refusal.
    #[serde(deserialize_with = "present")]
    pub code: Option<Code>,
    /// Who decided.
    pub decided_by: DecidedBy,
    /// What was decided.
    pub decision: Decision,
    /// The digest of the policy in force.
    pub policy_hash: Digest,
    /// Why, in words a person can act on.
    pub rationale: String,
    /// The digest of the request that was judged.
    pub request_digest: Digest,
    /// What kind of document this is.
    pub schema_id: Cow<'static, str>,
    /// Its version.
    pub schema_version: Cow<'static, str>,
    /// The trace it belongs to.
    pub trace_id: TraceId,
    /// When it was made.
    pub ts: Timestamp,
}

/// The call as it is handed to its connector. Its arguments are those of the request, by digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The artifact's id.
    pub artifact_id: ArtifactId,
    /// The digest of the decision that allows it.
    pub decision_digest: Digest,
    /// The key that travels with it.
    #[serde(deserialize_with = "present")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
    /// The digest of the request's proposal: server, tool and arguments.
    pub proposal_digest: Digest,
    /// What kind of document this is.
    pub schema_id: Cow<'static, str>,
    /// Its version.
    pub schema_version: Cow<'static, str>,
    /// The call's id, the same through every dispatch.
    pub tool_call_id: ToolCallId,
    /// The trace it belongs to.
    pub trace_id: TraceId,
    /// When it was made.
    pub ts: Timestamp,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// The tool reported success. Only this completes a call.
    Success,
    /// The tool reported failure.
    Failure,
    /// The call was given up before or instead of another dispatch.
    Denied,
    /// The tool could not be reached, did not answer, or answered nonsense.
    Error,
}

impl Outcome {
    /// The outcome as artifacts write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Failure => "FAILURE",
            Self::Denied => "DENIED",
            Self::Error => "ERROR",
        }
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectError {
    /// The stable code.
    pub code: Code,
    /// Whether the call may have taken effect all the same.
    pub may_have_run: bool,
    /// What happened, in one line.
    pub message: String,
}

/// How the effect came to be known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum SettledBy {
    /// The connector's answer to a dispatch.
    Answer,
    /// Another call that asked whether the key took effect.
    Probe {
        /// The digest of its last entry.
        entry_digest: Digest,
        /// That call's trace.
        trace_id: TraceId,
    },
    /// Another call that undid this one.
    Compensation {
        /// The digest of its last entry.
        entry_digest: Digest,
        /// That call's trace.
        trace_id: TraceId,
    },
    /// A person who gave the call up.
    Person {
        /// The name given.
        name: String,
    },
}

/// Why a call was handed over once more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redispatch {
    /// Which dispatch this is; the first one, announced by the EXECUTING entry, is 1.
    #[schemars(range(min = 2))]
    pub attempt: u32,
    /// The person who asked for it; `None` when the tool's rule did.
    #[serde(deserialize_with = "present")]
    pub by: Option<String>,
    /// Why.
    pub reason: String,
    /// When it was recorded, before it was made.
    pub ts: Timestamp,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolEffect {
    /// The artifact's id.
    pub artifact_id: ArtifactId,
    /// How long the last dispatch took.
    #[schemars(range(max = 9_007_199_254_740_991_i64))]
    pub duration_ms: u64,
    /// What went wrong, if anything did.
    #[serde(deserialize_with = "present")]
    pub error: Option<EffectError>,
    /// How it ended.
    pub outcome: Outcome,
    /// The dispatches after the first.
    pub redispatches: Vec<Redispatch>,
    /// What the tool answered.
    pub result: Value,
    /// What kind of document this is.
    pub schema_id: Cow<'static, str>,
    /// Its version.
    pub schema_version: Cow<'static, str>,
    /// How the effect came to be known.
    pub settled_by: SettledBy,
    /// The digest of the call.
    pub tool_call_digest: Digest,
    /// The call's id.
    pub tool_call_id: ToolCallId,
    /// The trace it belongs to.
    pub trace_id: TraceId,
    /// When it was made.
    pub ts: Timestamp,
}

/// One of the four, with what the envelope needs of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Artifact {
    /// A request.
    Request(ActionRequest),
    /// A decision.
    Decision(SupervisorDecision),
    /// A call.
    Call(ToolCall),
    /// An effect.
    Effect(ToolEffect),
}

/// Names an artifact's kind in its `schema_id`.
macro_rules! schema_ids {
    ($($type:ident = $id:literal),*) => {$(
        impl $type {
            /// The `schema_id` of this artifact.
            pub const SCHEMA_ID: &'static str = $id;
        }
    )*};
}

schema_ids! {
    ActionRequest = "tga.action_request",
    SupervisorDecision = "tga.supervisor_decision",
    ToolCall = "tga.tool_call",
    ToolEffect = "tga.tool_effect"
}

impl Artifact {
    /// Reads an artifact of a known type from its stored body.
    ///
    /// # Errors
    /// [`CanonError`] when the body is not such an artifact.
    pub fn read(artifact_type: ArtifactType, body: &[u8]) -> Result<Self, CanonError> {
        fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, CanonError> {
            serde_json::from_slice(body).map_err(|error| CanonError::Invalid(error.to_string()))
        }
        match artifact_type {
            ArtifactType::ActionRequest => read(body).map(Self::Request),
            ArtifactType::SupervisorDecision => read(body).map(Self::Decision),
            ArtifactType::ToolCall => read(body).map(Self::Call),
            ArtifactType::ToolEffect => read(body).map(Self::Effect),
            ArtifactType::RunEvent => {
                Err(CanonError::Invalid("a call has no run events".to_owned()))
            }
        }
    }

    /// The artifact's type.
    #[must_use]
    pub const fn artifact_type(&self) -> ArtifactType {
        match self {
            Self::Request(_) => ArtifactType::ActionRequest,
            Self::Decision(_) => ArtifactType::SupervisorDecision,
            Self::Call(_) => ArtifactType::ToolCall,
            Self::Effect(_) => ArtifactType::ToolEffect,
        }
    }

    /// The artifact's id.
    #[must_use]
    pub const fn artifact_id(&self) -> ArtifactId {
        match self {
            Self::Request(request) => request.artifact_id,
            Self::Decision(decision) => decision.artifact_id,
            Self::Call(call) => call.artifact_id,
            Self::Effect(effect) => effect.artifact_id,
        }
    }

    /// When the artifact was made.
    #[must_use]
    pub const fn ts(&self) -> Timestamp {
        match self {
            Self::Request(request) => request.ts,
            Self::Decision(decision) => decision.ts,
            Self::Call(call) => call.ts,
            Self::Effect(effect) => effect.ts,
        }
    }

    /// The trace that the artifact belongs to.
    #[must_use]
    pub const fn trace_id(&self) -> TraceId {
        match self {
            Self::Request(request) => request.trace_id,
            Self::Decision(decision) => decision.trace_id,
            Self::Call(call) => call.trace_id,
            Self::Effect(effect) => effect.trace_id,
        }
    }

    /// The artifact's canonical bytes, as they are stored and hashed.
    ///
    /// # Errors
    /// [`CanonError`] when arguments or result hold what canonical JSON would change.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CanonError> {
        Ok(match self {
            Self::Request(request) => {
                canon::check(&request.proposal.args)?;
                canon::written(request)
            }
            Self::Decision(decision) => canon::written(decision),
            Self::Call(call) => canon::written(call),
            Self::Effect(effect) => {
                canon::check(&effect.result)?;
                canon::written(effect)
            }
        })
    }
}

impl Proposal {
    /// The digest under which an idempotency key is bound to what it was first used for.
    ///
    /// # Errors
    /// [`CanonError`] when the arguments hold what canonical JSON would change.
    pub fn digest(&self) -> Result<Digest, CanonError> {
        canon::check(&self.args)?;
        Ok(Digest::of(&canon::written(self)))
    }
}

#[cfg(test)]
mod tests;
