//! The references between upstream artifacts.

use serde_json::Value;
use windlass_kernel::{ArtifactType, ChainError, Digest, Entry, State, canon};

use super::{ALGORITHM, ALGORITHM_FIELD, ARTIFACT_VERSION, DIGEST_FIELD, PREFIX, shape};

/// The upstream artifacts of a call so far, to which the next artifact must refer.
#[derive(Debug, Default)]
pub(super) struct UpstreamChain {
    plan_id: Option<String>,
    tool: Option<[String; 2]>,
    /// The id and the digest of the artifact before.
    last: Option<(String, Digest)>,
}

impl UpstreamChain {
    /// Verifies that `body` is the artifact that its entry names, and refers to the artifact before it.
    pub(super) fn follow(&mut self, entry: &Entry, body: &Value) -> Result<(), ChainError> {
        let sequence_number = entry.sequence_number;
        let artifact = entry.artifact_type.as_str();
        if digest(body) != Some(entry.artifact_digest) {
            return Err(ChainError::Artifact { sequence_number, artifact });
        }
        self.check(entry, body).map_err(|reason| ChainError::Link { sequence_number, reason })?;
        shape::check(entry.artifact_type, body)
            .map_err(|reason| ChainError::Malformed { sequence_number, reason })
    }

    fn check(&mut self, entry: &Entry, body: &Value) -> Result<(), &'static str> {
        let kind = entry.artifact_type.as_str();
        let own_id = text(body, &format!("/{kind}_id"));
        require(
            text(body, "/schema_id") == Some(&format!("{PREFIX}{kind}")),
            "the schema_id of the artifact is not that of its type",
        )?;
        require(
            text(body, "/schema_version") == Some(ARTIFACT_VERSION),
            "the schema_version of the artifact is unknown",
        )?;
        require(
            text(body, &format!("/{ALGORITHM_FIELD}")) == Some(ALGORITHM),
            "the digest of the artifact is by another algorithm",
        )?;
        require(
            text(body, "/trace_id") == Some(&entry.trace_id.to_string()),
            "the artifact belongs to another trace",
        )?;
        require(
            own_id == Some(&entry.artifact_id.to_string()),
            "the artifact and its entry have different ids",
        )?;
        let plan_id = text(body, "/plan_id").ok_or("the artifact has no plan_id")?;
        let plan_id = plan_id.to_owned();
        require(
            *self.plan_id.get_or_insert_with(|| plan_id.clone()) == plan_id,
            "the artifacts belong to different plans",
        )?;
        match entry.artifact_type {
            ArtifactType::ActionRequest => {
                let key = text(body, "/idempotency_key");
                require(
                    entry.idempotency_key.is_none() || entry.idempotency_key.as_deref() == key,
                    "the request and its entry have different idempotency keys",
                )?;
                self.tool = tool(body, "/proposal");
            }
            ArtifactType::SupervisorDecision => {
                self.require_last(
                    body,
                    "action_request",
                    "the decision refers to another request",
                )?;
                let state = match text(body, "/decision") {
                    Some("APPROVE") => Some(State::Authorized),
                    Some("DENY") => Some(State::Denied),
                    Some(_) | None => None,
                };
                require(
                    state == Some(entry.to_state),
                    "the decision and the state of its entry differ",
                )?;
            }
            ArtifactType::ToolCall => {
                let reason = "the call refers to another decision";
                self.require_last(body, "supervisor_decision", reason)?;
                let id = entry.tool_call_id.map(|id| id.to_string());
                require(
                    text(body, "/tool_call_id") == id.as_deref()
                        && text(body, "/idempotency_key") == entry.idempotency_key.as_deref(),
                    "the call and its entry have different ids or idempotency keys",
                )?;
                require(
                    self.tool.is_some() && self.tool == tool(body, "/call"),
                    "the call is of another tool than its request",
                )?;
            }
            ArtifactType::ToolEffect => {
                self.require_last(body, "tool_call", "the effect belongs to another call")?;
                let success = text(body, "/outcome/status") == Some("SUCCESS");
                require(
                    success == (entry.to_state == State::Completed),
                    "the outcome and the state of its entry differ",
                )?;
            }
            ArtifactType::RunEvent | ArtifactType::GrantEvent | ArtifactType::NotificationEvent => {
                return Err("there is no such artifact in this form");
            }
        }
        self.last = own_id.map(|id| (id.to_owned(), entry.artifact_digest));
        Ok(())
    }

    /// Requires that the artifact names the id and the digest of the one before it.
    fn require_last(
        &self,
        body: &Value,
        kind: &str,
        reason: &'static str,
    ) -> Result<(), &'static str> {
        let last = self.last.as_ref().map(|(id, digest)| (id.as_str(), digest.to_string()));
        let named = text(body, &format!("/{kind}_id"))
            .zip(text(body, &format!("/{kind}_digest")).map(str::to_owned));
        require(last.is_some() && last == named, reason)
    }
}

/// The digest of an artifact: of all its fields but the one that contains it.
fn digest(body: &Value) -> Option<Digest> {
    let mut fields = body.as_object()?.clone();
    fields.remove(DIGEST_FIELD);
    canon::digest(&fields).ok()
}

fn text<'a>(body: &'a Value, pointer: &str) -> Option<&'a str> {
    body.pointer(pointer).and_then(Value::as_str)
}

/// The server and the name of a tool.
fn tool(body: &Value, pointer: &str) -> Option<[String; 2]> {
    let proposal = body.pointer(pointer)?;
    let name = |name: &str| text(proposal, name).map(str::to_owned);
    Some([name("/tool_server")?, name("/tool_name")?])
}

const fn require(holds: bool, reason: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(reason) }
}
