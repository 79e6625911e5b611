//! One call being recorded: its fold, its lease, and the entries to append next.

use std::sync::Arc;

use windlass_kernel::artifact::Artifact;
use windlass_kernel::{
    Body, Call, ChainError, Digest, Draft, Head, PlanId, ReplayPoint, ReplayPointState, Timestamp,
    TraceId, transition_of,
};
use windlass_store::{
    After, Append, AppendError, Claim, Guard, KeyAction, Lease, NewEntry, Record, Store,
};

use crate::error::GatewayError;
use crate::watch::Watch;

/// The most entries a call can have: request, decision, call, effect.
const CALL_ENTRIES_MAX: usize = 4;

/// A call and the right to write it, which is given back when it is dropped.
pub struct Ledger {
    store: Arc<dyn Store>,
    guard: Option<Guard>,
    plan_id: PlanId,
    call: Call,
    pending: Vec<NewEntry>,
    recorded: Head,
    checkpointed: u64,
}

impl Ledger {
    /// Begins a new trace; nothing is written before the first commit.
    pub fn begin(store: &Arc<dyn Store>, trace_id: TraceId, plan_id: PlanId) -> Self {
        let call = Call::empty(trace_id);
        let recorded = call.head;
        let store = Arc::clone(store);
        Self {
            store,
            guard: None,
            plan_id,
            call,
            pending: Vec::with_capacity(CALL_ENTRIES_MAX),
            recorded,
            checkpointed: 0,
        }
    }

    /// Goes on with a recorded call under a lease.
    pub fn resume(store: &Arc<dyn Store>, lease: Lease) -> Result<Self, GatewayError> {
        let trace_id = lease.trace_id();
        let guard = Guard::new(Arc::clone(store), lease);
        let Loaded { call, plan_id, checkpointed } = load(store.as_ref(), trace_id)?;
        let recorded = call.head;
        Ok(Self {
            store: Arc::clone(store),
            guard: Some(guard),
            plan_id,
            call,
            pending: Vec::new(),
            recorded,
            checkpointed,
        })
    }

    /// The call, pending entries included.
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// The call; the lease, if there is still one, is given back.
    pub fn into_call(self) -> Call {
        self.call
    }

    /// The lease, while there is one.
    pub fn lease(&self) -> Option<&Lease> {
        self.guard.as_ref().and_then(Guard::lease)
    }

    /// Adds an artifact's entry to the next commit; returns the artifact's digest.
    pub fn add(&mut self, artifact: Artifact, ts: Timestamp) -> Result<Digest, GatewayError> {
        let trace_id = self.call.head.trace_id;
        let corrupt = |source| GatewayError::Corrupt { trace_id, source };
        let body =
            artifact.to_bytes().map_err(|source| GatewayError::Artifact { trace_id, source })?;
        let body = Body::new(body);
        let artifact_digest = body.digest();
        let transition = transition_of(&artifact).ok_or_else(|| {
            corrupt(ChainError::Link {
                sequence_number: self.call.head.sequence_number + 1,
                reason: "a question to a person is no transition",
            })
        })?;
        let (tool_call_id, idempotency_key) = self.ids(&artifact);
        let draft = Draft {
            ts,
            transition,
            artifact_id: artifact.artifact_id(),
            artifact_digest,
            tool_call_id,
            idempotency_key,
        };
        let (sealed, head) = self.call.head.seal(draft, body).map_err(corrupt)?;
        self.call.apply(sealed.entry(), artifact, head).map_err(corrupt)?;
        self.pending.push(sealed.into());
        Ok(artifact_digest)
    }

    /// The call's id and key as the artifact's entry carries them.
    fn ids(&self, artifact: &Artifact) -> (Option<windlass_kernel::ToolCallId>, Option<String>) {
        let tool_call_id = match artifact {
            Artifact::Call(call) => Some(call.tool_call_id),
            Artifact::Request(_) | Artifact::Decision(_) | Artifact::Effect(_) => {
                self.call.head.tool_call_id
            }
        };
        let request = match artifact {
            Artifact::Request(request) => Some(request),
            Artifact::Decision(_) | Artifact::Call(_) | Artifact::Effect(_) => {
                self.call.request.as_ref().map(|(request, _)| request)
            }
        };
        (tool_call_id, request.and_then(|request| request.idempotency_key.clone()))
    }

