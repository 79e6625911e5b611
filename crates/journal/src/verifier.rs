//! Verifying a trace of any machine, entry by entry.

use windlass_kernel::grant::{self, Grant, GrantEvent, GrantUse};
use windlass_kernel::notification::{Notification, NotificationEvent};
use windlass_kernel::run::{Run, RunEvent};
use windlass_kernel::{
    ArtifactChain, ArtifactHeader, ArtifactType, ChainError, Digest, Entry, Head, HoldReference,
    PublicKey, ReservedKey, Signed, Timestamp, ToolCallId, TraceId,
};
use windlass_store::TraceState;

use crate::fold::{Fold, admit, agree, mismatch};

/// Verifies a trace as it is read, wherever it comes from.
///
/// Artifacts may have been purged: the chain is intact without them, but artifacts after a purged one
/// can no longer be linked to it, so only their digests are compared.
pub struct TraceVerifier {
    head: Head,
    purged: u64,
    links: ArtifactChain,
    run: Option<Box<Run>>,
    grant: Option<Box<Grant>>,
    notification: Option<Box<Notification>>,
    /// The entry that dispatched the call: its number and the call's id.
    tool_call: Option<(u64, Option<ToolCallId>)>,
    /// The answered hold of a run by which the call was decided.
    hold: Option<HoldReference>,
    /// Who signed something in the trace, and when.
    signers: Vec<Signature>,
    buffer: Vec<u8>,
}

/// A person's key that signed something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// When.
    pub at: Timestamp,
    /// The key.
    pub key: PublicKey,
    /// The person's name.
    pub name: String,
    /// In which trace.
    pub trace_id: TraceId,
}

impl Signature {
    fn of(entry: &Entry, signed: &Signed) -> Self {
        let (at, trace_id) = (entry.ts, entry.trace_id);
        Self { at, key: signed.key, name: signed.name.clone(), trace_id }
    }
}

impl TraceVerifier {
    /// A verifier at the beginning of a trace.
    #[must_use]
    pub fn new(trace_id: TraceId) -> Self {
        Self {
            head: Head::empty(trace_id),
            purged: 0,
            links: ArtifactChain::default(),
            run: None,
            grant: None,
            notification: None,
            tool_call: None,
            hold: None,
            signers: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Begins another trace, reusing the buffers.
    pub fn restart(&mut self, trace_id: TraceId) {
        let buffer = std::mem::take(&mut self.buffer);
        *self = Self { buffer, ..Self::new(trace_id) };
    }

    /// Verifies that an entry comes next, with its artifact unless that was purged.
    ///
    /// # Errors
    /// [`ChainError`] for the first thing that is wrong; then nothing more can be verified.
    pub fn push(&mut self, entry: &Entry, body: Option<&[u8]>) -> Result<(), ChainError> {
        let head = admit(&self.head, entry, body, &mut self.buffer)?;
        match body {
            None => self.purged += 1,
            Some(body) => self.push_artifact(entry, body, head)?,
        }
        self.head = head;
        Ok(())
    }

    fn push_artifact(&mut self, entry: &Entry, body: &[u8], head: Head) -> Result<(), ChainError> {
        match entry.artifact_type {
            ArtifactType::ActionRequest
            | ArtifactType::SupervisorDecision
            | ArtifactType::ToolCall
            | ArtifactType::ToolEffect => {
                let link =
                    ArtifactHeader::read(entry.artifact_type, body).map_err(|_| mismatch(entry))?;
                self.hold = link.hold().or(self.hold);
                self.signers.extend(link.signers().map(|signed| Signature::of(entry, signed)));
                if self.purged == 0 {
                    self.links.follow(entry, link)?;
                }
                if entry.artifact_type == ArtifactType::ToolCall {
                    self.tool_call = Some((entry.sequence_number, entry.tool_call_id));
                }
            }
            ArtifactType::RunEvent if self.purged == 0 => {
                let run = self.run.get_or_insert_with(|| Box::new(Run::empty(entry.trace_id)));
                let event = RunEvent::of_entry(entry, body)?;
                Fold::apply(run.as_mut(), entry, &event, head)?;
                let signed = event.event.signed();
                self.signers.extend(signed.map(|signed| Signature::of(entry, signed)));
            }
            ArtifactType::GrantEvent if self.purged == 0 => {
                let grant =
                    self.grant.get_or_insert_with(|| Box::new(Grant::empty(entry.trace_id)));
                let event = GrantEvent::of_entry(entry, body)?;
                Fold::apply(grant.as_mut(), entry, &event, head)?;
                let signed = match &event.event {
                    grant::Event::Granted { by, .. } | grant::Event::Revoked { by, .. } => Some(by),
                    grant::Event::Used { .. } | grant::Event::Ended { .. } => None,
                };
                self.signers.extend(signed.map(|signed| Signature::of(entry, signed)));
            }
            ArtifactType::NotificationEvent if self.purged == 0 => {
                let notification = self
                    .notification
                    .get_or_insert_with(|| Box::new(Notification::empty(entry.trace_id)));
                let event = NotificationEvent::of_entry(entry, body)?;
                Fold::apply(notification.as_mut(), entry, &event, head)?;
            }
            ArtifactType::RunEvent | ArtifactType::GrantEvent | ArtifactType::NotificationEvent => {
            }
        }
        Ok(())
    }

    /// The end of what was verified.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// Compares the trace with what the store recorded apart from its entries.
    ///
    /// # Errors
    /// [`ChainError`] if they differ.
    pub fn agrees_with(&self, recorded: &TraceState) -> Result<(), ChainError> {
        let run = self.run.as_deref().and_then(Fold::plan_id);
        let grant = self.grant.as_deref().and_then(Fold::plan_id);
        let notification = self.notification.as_deref().and_then(Fold::plan_id);
        let plan_id = self.links.plan_id().or(run).or(grant).or(notification);
        agree(&self.head, plan_id, recorded)
    }

    /// The answered hold of a run by which the call was decided, if it was.
    #[must_use]
    pub const fn hold(&self) -> Option<HoldReference> {
        self.hold
    }

    /// Who signed something in the trace.
    #[must_use]
    pub fn signatures(&self) -> &[Signature] {
        &self.signers
    }

    /// How many artifacts were purged.
    #[must_use]
    pub const fn purged(&self) -> u64 {
        self.purged
    }

    /// The use of a grant that allowed the call, and the digest of the call's request.
    #[must_use]
    pub fn grant_use(&self) -> Option<(GrantUse, Digest)> {
        Some((self.links.grant_use()?, self.links.request_digest()?))
    }

    /// The run; `None` when the trace is not a run, or an event was purged.
    #[must_use]
    pub fn run(&self) -> Option<&Run> {
        if self.purged == 0 { self.run.as_deref() } else { None }
    }

    /// The grant; `None` when the trace is not a grant, or an event was purged.
    #[must_use]
    pub fn grant(&self) -> Option<&Grant> {
        if self.purged == 0 { self.grant.as_deref() } else { None }
    }

    /// The idempotency key that the call was dispatched with, the number of that entry and the id of
    /// the call; `None` if it was not dispatched with a key.
    #[must_use]
    pub fn reserved_key(&self) -> Option<(ReservedKey<'_>, u64, Option<ToolCallId>)> {
        let (sequence_number, tool_call_id) = self.tool_call?;
        Some((self.links.reserved()?, sequence_number, tool_call_id))
    }
}
