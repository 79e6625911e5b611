//! Writing a call of the journal as an upstream document.

use serde_json::{Map, Value, json};
use thiserror::Error;
use windlass_kernel::artifact::{
    ActionRequest, DecidedBy, Resource, SupervisorDecision, ToolCall, ToolEffect,
};
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::verify::UPSTREAM_ENTRY_SCHEMA_ID;
use windlass_kernel::{Artifact, Digest, Entry, Outcome};

use super::shape::{RATIONALE_CHARS_MAX, SUMMARY_CHARS_MAX};
use super::{ALGORITHM, ALGORITHM_FIELD, ARTIFACT_VERSION, DIGEST_FIELD, PREFIX};

/// The fields of the upstream form that the journal has no source for, and what stands there instead.
const SUBSTITUTED: [(&str, &str); 3] = [
    (
        "action_request.agent_id",
        "the id of the run, or of the plan: agents have names here, no ids",
    ),
    ("tool_call.capability_digest", "the digest of the decision: no capabilities are minted here"),
    ("tool_call.idempotency_key", "the id of the call, if it has no key"),
];

/// A call that cannot be written in the upstream form.
#[derive(Debug, Error)]
pub enum UpstreamError {
    /// Its artifacts are not in the order of a call.
    #[error("the artifacts are not those of a call")]
    Order,
    /// A value has no canonical form.
    #[error("a value has no canonical form")]
    Canon(#[from] CanonError),
}

/// The artifacts so far, to which the next one refers.
#[derive(Default)]
struct Written<'a> {
    request: Option<&'a ActionRequest>,
    decision: Option<&'a SupervisorDecision>,
    call: Option<&'a ToolCall>,
    /// The digest of the artifact before, in the upstream form.
    last: Option<Digest>,
}

/// Writes a call: `entries` and `artifacts` with upstream ids and digests of their own, the digest of the
/// journal's last entry as `source_entry_digest`, and as `substituted` the fields that the journal has no source for.
///
/// What the upstream schemas have no field for is in `meta`, or left out.
///
/// # Errors
/// [`UpstreamError`] if this is not a call.
pub fn write(call: &[(Entry, Artifact)]) -> Result<Value, UpstreamError> {
    let mut written = Written::default();
    let (mut entries, mut artifacts) = (Vec::new(), Vec::new());
    let mut previous = Digest::GENESIS;
    for (entry, artifact) in call {
        let mut body = written.body(artifact)?;
        let artifact_digest = canon::digest(&body)?;
        body.insert(DIGEST_FIELD.to_owned(), json!(artifact_digest));
        written.last = Some(artifact_digest);
        let mut upstream = Entry {
            schema_id: UPSTREAM_ENTRY_SCHEMA_ID.into(),
            prev_entry_digest: previous,
            artifact_digest,
            ..entry.clone()
        };
        if let Artifact::Call(call) = artifact {
            upstream.artifact_id = windlass_kernel::ArtifactId(call.tool_call_id.0);
        }
        if let Artifact::Call(_) | Artifact::Effect(_) = artifact {
            upstream.idempotency_key = Some(written.key()?);
        }
        upstream.entry_digest = upstream.compute_digest(&mut Vec::new());
        previous = upstream.entry_digest;
        entries.push(json!(upstream));
        artifacts.push(Value::Object(body));
    }
    let source = call.last().map(|(entry, _)| entry.entry_digest);
    let substituted: Map<String, Value> =
        SUBSTITUTED.into_iter().map(|(name, by)| (name.to_owned(), json!(by))).collect();
    Ok(json!({
        "entries": entries,
        "artifacts": artifacts,
        "source_entry_digest": source,
        "substituted": substituted,
    }))
}

impl<'a> Written<'a> {
    /// The key of the call, or its id if it has none.
    fn key(&self) -> Result<String, UpstreamError> {
        let call = self.call.ok_or(UpstreamError::Order)?;
        Ok(call.idempotency_key.clone().unwrap_or_else(|| call.tool_call_id.to_string()))
    }

