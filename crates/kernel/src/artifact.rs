//! The four artifacts of a call: request, decision, call, effect. Each refers to the one before it.
//!
//! A body is stored without a digest field; its digest is the SHA-256 of its canonical bytes and is
//! a field of its entry.
//!
//! INVARIANT: fields are written in the canonical order, which is the order of their names; a property
//! test compares each artifact with the general encoder.

mod people;
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

pub use people::{Decider, Edit, NamedFile};

/// A resource that an action affects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// The id of the resource.
    #[schemars(length(min = 1, max = 4096))]
    pub id: String,
    /// The kind of the resource, e.g. `file` or `tool`.
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,
}

/// The requested tool, its arguments and where it works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// The arguments.
    pub args: Value,
    /// The tool.
    #[schemars(regex(pattern = r"^[a-z0-9_-]+$"), length(max = 64))]
    pub tool_name: String,
    /// The server that has the tool.
    #[schemars(regex(pattern = r"^[a-z0-9_-]+$"), length(max = 64))]
    pub tool_server: String,
    /// The workspace that the call works in: [`PROJECT_WORKSPACE`], [`CLIENT_WORKSPACE`], or a work tree's path.
    #[schemars(length(min = 1, max = 4096))]
    pub workspace: String,
}

/// The workspace of a call that works in the project's folder.
pub const PROJECT_WORKSPACE: &str = ".";

/// The workspace of a call that a coding agent makes itself: recorded before that, and never dispatched.
pub const CLIENT_WORKSPACE: &str = "client";

/// A request for a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// The agent that requests the call.
    #[serde(deserialize_with = "present")]
    pub agent: Option<String>,
    /// The artifact's id.
    pub artifact_id: ArtifactId,
    /// The files that the call names, if a person is asked about it.
    pub files: Vec<NamedFile>,
    /// The idempotency key, under which the call takes effect at most once.
    #[serde(deserialize_with = "present")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
    /// The purpose of the call, for a person.
    #[schemars(length(min = 10, max = 1000))]
    pub intent: String,
    /// The phase of the run that requests the call.
    #[serde(deserialize_with = "present")]
    pub phase: Option<String>,
    /// The plan that the trace belongs to.
    pub plan_id: PlanId,
    /// The requested call.
    pub proposal: Proposal,
    /// The resources that the call affects.
    #[schemars(length(min = 1, max = 256))]
    pub resources: Vec<Resource>,
    /// The risk level that the request declares.
    pub risk_level: RiskLevel,
    /// The run that makes the call. Only this run continues it, and people decide on it through the run.
    #[serde(deserialize_with = "present")]
    pub run: Option<TraceId>,
    /// The kind of this document.
    pub schema_id: Cow<'static, str>,
    /// The version of the schema.
    pub schema_version: Cow<'static, str>,
    /// The trace that the request begins.
    pub trace_id: TraceId,
    /// The time of creation.
    pub ts: Timestamp,
}

/// A decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    /// The call may be dispatched.
    Approve,
    /// The call may not be dispatched.
    Deny,
    /// A person must decide; the call stays pending.
    NeedsApproval,
}

impl Decision {
    /// The name that artifacts use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "APPROVE",
            Self::Deny => "DENY",
            Self::NeedsApproval => "NEEDS_APPROVAL",
        }
    }
}

/// The source of a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum DecidedBy {
    /// Rules of the policy.
    Policy {
        /// The ids of the rules that matched.
        rules: Vec<String>,
    },
    /// People.
    Person {
        /// Who they are.
        decider: Decider,
        /// The arguments that they put in place of the requested ones, if they did.
        #[serde(deserialize_with = "present")]
        edit: Option<Edit>,
        /// The files that the call names, as the person saw them, if they had changed since the question.
        files: Vec<NamedFile>,
    },
    /// A grant, for a call that the policy asks about.
    Grant {
        /// The digest of the entry of the grant that records this use.
        entry_digest: Digest,
        /// The trace of the grant.
        grant: TraceId,
        /// The name of the person who gave it.
        name: String,
    },
    /// The person at a coding agent, whom its client asks with its own prompt before it makes the call. Not signed.
    Prompt {
        /// The client.
        client: String,
        /// The ids of the rules that matched.
        rules: Vec<String>,
    },
}

/// The decision of the policy or of a person on a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SupervisorDecision {
    /// The artifact's id.
    pub artifact_id: ArtifactId,
    /// The code of a refusal.
    #[serde(deserialize_with = "present")]
    pub code: Option<Code>,
    /// The source of the decision.
    pub decided_by: DecidedBy,
    /// The decision.
    pub decision: Decision,
    /// The digest of the policy in force.
    pub policy_hash: Digest,
    /// The reason, for a person.
    pub rationale: String,
    /// The digest of the request that was judged.
    pub request_digest: Digest,
    /// The kind of this document.
    pub schema_id: Cow<'static, str>,
    /// The version of the schema.
    pub schema_version: Cow<'static, str>,
    /// The trace of the call.
    pub trace_id: TraceId,
    /// The time of creation.
    pub ts: Timestamp,
}

/// A file before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// The digest of its content after the change.
    pub after: Digest,
    /// The digest of its content before the change; none if there is no such file.
    #[serde(deserialize_with = "present")]
    pub before: Option<Digest>,
    /// Its path in the workspace.
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
}

