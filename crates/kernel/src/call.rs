//! One call, folded from its trace, and its next step.

use std::borrow::Cow;

use serde_json::Value;

use crate::artifact::{
    ActionRequest, Artifact, CLIENT_WORKSPACE, DecidedBy, Decision, Edit, Proposal,
    SupervisorDecision, ToolCall, ToolEffect,
};
use crate::artifact_chain::{ArtifactChain, ArtifactHeader};
use crate::{ArtifactType, ChainError, Digest, Entry, Head, Outcome, State, TraceId};

/// A call folded from its entries and their artifacts.
///
/// Live work and recovery use the same fold, so they cannot diverge.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The head of its trace.
    pub head: Head,
    /// The request and its digest.
    pub request: Option<(ActionRequest, Digest)>,
    /// The decision and its digest.
    pub decision: Option<(SupervisorDecision, Digest)>,
    /// The dispatched call and its digest.
    pub tool_call: Option<(ToolCall, Digest)>,
    /// The effect.
    pub effect: Option<ToolEffect>,
    artifact_chain: ArtifactChain,
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing is recorded yet.
    Nothing,
    /// Judge the request.
    Judge,
    /// Record the dispatch, then dispatch the call.
    Start,
    /// The call is dispatched: find out its effect and record it.
    Settle,
    /// The call has ended.
    Done,
}

impl Call {
    /// A call without entries.
    #[must_use]
    #[inline]
    pub fn empty(trace_id: TraceId) -> Self {
        Self {
            head: Head::empty(trace_id),
            request: None,
            decision: None,
            tool_call: None,
            effect: None,
            artifact_chain: ArtifactChain::default(),
        }
    }

    /// Folds one more entry, whose position in the chain (`head`) has been verified.
    ///
    /// # Errors
    /// [`ChainError`] if the artifact is not the one that its entry names, or does not refer to the
    /// artifacts before it.
    pub fn apply(
        &mut self,
        entry: &Entry,
        artifact: Artifact,
        head: Head,
    ) -> Result<(), ChainError> {
        let header = ArtifactHeader::of(&artifact).map_err(|_| ChainError::Artifact {
            sequence_number: entry.sequence_number,
            artifact: entry.artifact_type.as_str(),
        })?;
        self.artifact_chain.follow(entry, header)?;
        self.check_decision(&artifact).map_err(|reason| ChainError::Link {
            sequence_number: entry.sequence_number,
            reason,
        })?;
        let digest = entry.artifact_digest;
        match artifact {
            Artifact::Request(request) => self.request = Some((request, digest)),
            Artifact::Decision(decision) => self.decision = Some((decision, digest)),
            Artifact::Call(call) => self.tool_call = Some((call, digest)),
            Artifact::Effect(effect) => self.effect = Some(effect),
        }
        self.head = head;
        Ok(())
    }

    /// Verifies that changed arguments are those of the requested tool.
    fn check_decision(&self, artifact: &Artifact) -> Result<(), &'static str> {
        let Artifact::Decision(decision) = artifact else { return Ok(()) };
        let request = self.request.as_ref().ok_or("the decision has no request");
        if let DecidedBy::Prompt { .. } = &decision.decided_by {
            let is_of_client = request?.0.proposal.workspace == CLIENT_WORKSPACE;
            return if is_of_client { Ok(()) } else { Err("no client asks about this call") };
        }
        let DecidedBy::Person { edit: Some(edit), .. } = &decision.decided_by else {
            return Ok(());
        };
        let request = request?;
        let edited = Edit::of(&request.0.proposal, edit.args.clone());
        match edited {
            Ok(edited) if edited.proposal_digest == edit.proposal_digest => Ok(()),
            Ok(_) | Err(_) => Err("the changed arguments are not those of the decision"),
        }
    }

    /// The request as it may be dispatched: with the arguments that a person put in, if they did.
    #[must_use]
    pub fn effective_request(&self) -> Option<Cow<'_, ActionRequest>> {
        let (request, _) = self.request.as_ref()?;
        let decided_by = self.decision.as_ref().map(|(decision, _)| &decision.decided_by);
        Some(match decided_by {
            Some(DecidedBy::Person { edit: Some(edit), .. }) => {
                Cow::Owned(edited(request, &edit.args))
            }
            Some(
                DecidedBy::Person { edit: None, .. }
                | DecidedBy::Policy { .. }
                | DecidedBy::Grant { .. }
                | DecidedBy::Prompt { .. },
            )
            | None => Cow::Borrowed(request),
        })
    }

    /// The digest of the requested proposal, to which the idempotency key is bound.
    #[must_use]
    pub fn proposal_digest(&self) -> Option<Digest> {
        self.artifact_chain.proposal_digest()
    }

    /// The digest of the proposal that may be dispatched.
    #[must_use]
    pub fn effective_digest(&self) -> Option<Digest> {
        self.artifact_chain.effective_digest()
    }

    /// Returns the next step, derived from the recorded state alone.
    #[must_use]
    pub const fn next(&self) -> Next {
        match self.head.state {
            None => Next::Nothing,
            Some(State::Pending) => Next::Judge,
            Some(State::Authorized) => Next::Start,
            Some(State::Executing) => Next::Settle,
            Some(
                State::Completed
                | State::Failed
                | State::Denied
                | State::Init
                | State::Running
                | State::Checkpoint
                | State::Resumed
                | State::Terminal
                | State::Granted
                | State::Withdrawn
                | State::Due
                | State::Settled,
            ) => Next::Done,
        }
    }
}