    /// Commits what was added. On an error nothing of it is recorded.
    pub fn commit(&mut self, key: KeyAction, after: After) -> Result<(), AppendError> {
        let entries = std::mem::take(&mut self.pending);
        let claim = match self.lease() {
            Some(lease) => Claim::Held(lease),
            None => Claim::New { trace_id: self.call.head.trace_id, plan_id: self.plan_id },
        };
        let (watch, count) = (Watch::start(), entries.len());
        let appended = self.store.append(Append { claim, entries, key, after });
        watch.append(self.call.head.trace_id, count, appended.as_ref().err());
        let appended = appended?;
        if let Some(lease) = appended.lease {
            self.guard = Some(Guard::new(Arc::clone(&self.store), lease));
        }
        if after == After::Release
            && let Some(guard) = &mut self.guard
        {
            guard.released();
        }
        self.recorded = appended.state.head;
        Ok(())
    }

    /// Keeps a checkpoint of the call as recorded, unless the newest is of just that.
    pub fn checkpoint(&self, ts: Timestamp) -> Result<(), GatewayError> {
        if self.checkpointed == self.recorded.sequence_number {
            return Ok(());
        }
        if let (Some(lease), Some(state)) =
            (self.lease(), ReplayPointState::of(&self.recorded, self.plan_id))
        {
            self.store.write_replay_point(lease, &ReplayPoint::new(state, ts))?;
        }
        Ok(())
    }
}

/// A call as it was loaded.
pub struct Loaded {
    /// The call.
    pub call: Call,
    /// The plan it belongs to.
    pub plan_id: PlanId,
    /// The entry of its newest checkpoint; 0 without one.
    pub checkpointed: u64,
}

/// Loads a call: checkpoint, entries, artifacts, each checked, and the recorded head at the end.
pub fn load(store: &dyn Store, trace_id: TraceId) -> Result<Loaded, GatewayError> {
    let corrupt = |source| GatewayError::Corrupt { trace_id, source };
    let state = store.load_state(trace_id)?;
    let checkpoint = store.load_latest_replay_point(trace_id)?;
    if let Some(checkpoint) = &checkpoint {
        checkpoint.validate().map_err(corrupt)?;
        if checkpoint.checkpoint_sequence_number > state.head.sequence_number {
            return Err(corrupt(ChainError::Truncated {
                expected: checkpoint.checkpoint_sequence_number,
                found: state.head.sequence_number,
            }));
        }
    }
    if state.head.state.is_some_and(|state| state.machine() == windlass_kernel::Machine::Run) {
        return Err(GatewayError::NotACall { trace_id });
    }
    let records = store.list_log_entries(trace_id, 0, CALL_ENTRIES_MAX + 1)?;
    let mut call = Call::empty(trace_id);
    let mut buffer = Vec::with_capacity(1024);
    for record in &records {
        apply(&mut call, record, &mut buffer)?;
        if let Some(checkpoint) = &checkpoint
            && checkpoint.checkpoint_sequence_number == call.head.sequence_number
        {
            checkpoint.agrees_with(&call.head).map_err(corrupt)?;
        }
    }
    call.head.matches(&state.head).map_err(corrupt)?;
    if let Some((request, _)) = &call.request
        && request.plan_id != state.plan_id
    {
        let sequence_number = 1;
        let reason = "the trace is filed under another plan";
        return Err(corrupt(ChainError::Link { sequence_number, reason }));
    }
    let checkpointed = checkpoint.map_or(0, |checkpoint| checkpoint.checkpoint_sequence_number);
    Ok(Loaded { call, plan_id: state.plan_id, checkpointed })
}

/// Applies one stored record to a call, checking chain, body and links.
pub fn apply(call: &mut Call, record: &Record, buffer: &mut Vec<u8>) -> Result<(), GatewayError> {
    let trace_id = call.head.trace_id;
    let corrupt = |source| GatewayError::Corrupt { trace_id, source };
    let entry = &record.entry;
    let head = call.head.admit(entry, buffer).map_err(corrupt)?;
    let Some(body) = &record.body else {
        return Err(GatewayError::Recovery {
            trace_id,
            reason: format!(
                "the {} of entry {} is gone",
                entry.artifact_type, entry.sequence_number
            ),
        });
    };
    let mismatch = || {
        corrupt(ChainError::Artifact {
            sequence_number: entry.sequence_number,
            artifact: entry.artifact_type.as_str(),
        })
    };
    if Digest::of(body) != entry.artifact_digest {
        return Err(mismatch());
    }
    let artifact = Artifact::read(entry.artifact_type, body).map_err(|_| mismatch())?;
    call.apply(entry, artifact, head).map_err(corrupt)
}
