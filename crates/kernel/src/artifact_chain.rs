//! The references between the artifacts of a call: each artifact contains the digest of the one before
//! it, and agrees with its entry.

mod header;
mod signed;

use crate::artifact::Decision;
use crate::grant::GrantUse;
use crate::{ChainError, Digest, Entry, Outcome, PlanId, State};

pub use header::{ArtifactHeader, ReservedKey};
pub use signed::{HoldReference, dispatch_decision, settled_decision};

use header::{CallReference, Key, Reference};

/// The artifacts of a call so far, to which the next artifact must refer.
///
/// Live work, recovery and verification use the same checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactChain {
    request: Option<RequestRecord>,
    decision: Option<Digest>,
    grant: Option<GrantUse>,
    /// The digest of the proposal as a person changed it.
    edit: Option<Digest>,
    tool_call: Option<Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestRecord {
    digest: Digest,
    plan_id: PlanId,
    proposal_digest: Digest,
    key: Option<Key>,
}

impl RequestRecord {
    fn idempotency_key(&self) -> Option<&str> {
        self.key.as_ref().map(|key| key.idempotency_key.as_str())
    }
}

impl ArtifactChain {
    /// The digest of the request's proposal; `None` before the request.
    pub(crate) fn proposal_digest(&self) -> Option<Digest> {
        self.request.as_ref().map(|request| request.proposal_digest)
    }

    /// The digest of the request; `None` before the request.
    #[must_use]
    pub fn request_digest(&self) -> Option<Digest> {
        self.request.as_ref().map(|request| request.digest)
    }

    /// The use of a grant that the decision refers to.
    #[must_use]
    pub const fn grant_use(&self) -> Option<GrantUse> {
        self.grant
    }

    /// The digest of the proposal that may be dispatched: the requested one, or what a person made of it.
    pub(crate) fn effective_digest(&self) -> Option<Digest> {
        self.edit.or_else(|| self.proposal_digest())
    }

    /// The plan that the request belongs to; `None` before the request.
    #[must_use]
    pub fn plan_id(&self) -> Option<PlanId> {
        self.request.as_ref().map(|request| request.plan_id)
    }

    /// The idempotency key that the call reserves; `None` before the call, or if it has no key.
    #[must_use]
    pub fn reserved(&self) -> Option<ReservedKey<'_>> {
        let RequestRecord { key, proposal_digest, .. } = self.request.as_ref()?;
        let Key { server_id, tool_name, idempotency_key } = key.as_ref()?;
        let request_digest = *proposal_digest;
        self.tool_call.map(|_| ReservedKey {
            server_id,
            tool_name,
            idempotency_key,
            request_digest,
        })
    }

    /// Verifies that an artifact is the one its entry names and refers to the artifacts before it.
    ///
    /// # Errors
    /// [`ChainError`] if it is not, or does not.
    pub fn follow(&mut self, entry: &Entry, header: ArtifactHeader) -> Result<(), ChainError> {
        let sequence_number = entry.sequence_number;
        if header.artifact_type() != entry.artifact_type || header.artifact_id != entry.artifact_id
        {
            let artifact = entry.artifact_type.as_str();
            return Err(ChainError::Artifact { sequence_number, artifact });
        }
        self.check(entry, header).map_err(|reason| ChainError::Link { sequence_number, reason })
    }

    fn check(&mut self, entry: &Entry, header: ArtifactHeader) -> Result<(), &'static str> {
        require(header.trace_id == entry.trace_id, "the artifact belongs to another trace")?;
        let digest = entry.artifact_digest;
        match header.reference {
            Reference::Request { key, plan_id, proposal_digest } => {
                let request = RequestRecord { digest, plan_id, proposal_digest, key };
                require(
                    request.idempotency_key() == entry.idempotency_key.as_deref(),
                    "the request and its entry have different idempotency keys",
                )?;
                self.request = Some(request);
            }
            Reference::Decision { request_digest, decision, edit, grant, signed, .. } => {
                let request = self.request.as_ref().map(|request| request.digest);
                require(request == Some(request_digest), "the decision refers to another request")?;
                require(
                    signed.iter().all(|one| one.verifies(entry, request_digest)),
                    "the signature of the decision is not valid",
                )?;
                let state = match decision {
                    Decision::Approve => State::Authorized,
                    Decision::Deny => State::Denied,
                    Decision::NeedsApproval => State::Pending,
                };
                require(state == entry.to_state, "the decision and the state of its entry differ")?;
                require(
                    grant.is_none() || decision == Decision::Approve,
                    "a grant can only approve",
                )?;
                self.decision = Some(digest);
                self.grant = grant;
                self.edit = edit;
            }
            Reference::Call(call) => {
                self.check_call(entry, &call)?;
                self.tool_call = Some(digest);
            }
            Reference::Effect { tool_call_digest, tool_call_id, outcome, signed } => {
                require(
                    self.tool_call == Some(tool_call_digest)
                        && entry.tool_call_id == Some(tool_call_id),
                    "the effect belongs to another call",
                )?;
                let key = self.request.as_ref().and_then(RequestRecord::idempotency_key);
                require(
                    entry.idempotency_key.as_deref() == key,
                    "the effect and its call have different idempotency keys",
                )?;
                let success = outcome == Outcome::Success;
                require(
                    success == (entry.to_state == State::Completed),
                    "the outcome and the state of its entry differ",
                )?;
                require(
                    signed.iter().all(|one| one.verifies(entry, tool_call_digest)),
                    "the signature of a person is not valid",
                )?;
            }
        }
        Ok(())
    }

    fn check_call(&self, entry: &Entry, call: &CallReference) -> Result<(), &'static str> {
        require(
            self.decision == Some(call.decision_digest),
            "the call refers to another decision",
        )?;
        require(
            entry.tool_call_id == Some(call.tool_call_id)
                && entry.idempotency_key == call.idempotency_key,
            "the call and its entry have different ids or idempotency keys",
        )?;
        let request = self.request.as_ref().ok_or("the call has no request")?;
        require(
            request.idempotency_key() == call.idempotency_key.as_deref(),
            "the call and its request have different idempotency keys",
        )?;
        require(
            self.edit.unwrap_or(request.proposal_digest) == call.proposal_digest,
            "the call refers to another proposal",
        )
    }
}

const fn require(holds: bool, reason: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(reason) }
}
