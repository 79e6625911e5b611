//! One call as its trace tells it, and what comes next.

use crate::artifact::{
    ActionRequest, Artifact, Decision, SupervisorDecision, ToolCall, ToolEffect,
};
use crate::{ArtifactType, ChainError, Digest, Entry, Head, Outcome, State, TraceId};

/// A call folded from its entries and their artifacts.
///
/// The same fold serves live work and recovery, so the two cannot drift apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The end of its trace.
    pub head: Head,
    /// What was asked for, with its digest.
    pub request: Option<(ActionRequest, Digest)>,
    /// What was decided, with its digest.
    pub decision: Option<(SupervisorDecision, Digest)>,
    /// What was handed over, with its digest.
    pub tool_call: Option<(ToolCall, Digest)>,
    /// What came of it.
    pub effect: Option<ToolEffect>,
}

/// What the recorded state asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing is recorded yet.
    Nothing,
    /// Judge the request.
    Judge,
    /// Record that the call is handed over, then hand it over.
    Start,
    /// The call is handed over; its effect must be learned and recorded.
    Settle,
    /// Nothing more: the call has ended.
    Done,
}

impl Call {
    /// A call of which nothing is recorded.
    #[must_use]
    pub const fn empty(trace_id: TraceId) -> Self {
        Self {
            head: Head::empty(trace_id),
            request: None,
            decision: None,
            tool_call: None,
            effect: None,
        }
    }

    /// Returns the call after one more entry whose chain position `head` has been checked.
    ///
    /// # Errors
    /// [`ChainError`] when the artifact is not the one its entry names, or does not follow from
    /// the artifacts before it.
    pub fn apply(
        &mut self,
        entry: &Entry,
        artifact: Artifact,
        head: Head,
    ) -> Result<(), ChainError> {
        let sequence_number = entry.sequence_number;
        if artifact.artifact_type() != entry.artifact_type
            || artifact.artifact_id() != entry.artifact_id
        {
            return Err(ChainError::Artifact {
                sequence_number,
                artifact: entry.artifact_type.as_str(),
            });
        }
        self.check_link(&artifact, entry)
            .map_err(|reason| ChainError::Link { sequence_number, reason })?;
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

    /// Checks that `artifact` names the digest of the one before it and says what its entry says.
    fn check_link(&self, artifact: &Artifact, entry: &Entry) -> Result<(), &'static str> {
        require(artifact.trace_id() == entry.trace_id, "the artifact is of another trace")?;
        match artifact {
            Artifact::Request(request) => require(
                request.idempotency_key == entry.idempotency_key,
                "the request has another idempotency key",
            ),
            Artifact::Decision(decision) => {
                let digest = self.request.as_ref().map(|(_, digest)| *digest);
                require(
                    digest == Some(decision.request_digest),
                    "the decision is about another request",
                )?;
                let state = match decision.decision {
                    Decision::Approve => State::Authorized,
                    Decision::Deny => State::Denied,
                    Decision::NeedsApproval => State::Pending,
                };
                require(state == entry.to_state, "the decision says something else")
            }
            Artifact::Call(call) => {
                let digest = self.decision.as_ref().map(|(_, digest)| *digest);
                require(digest == Some(call.decision_digest), "the call follows another decision")?;
                require(
                    entry.tool_call_id == Some(call.tool_call_id)
                        && entry.idempotency_key == call.idempotency_key,
                    "the call has another id or key",
                )?;
                let asked = self.request.as_ref().map(|(request, _)| &request.idempotency_key);
                require(
                    asked == Some(&call.idempotency_key),
                    "the call has another key than its request",
                )?;
                let proposal = self.request.as_ref().map(|(request, _)| request.proposal.digest());
                require(
                    matches!(proposal, Some(Ok(digest)) if digest == call.proposal_digest),
                    "the call is for another proposal",
                )
            }
            Artifact::Effect(effect) => {
                let digest = self.tool_call.as_ref().map(|(_, digest)| *digest);
                require(
                    digest == Some(effect.tool_call_digest)
                        && entry.tool_call_id == Some(effect.tool_call_id),
                    "the effect is of another call",
                )?;
                let success = effect.outcome == Outcome::Success;
                require(
                    success == (entry.to_state == State::Completed),
                    "only a success completes a call",
                )
            }
        }
    }

    /// Says what comes next, from the recorded state alone.
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
                | State::Terminal,
            ) => Next::Done,
        }
    }
}

const fn require(holds: bool, reason: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(reason) }
}

/// The transition that an artifact stands for, from the state it is applied in.
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
    !matches!(artifact_type, ArtifactType::RunEvent)
}
