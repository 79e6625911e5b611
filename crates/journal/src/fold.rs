//! States that are folded from the entries of a trace.

use windlass_kernel::artifact::Artifact;
use windlass_kernel::grant::{Grant, GrantEvent};
use windlass_kernel::notification::{Notification, NotificationEvent};
use windlass_kernel::run::{Run, RunEvent};
use windlass_kernel::{
    ArtifactBody, Call, ChainError, Digest, Draft, Entry, EventArtifact, Head, Machine, PlanId,
    State, TraceEvent, TraceId, Transition, transition_of,
};
use windlass_store::TraceState;

use crate::error::JournalError;

/// A state that is folded from a trace, entry by entry.
///
/// Live work, recovery and verification fold with the same implementation.
pub trait Fold: Clone + Send + Sync + 'static {
    /// The artifact of one entry.
    type Artifact;
    /// The state machine whose traces this folds.
    const MACHINE: Machine;

    /// The state of a trace without entries.
    fn empty(trace_id: TraceId) -> Self;

    /// The end of the trace as far as it is folded.
    fn head(&self) -> &Head;

    /// The plan under which the trace must be recorded; `None` while no entry says so.
    fn plan_id(&self) -> Option<PlanId>;

    /// Reads an entry's artifact strictly: it must be canonical and agree with the entry.
    ///
    /// # Errors
    /// [`ChainError`] when it is not that artifact.
    fn read(entry: &Entry, body: &[u8]) -> Result<Self::Artifact, ChainError>;

    /// Reads an entry's artifact without verifying it.
    ///
    /// # Errors
    /// [`ChainError`] when it cannot be read at all.
    fn skim(entry: &Entry, body: &[u8]) -> Result<Self::Artifact, ChainError>;

    /// Folds one more entry, whose chain position `head` was verified.
    ///
    /// # Errors
    /// [`ChainError`] when the artifact does not follow from those before it.
    fn apply(
        &mut self,
        entry: &Entry,
        artifact: &Self::Artifact,
        head: Head,
    ) -> Result<(), ChainError>;

    /// Makes the draft of the next entry for an artifact, with the artifact's bytes.
    ///
    /// # Errors
    /// [`JournalError`] when the artifact cannot be recorded.
    fn draft(&self, artifact: &Self::Artifact) -> Result<(Draft, ArtifactBody), JournalError>;
}

/// The error of an artifact that is not the one its entry names.
pub(crate) fn mismatch(entry: &Entry) -> ChainError {
    ChainError::Artifact {
        sequence_number: entry.sequence_number,
        artifact: entry.artifact_type.as_str(),
    }
}

impl Fold for Call {
    type Artifact = Artifact;
    const MACHINE: Machine = Machine::Call;

    fn empty(trace_id: TraceId) -> Self {
        Self::empty(trace_id)
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn plan_id(&self) -> Option<PlanId> {
        self.request.as_ref().map(|(request, _)| request.plan_id)
    }

    fn read(entry: &Entry, body: &[u8]) -> Result<Artifact, ChainError> {
        Artifact::read(entry.artifact_type, body).map_err(|_| mismatch(entry))
    }

    fn skim(entry: &Entry, body: &[u8]) -> Result<Artifact, ChainError> {
        <Self as Fold>::read(entry, body)
    }

    fn apply(&mut self, entry: &Entry, artifact: &Artifact, head: Head) -> Result<(), ChainError> {
        Self::apply(self, entry, artifact.clone(), head)
    }

    fn draft(&self, artifact: &Artifact) -> Result<(Draft, ArtifactBody), JournalError> {
        let trace_id = self.head.trace_id;
        let body = artifact
            .to_bytes()
            .map_err(|source| JournalError::NotCanonical { trace_id, source })?;
        let body = ArtifactBody::new(body);
        let transition = transition_of(artifact).ok_or_else(|| JournalError::Rejected {
            trace_id,
            source: ChainError::Link {
                sequence_number: self.head.sequence_number + 1,
                reason: "a question to a person is not a transition",
            },
        })?;
        let (request, tool_call_id) = match artifact {
            Artifact::Request(request) => (Some(request), self.head.tool_call_id),
            Artifact::Call(call) => {
                (self.request.as_ref().map(|(request, _)| request), Some(call.tool_call_id))
            }
            Artifact::Decision(_) | Artifact::Effect(_) => {
                (self.request.as_ref().map(|(request, _)| request), self.head.tool_call_id)
            }
        };
        let draft = Draft {
            ts: artifact.ts(),
            transition,
            artifact_id: artifact.artifact_id(),
            artifact_digest: body.digest(),
            tool_call_id,
            idempotency_key: request.and_then(|request| request.idempotency_key.clone()),
        };
        Ok((draft, body))
    }
}

/// The entry of an event; a trace without entries is in the state `first`.
fn draft_of<E: TraceEvent>(
    head: &Head,
    first: State,
    event: &EventArtifact<E>,
) -> Result<(Draft, ArtifactBody), JournalError> {
    let trace_id = head.trace_id;
    let body =
        event.to_bytes().map_err(|source| JournalError::NotCanonical { trace_id, source })?;
    let body = ArtifactBody::new(body);
    let from = head.state.unwrap_or(first);
    let draft = Draft {
        ts: event.ts,
        transition: Transition { from, to: event.event.state_after(from), artifact: E::ARTIFACT },
        artifact_id: event.artifact_id,
        artifact_digest: body.digest(),
        tool_call_id: None,
        idempotency_key: None,
    };
    Ok((draft, body))
}

impl Fold for Run {
    type Artifact = RunEvent;
    const MACHINE: Machine = Machine::Run;

