//! The request of a caller, checked before it is recorded.

use serde_json::Value;
use thiserror::Error;
use windlass_kernel::artifact::{ActionRequest, Proposal, Resource};
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::{
    ArtifactId, Code, KEY_CHARS_MAX, PlanId, RiskLevel, SCHEMA_VERSION, TraceId,
};

use crate::clock::Clock;

/// The maximum size of the arguments of any request; the limit of a tool is usually smaller.
pub const REQUEST_BYTES_MAX: usize = 10 << 20;
const NAME_BYTES_MAX: usize = 64;
const INTENT_CHARS: std::ops::RangeInclusive<usize> = 10..=1000;
const RESOURCES_MAX: usize = 256;
const KIND_BYTES_MAX: usize = 64;
const ID_BYTES_MAX: usize = 4096;
const AGENT_BYTES_MAX: usize = 128;

/// A request for a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRequest {
    /// The server that has the tool.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub args: Value,
    /// The purpose of the call, in 10 to 1000 characters.
    pub intent: String,
    /// The resources that the call affects; the tool itself if empty.
    pub resources: Vec<Resource>,
    /// The risk level that the caller declares.
    pub declared_class: RiskLevel,
    /// The idempotency key, under which the call takes effect at most once.
    pub key: Option<String>,
    /// The plan that the call belongs to; a new plan if `None`.
    pub plan_id: Option<PlanId>,
    /// The agent that requests the call.
    pub agent: Option<String>,
    /// The phase of the run that requests the call.
    pub phase: Option<String>,
    /// The run that makes the call, and that alone continues it.
    pub run: Option<TraceId>,
}

/// Why a request is invalid.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A field is invalid.
    #[error("the request's {field} must be {reason}")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// The requirement.
        reason: String,
    },
    /// The arguments are too large or have no canonical form.
    #[error("the request's arguments cannot be recorded")]
    Args(#[source] CanonError),
}

impl RequestError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Field { .. } => Code::RequestInvalid,
            Self::Args(error) => error.code(),
        }
    }
}

fn require(holds: bool, field: &'static str, reason: &str) -> Result<(), RequestError> {
    if holds { Ok(()) } else { Err(RequestError::Field { field, reason: reason.to_owned() }) }
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

impl CallRequest {
    /// Checks the request and creates the first artifact of a new trace, for a call in this workspace.
    ///
    /// # Errors
    /// [`RequestError`] if the request is invalid.
    pub fn compose(
        self,
        clock: &dyn Clock,
        workspace: &str,
    ) -> Result<ActionRequest, RequestError> {
        let name = "1 to 64 of a-z, 0-9, `_` and `-`";
        require(is_name(&self.server), "server", name)?;
        require(is_name(&self.tool), "tool", name)?;
        require(self.args.is_object(), "args", "a JSON object")?;
        let intent_chars = self.intent.chars().count();
        require(INTENT_CHARS.contains(&intent_chars), "intent", "10 to 1000 characters long")?;
        require(self.resources.len() <= RESOURCES_MAX, "list of resources", "at most 256 long")?;
        for resource in &self.resources {
            let (kind, id) = (resource.kind.len(), resource.id.len());
            let fits = (1..=KIND_BYTES_MAX).contains(&kind) && (1..=ID_BYTES_MAX).contains(&id);
            let reason = "a kind of 1 to 64 and an id of 1 to 4096 bytes";
            require(fits, "every resource", reason)?;
        }
        if let Some(key) = &self.key {
            let fits = (1..=KEY_CHARS_MAX).contains(&key.chars().count());
            require(fits, "idempotency key", "1 to 255 characters long")?;
        }
        for (field, value) in [("agent", &self.agent), ("phase", &self.phase)] {
            let fits =
                value.as_ref().is_none_or(|text| (1..=AGENT_BYTES_MAX).contains(&text.len()));
            require(fits, field, "1 to 128 bytes long")?;
        }
        let bytes = canon::measure(&self.args).map_err(RequestError::Args)?;
        if bytes > REQUEST_BYTES_MAX {
            let bytes_max = REQUEST_BYTES_MAX;
            return Err(RequestError::Args(CanonError::TooLarge { bytes, bytes_max }));
        }
        let resources = if self.resources.is_empty() {
            vec![Resource { kind: "tool".into(), id: [&*self.server, "/", &*self.tool].concat() }]
        } else {
            self.resources
        };
        Ok(ActionRequest {
            schema_id: ActionRequest::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            artifact_id: ArtifactId(clock.new_id()),
            files: Vec::new(),
            trace_id: TraceId(clock.new_id()),
            ts: clock.now(),
            plan_id: self.plan_id.unwrap_or_else(|| PlanId(clock.new_id())),
            risk_level: self.declared_class,
            intent: self.intent,
            resources,
            proposal: Proposal {
                tool_server: self.server,
                tool_name: self.tool,
                args: self.args,
                workspace: workspace.to_owned(),
            },
            idempotency_key: self.key,
            agent: self.agent,
            phase: self.phase,
            run: self.run,
        })
    }
}

/// Applies `redact` to each text of a request, and truncates the result to the limit of the field.
///
/// Only for a request that is never dispatched, because its content changes.
pub(crate) fn redact(request: &mut ActionRequest, redact: impl Fn(&mut Value)) {
    redact(&mut request.proposal.args);
    let redact_text = |text: &mut String, bytes_max: usize| {
        let mut value = Value::String(text.clone());
        redact(&mut value);
        if let Value::String(mut redacted) = value
            && redacted != *text
        {
            redacted.truncate(redacted.floor_char_boundary(bytes_max));
            *text = redacted;
        }
    };
    redact_text(&mut request.intent, *INTENT_CHARS.end());
    for resource in &mut request.resources {
        redact_text(&mut resource.kind, KIND_BYTES_MAX);
        redact_text(&mut resource.id, ID_BYTES_MAX);
    }
    if let Some(key) = &mut request.idempotency_key {
        redact_text(key, KEY_CHARS_MAX);
    }
    for name in [&mut request.agent, &mut request.phase].into_iter().flatten() {
        redact_text(name, AGENT_BYTES_MAX);
    }
}