/// A request with other arguments.
#[must_use]
pub fn edited(request: &ActionRequest, args: &Value) -> ActionRequest {
    let proposal = Proposal { args: args.clone(), ..request.proposal.clone() };
    ActionRequest { proposal, ..request.clone() }
}

/// Returns the transition that an artifact causes; `None` for a decision that leaves the call pending.
#[must_use]
pub fn transition_of(artifact: &Artifact) -> Option<crate::Transition> {
    let (from, to) = match artifact {
        Artifact::Request(_) => (State::Pending, State::Pending),
        Artifact::Decision(decision) => match decision.decision {
            Decision::Approve => (State::Pending, State::Authorized),
            Decision::Deny => (State::Pending, State::Denied),
            Decision::NeedsApproval => return None,
        },
        Artifact::Call(_) => (State::Authorized, State::Executing),
        Artifact::Effect(effect) => match effect.outcome {
            Outcome::Success => (State::Executing, State::Completed),
            Outcome::Failure | Outcome::Denied | Outcome::Error => {
                (State::Executing, State::Failed)
            }
        },
    };
    Some(crate::Transition { from, to, artifact: artifact.artifact_type() })
}

/// Whether entries with this artifact belong to a call.
#[must_use]
pub const fn is_call_artifact(artifact_type: ArtifactType) -> bool {
    !matches!(
        artifact_type,
        ArtifactType::RunEvent | ArtifactType::GrantEvent | ArtifactType::NotificationEvent
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::{PROJECT_WORKSPACE, Resource};
    use crate::{ArtifactId, PlanId, RiskLevel, Timestamp, Uuid7};

    fn prompted_in(workspace: &str) -> Result<(), &'static str> {
        let id = Uuid7::from_parts(1, [3; 10]);
        let (artifact_id, trace_id, ts) = (ArtifactId(id), TraceId(id), Timestamp::EPOCH);
        let proposal = Proposal {
            args: Value::Null,
            tool_name: "run".to_owned(),
            tool_server: "shell".to_owned(),
            workspace: workspace.to_owned(),
        };
        let request = ActionRequest {
            agent: None,
            artifact_id,
            files: Vec::new(),
            idempotency_key: None,
            intent: "a step of the test".to_owned(),
            phase: None,
            plan_id: PlanId(id),
            proposal,
            resources: vec![Resource { id: "x".to_owned(), kind: "tool".to_owned() }],
            risk_level: RiskLevel::Write,
            run: None,
            schema_id: ActionRequest::SCHEMA_ID.into(),
            schema_version: "v1".into(),
            trace_id,
            ts,
        };
        let decision = SupervisorDecision {
            artifact_id,
            code: None,
            decided_by: DecidedBy::Prompt { client: "claude".to_owned(), rules: Vec::new() },
            decision: Decision::Approve,
            policy_hash: Digest::GENESIS,
            rationale: "asked".to_owned(),
            request_digest: Digest::GENESIS,
            schema_id: SupervisorDecision::SCHEMA_ID.into(),
            schema_version: "v1".into(),
            trace_id,
            ts,
        };
        let mut call = Call::empty(trace_id);
        call.request = Some((request, Digest::GENESIS));
        call.check_decision(&Artifact::Decision(decision))
    }

    #[test]
    fn only_calls_of_clients_are_decided_by_their_prompts() {
        assert_eq!(prompted_in(CLIENT_WORKSPACE), Ok(()));
        assert!(prompted_in(PROJECT_WORKSPACE).is_err());
        assert!(prompted_in("worktrees/run").is_err());
    }
}
