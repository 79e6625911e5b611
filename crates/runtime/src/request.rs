//! The request of a caller, checked before it is recorded.

use serde_json::Value;
use thiserror::Error;
use windlass_kernel::artifact::{ActionRequest, Proposal, Resource};
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::{
    AGENT_BYTES_MAX, ArtifactId, Code, ID_BYTES_MAX, INTENT_CHARS, KEY_CHARS_MAX, KIND_BYTES_MAX,
    PlanId, RiskLevel, SCHEMA_VERSION, TraceId,
};

use crate::clock::Clock;

/// The maximum size of the arguments of any request; the limit of a tool is usually smaller.
pub const REQUEST_BYTES_MAX: usize = 10 << 20;

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
        let request = ActionRequest {
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
        };
        request.check_limits().map_err(|fault| RequestError::Field {
            field: fault.field,
            reason: fault.requirement.to_owned(),
        })?;
        Ok(request)
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