/// The call as it is dispatched to its connector. It refers to the arguments of the request by digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The artifact's id.
    pub artifact_id: ArtifactId,
    /// The digest of the decision that allows it.
    pub decision_digest: Digest,
    /// What the call will make of a file, if its connector can tell. A repeated dispatch has this effect or none.
    #[serde(deserialize_with = "present")]
    pub foreseen: Option<FileChange>,
    /// The idempotency key that is sent with the call.
    #[serde(deserialize_with = "present")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
    /// The digest of the request's proposal: server, tool and arguments.
    pub proposal_digest: Digest,
    /// The kind of this document.
    pub schema_id: Cow<'static, str>,
    /// The version of the schema.
    pub schema_version: Cow<'static, str>,
    /// The id of the call, the same for every dispatch.
    pub tool_call_id: ToolCallId,
    /// The trace of the call.
    pub trace_id: TraceId,
    /// The time of creation.
    pub ts: Timestamp,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// The tool reported success. Only this outcome completes a call.
    Success,
    /// The tool reported failure.
    Failure,
    /// A person gave up the call instead of dispatching it again.
    Denied,
    /// The tool could not be reached, did not respond, or sent an invalid response.
    Error,
}

impl Outcome {
    /// The name that artifacts use.
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

/// The error of a failed call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectError {
    /// The stable code.
    pub code: Code,
    /// Whether the call may nevertheless have taken effect.
    pub may_have_run: bool,
    /// The error message, in one line.
    pub message: String,
}

/// How the effect of a call was determined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum SettledBy {
    /// By the connector's response to a dispatch.
    Answer,
    /// By another call that asked the server whether the key took effect.
    Probe {
        /// The digest of the last entry of that call.
        entry_digest: Digest,
        /// The trace of that call.
        trace_id: TraceId,
    },
    /// By another call that undid this one.
    Compensation {
        /// The digest of the last entry of that call.
        entry_digest: Digest,
        /// The trace of that call.
        trace_id: TraceId,
    },
    /// By the report of the client that made the call itself.
    Report {
        /// The client.
        #[schemars(length(min = 1, max = 64))]
        client: String,
    },
    /// By the word of people, since the response was lost.
    Person {
        /// Who they are.
        decider: Decider,
        /// What they say.
        reason: String,
    },
}

/// A repeated dispatch of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redispatch {
    /// The number of the dispatch; the first dispatch, recorded by the EXECUTING entry, is 1.
    #[schemars(range(min = 2))]
    pub attempt: u32,
    /// The people who requested it; `None` if the rule of the tool did.
    #[serde(deserialize_with = "present")]
    pub by: Option<Decider>,
    /// The reason.
    pub reason: String,
    /// When it was recorded, which is before the dispatch.
    pub ts: Timestamp,
}

/// The effect of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolEffect {
    /// The artifact's id.
    pub artifact_id: ArtifactId,
    /// The duration of the last dispatch.
    #[schemars(range(max = 9_007_199_254_740_991_i64))]
    pub duration_ms: u64,
    /// The error, if the call failed.
    #[serde(deserialize_with = "present")]
    pub error: Option<EffectError>,
    /// The outcome.
    pub outcome: Outcome,
    /// The dispatches after the first.
    pub redispatches: Vec<Redispatch>,
    /// The result that the tool returned.
    pub result: Value,
    /// The kind of this document.
    pub schema_id: Cow<'static, str>,
    /// The version of the schema.
    pub schema_version: Cow<'static, str>,
    /// How the effect was determined.
    pub settled_by: SettledBy,
    /// The digest of the call.
    pub tool_call_digest: Digest,
    /// The id of the call.
    pub tool_call_id: ToolCallId,
    /// The trace of the call.
    pub trace_id: TraceId,
    /// The time of creation.
    pub ts: Timestamp,
}

impl ToolEffect {
    /// Whether the body of an effect says that the call certainly did not run. Such a call does not use up its
    /// idempotency key.
    #[must_use]
    pub fn says_it_did_not_run(body: &[u8]) -> bool {
        let effect: Result<Self, _> = serde_json::from_slice(body);
        effect.is_ok_and(|effect| {
            effect.settled_by == SettledBy::Answer
                && effect.error.is_some_and(|error| !error.may_have_run)
        })
    }
}

/// One of the four artifacts of a call.
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

/// Defines the `schema_id` of each artifact.
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
    /// [`CanonError`] if the body is not an artifact of this type.
    pub fn read(artifact_type: ArtifactType, body: &[u8]) -> Result<Self, CanonError> {
        fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, CanonError> {
            serde_json::from_slice(body).map_err(|error| CanonError::Invalid(error.to_string()))
        }
        match artifact_type {
            ArtifactType::ActionRequest => read(body).map(Self::Request),
            ArtifactType::SupervisorDecision => read(body).map(Self::Decision),
            ArtifactType::ToolCall => read(body).map(Self::Call),
            ArtifactType::ToolEffect => read(body).map(Self::Effect),
            ArtifactType::RunEvent | ArtifactType::GrantEvent | ArtifactType::NotificationEvent => {
                Err(CanonError::Invalid(format!("a {artifact_type} is not an artifact of a call")))
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

    /// When the artifact was created.
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
    /// [`CanonError`] if the arguments or the result contain a number that canonical JSON would change.
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
    /// The digest that binds an idempotency key to the request it was first used for.
    ///
    /// # Errors
    /// [`CanonError`] if the arguments contain a number that canonical JSON would change.
    pub fn digest(&self) -> Result<Digest, CanonError> {
        canon::check(&self.args)?;
        Ok(Digest::of(&canon::written(self)))
    }
}

#[cfg(test)]
mod tests;