    fn empty(trace_id: TraceId) -> Self {
        Self::empty(trace_id)
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn plan_id(&self) -> Option<PlanId> {
        self.started.as_ref().map(|_| PlanId(self.head.trace_id.0))
    }

    fn read(entry: &Entry, body: &[u8]) -> Result<RunEvent, ChainError> {
        RunEvent::of_entry(entry, body)
    }

    fn skim(entry: &Entry, body: &[u8]) -> Result<RunEvent, ChainError> {
        serde_json::from_slice(body).map_err(|_| mismatch(entry))
    }

    fn apply(&mut self, entry: &Entry, event: &RunEvent, head: Head) -> Result<(), ChainError> {
        self.apply(&event.event, entry.artifact_digest, entry.ts, head)
    }

    fn draft(&self, event: &RunEvent) -> Result<(Draft, ArtifactBody), JournalError> {
        draft_of(&self.head, State::Init, event)
    }
}

impl Fold for Grant {
    type Artifact = GrantEvent;
    const MACHINE: Machine = Machine::Grant;

    fn empty(trace_id: TraceId) -> Self {
        Self::empty(trace_id)
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn plan_id(&self) -> Option<PlanId> {
        self.granted.as_ref().map(|_| PlanId(self.head.trace_id.0))
    }

    fn read(entry: &Entry, body: &[u8]) -> Result<GrantEvent, ChainError> {
        GrantEvent::of_entry(entry, body)
    }

    fn skim(entry: &Entry, body: &[u8]) -> Result<GrantEvent, ChainError> {
        <Self as Fold>::read(entry, body)
    }

    fn apply(&mut self, entry: &Entry, event: &GrantEvent, head: Head) -> Result<(), ChainError> {
        Self::apply(self, entry, &event.event, head)
    }

    fn draft(&self, event: &GrantEvent) -> Result<(Draft, ArtifactBody), JournalError> {
        draft_of(&self.head, State::Granted, event)
    }
}

impl Fold for Notification {
    type Artifact = NotificationEvent;
    const MACHINE: Machine = Machine::Notification;

    fn empty(trace_id: TraceId) -> Self {
        Self::empty(trace_id)
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn plan_id(&self) -> Option<PlanId> {
        self.created.as_ref().map(|_| PlanId(self.head.trace_id.0))
    }

    fn read(entry: &Entry, body: &[u8]) -> Result<NotificationEvent, ChainError> {
        NotificationEvent::of_entry(entry, body)
    }

    fn skim(entry: &Entry, body: &[u8]) -> Result<NotificationEvent, ChainError> {
        <Self as Fold>::read(entry, body)
    }

    fn apply(
        &mut self,
        entry: &Entry,
        event: &NotificationEvent,
        head: Head,
    ) -> Result<(), ChainError> {
        Self::apply(self, entry, &event.event, head)
    }

    fn draft(&self, event: &NotificationEvent) -> Result<(Draft, ArtifactBody), JournalError> {
        draft_of(&self.head, State::Due, event)
    }
}

/// The events of a run, verified but not folded: for readers that know where they stopped and
/// want only what is new.
#[derive(Clone, Copy, Debug)]
pub struct ChainOnly(pub Head);

impl Fold for ChainOnly {
    type Artifact = RunEvent;
    const MACHINE: Machine = Machine::Run;

    fn empty(trace_id: TraceId) -> Self {
        Self(Head::empty(trace_id))
    }

    fn head(&self) -> &Head {
        &self.0
    }

    fn plan_id(&self) -> Option<PlanId> {
        None
    }

    fn read(entry: &Entry, body: &[u8]) -> Result<RunEvent, ChainError> {
        <Run as Fold>::read(entry, body)
    }

    fn skim(entry: &Entry, body: &[u8]) -> Result<RunEvent, ChainError> {
        <Run as Fold>::skim(entry, body)
    }

    fn apply(&mut self, _: &Entry, _: &RunEvent, head: Head) -> Result<(), ChainError> {
        self.0 = head;
        Ok(())
    }

    fn draft(&self, event: &RunEvent) -> Result<(Draft, ArtifactBody), JournalError> {
        let mut run = Run::empty(self.0.trace_id);
        run.head = self.0;
        run.draft(event)
    }
}

/// Compares the end and the plan of a trace with what the store recorded apart from its entries.
pub(crate) fn agree(
    head: &Head,
    plan_id: Option<PlanId>,
    recorded: &TraceState,
) -> Result<(), ChainError> {
    head.matches(&recorded.head)?;
    if plan_id.is_some_and(|plan_id| plan_id != recorded.plan_id) {
        let (sequence_number, reason) = (1, "the trace is recorded under another plan");
        return Err(ChainError::Link { sequence_number, reason });
    }
    Ok(())
}

/// Verifies an entry's position in the chain, its own digest and its artifact's digest; returns the
/// head after it.
pub(crate) fn admit(
    head: &Head,
    entry: &Entry,
    body: Option<&[u8]>,
    buffer: &mut Vec<u8>,
) -> Result<Head, ChainError> {
    let next = head.admit(entry, buffer)?;
    match body {
        Some(body) if Digest::of(body) != entry.artifact_digest => Err(mismatch(entry)),
        Some(_) | None => Ok(next),
    }
}