    fn body(&mut self, artifact: &'a Artifact) -> Result<Map<String, Value>, UpstreamError> {
        let own = match artifact {
            Artifact::Request(request) => {
                self.request = Some(request);
                request_fields(request)
            }
            Artifact::Decision(decision) => {
                self.decision = Some(decision);
                let request = self.request.ok_or(UpstreamError::Order)?;
                json!({
                    "supervisor_decision_id": decision.artifact_id,
                    "action_request_id": request.artifact_id,
                    "action_request_digest": self.last,
                    "decision": decision.decision,
                    "rationale": cut(&decision.rationale, RATIONALE_CHARS_MAX),
                    "meta": { "code": decision.code, "policy_hash": decision.policy_hash },
                })
            }
            Artifact::Call(call) => {
                self.call = Some(call);
                self.call_fields(call)?
            }
            Artifact::Effect(effect) => json!({
                "tool_effect_id": effect.artifact_id,
                "tool_call_id": effect.tool_call_id,
                "tool_call_digest": self.last,
                "outcome": { "status": status(effect.outcome), "summary": summary(effect) },
                "meta": { "duration_ms": effect.duration_ms },
            }),
        };
        let request = self.request.ok_or(UpstreamError::Order)?;
        let mut fields = match own {
            Value::Object(fields) => fields,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Map::new(),
        };
        let kind = artifact.artifact_type().as_str();
        for (name, value) in [
            ("schema_id", json!(format!("{PREFIX}{kind}"))),
            ("schema_version", json!(ARTIFACT_VERSION)),
            ("trace_id", json!(artifact.trace_id())),
            ("plan_id", json!(request.plan_id)),
            ("ts", json!(artifact.ts())),
            (ALGORITHM_FIELD, json!(ALGORITHM)),
        ] {
            fields.insert(name.to_owned(), value);
        }
        Ok(fields)
    }

    fn call_fields(&self, call: &ToolCall) -> Result<Value, UpstreamError> {
        let request = self.request.ok_or(UpstreamError::Order)?;
        let decision = self.decision.ok_or(UpstreamError::Order)?;
        let args = match &decision.decided_by {
            DecidedBy::Person { edit: Some(edit), .. } => &edit.args,
            DecidedBy::Person { edit: None, .. }
            | DecidedBy::Policy { .. }
            | DecidedBy::Grant { .. }
            | DecidedBy::Prompt { .. } => &request.proposal.args,
        };
        Ok(json!({
            "tool_call_id": call.tool_call_id,
            "supervisor_decision_id": decision.artifact_id,
            "supervisor_decision_digest": self.last,
            "capability_digest": self.last,
            "call": {
                "tool_server": request.proposal.tool_server,
                "tool_name": request.proposal.tool_name,
                "args": args,
            },
            "idempotency_key": self.key()?,
        }))
    }
}

fn request_fields(request: &ActionRequest) -> Value {
    let agent_id = request.run.map_or(request.plan_id.0, |run| run.0);
    let mut fields = json!({
        "action_request_id": request.artifact_id,
        "agent_id": agent_id,
        "risk_level": request.risk_level,
        "intent": request.intent,
        "resources": request.resources.iter().map(resource).collect::<Vec<_>>(),
        "proposal": {
            "tool_server": request.proposal.tool_server,
            "tool_name": request.proposal.tool_name,
            "args": request.proposal.args,
        },
        "meta": {
            "agent": request.agent,
            "phase": request.phase,
            "workspace": request.proposal.workspace,
        },
    });
    if let (Some(key), Some(fields)) = (&request.idempotency_key, fields.as_object_mut()) {
        fields.insert("idempotency_key".to_owned(), json!(key));
    }
    fields
}

/// A resource with one of the four upstream kinds.
fn resource(resource: &Resource) -> Value {
    let kind = match resource.kind.as_str() {
        "file" => "doc",
        "repo" | "doc" | "db" => resource.kind.as_str(),
        _ => "service",
    };
    json!({ "kind": kind, "id": resource.id })
}

/// The outcome by an upstream name: a call that the tool refused is one that failed.
const fn status(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "SUCCESS",
        Outcome::Failure | Outcome::Denied => "FAILURE",
        Outcome::Error => "ERROR",
    }
}

/// The error, or the result as JSON.
fn summary(effect: &ToolEffect) -> String {
    match &effect.error {
        Some(error) => cut(&format!("{}: {}", error.code, error.message), SUMMARY_CHARS_MAX),
        None => cut(&effect.result.to_string(), SUMMARY_CHARS_MAX),
    }
}

fn cut(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}
