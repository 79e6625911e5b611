//! Writing a trace.

use std::sync::Arc;
use std::time::Instant;

use tracing::{debug, enabled, warn};
use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{Digest, Head, PlanId, ReplayPoint, ReplayPointState, Timestamp, TraceId};
use windlass_store::{After, Append, Claim, KeyAction, Lease, NewEntry, Store};

use crate::error::JournalError;
use crate::fold::Fold;
use crate::lease::HeldLease;
use crate::observer::{Observer, Origin, Step};
use crate::reader::{Check, Reader};

/// A trace that this process writes: its state, its lease and the entries to commit next.
///
/// The lease is released when the recorder is dropped.
pub struct Recorder<F: Fold> {
    store: Arc<dyn Store>,
    lease: Option<HeldLease>,
    plan_id: PlanId,
    state: Arc<F>,
    pending: Vec<NewEntry>,
    /// The end of what is durable.
    recorded: Head,
    /// The entry of the newest replay point; 0 without one.
    replay_point: u64,
    observers: Vec<Box<dyn Observer<F>>>,
    /// A commit has failed: the state is ahead of the journal.
    stale: bool,
}

impl<F: Fold> Recorder<F> {
    /// Begins a new trace. Nothing is written before the first commit.
    #[must_use]
    pub fn begin(
        store: &Arc<dyn Store>,
        trace_id: TraceId,
        plan_id: PlanId,
        observers: Vec<Box<dyn Observer<F>>>,
    ) -> Self {
        let state = F::empty(trace_id);
        let recorded = *state.head();
        Self {
            store: Arc::clone(store),
            lease: None,
            plan_id,
            state: Arc::new(state),
            // A call has at most four entries.
            pending: Vec::with_capacity(4),
            recorded,
            replay_point: 0,
            observers,
            stale: false,
        }
    }

    /// Acquires a recorded trace and folds it.
    ///
    /// # Errors
    /// [`JournalError`] when a live process holds it, or it fails verification.
    pub fn open(
        store: &Arc<dyn Store>,
        trace_id: TraceId,
        observers: Vec<Box<dyn Observer<F>>>,
    ) -> Result<Self, JournalError> {
        let lease = store.acquire(trace_id)?;
        Self::resume(store, lease, observers)
    }

    /// Folds a recorded trace whose lease was acquired.
    ///
    /// # Errors
    /// [`JournalError`] when it fails verification; the lease is released then.
    pub fn resume(
        store: &Arc<dyn Store>,
        lease: Lease,
        observers: Vec<Box<dyn Observer<F>>>,
    ) -> Result<Self, JournalError> {
        let trace_id = lease.trace_id();
        let lease = HeldLease::new(Arc::clone(store), lease);
        let mut observers = observers;
        let mut reader = Reader::<F>::new(trace_id, Check::Verified);
        reader.read(store.as_ref(), &mut observers)?;
        let plan_id = reader.recorded().map_or(PlanId(trace_id.0), |recorded| recorded.plan_id);
        let replay_point = reader.replay_point();
        let state = reader.into_state();
        Ok(Self {
            store: Arc::clone(store),
            lease: Some(lease),
            plan_id,
            recorded: *state.head(),
            state: Arc::new(state),
            pending: Vec::new(),
            replay_point,
            observers,
            stale: false,
        })
    }

    /// The state, pending entries included.
    #[must_use]
    pub fn state(&self) -> &F {
        &self.state
    }

    /// The state as it is now, to be kept while the trace goes on.
    #[must_use]
    pub fn snapshot(&self) -> Arc<F> {
        Arc::clone(&self.state)
    }

    /// The state; the lease is released if it is still held.
    #[must_use]
    pub fn into_state(self) -> F {
        Arc::unwrap_or_clone(self.state)
    }

    /// The plan that the trace belongs to.
    #[must_use]
    pub const fn plan_id(&self) -> PlanId {
        self.plan_id
    }

    fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref().and_then(HeldLease::get)
    }

    /// Folds an artifact and adds its entry to the next commit; returns the artifact's digest.
    ///
    /// # Errors
    /// [`JournalError`] when the entry is not allowed here; then the trace must be read again.
    pub fn add(&mut self, artifact: &F::Artifact) -> Result<Digest, JournalError> {
        let trace_id = self.state.head().trace_id;
        if self.stale {
            return Err(JournalError::Stale { trace_id });
        }
        let rejected = |source| JournalError::Rejected { trace_id, source };
        let (draft, body) = self.state.draft(artifact)?;
        let digest = body.digest();
        let (sealed, head) = self.state.head().seal(draft, body).map_err(rejected)?;
        for observer in &mut self.observers {
            observer.before(&self.state, artifact);
        }
        // A panic or an error on the way leaves a state that must not be used.
        self.stale = true;
        let entry = sealed.entry();
        Arc::make_mut(&mut self.state).apply(entry, artifact, head).map_err(rejected)?;
        for observer in &mut self.observers {
            let (state, origin) = (&*self.state, Origin::Appended);
            observer.after(&Step { entry, artifact, state, origin });
        }
        self.stale = false;
        self.pending.push(sealed.into());
        Ok(digest)
    }

    /// Commits the pending entries in one transaction, then notifies the observers.
    ///
    /// # Errors
    /// [`JournalError`]. Nothing was written unless the error is an observer's.
    pub fn commit(&mut self, key: KeyAction, after: After) -> Result<(), JournalError> {
        let trace_id = self.state.head().trace_id;
        if self.stale {
            return Err(JournalError::Stale { trace_id });
        }
        // Until the store has answered, and after a panic.
        self.stale = true;
        let entries = std::mem::take(&mut self.pending);
        let claim = match self.lease() {
            Some(lease) => Claim::Held(lease),
            None => Claim::New { trace_id, plan_id: self.plan_id },
        };
        let count = entries.len();
        let start = enabled!(tracing::Level::DEBUG).then(Instant::now);
        let appended = self.store.append(Append { claim, entries, key, after });
        let duration_ms =
            start.map(|start| u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
        let appended = match appended {
            Ok(appended) => appended,
            Err(error) => {
                let code = error.code().as_str();
                warn!(%trace_id, entries = count, code, duration_ms, "append refused");
                return Err(error.into());
            }
        };
        debug!(%trace_id, entries = count, duration_ms, "append");
        if let Some(lease) = appended.lease {
            self.lease = Some(HeldLease::new(Arc::clone(&self.store), lease));
        }
        if after == After::Release
            && let Some(lease) = &mut self.lease
        {
            lease.released();
        }
        self.recorded = appended.state.head;
        self.stale = false;
        self.notify()
    }

    /// Notifies the observers that everything they saw is durable.
    ///
    /// # Errors
    /// [`JournalError::Observer`].
    pub fn notify(&mut self) -> Result<(), JournalError> {
        for observer in &mut self.observers {
            observer.durable(&self.state)?;
        }
        Ok(())
    }

    /// Records that a call is about to be dispatched once more.
    ///
    /// # Errors
    /// [`JournalError`] when the store refuses it; then the call must not be dispatched.
    pub fn record_redispatch(&self, redispatch: &Redispatch) -> Result<(), JournalError> {
        let trace_id = self.state.head().trace_id;
        let lease = self.lease().ok_or(JournalError::Stale { trace_id })?;
        Ok(self.store.record_redispatch(lease, redispatch)?)
    }

    /// Writes a replay point of the trace as recorded, unless the newest one is there already.
    ///
    /// # Errors
    /// [`JournalError`] when the store refuses it.
    pub fn write_replay_point(&self, ts: Timestamp) -> Result<(), JournalError> {
        if self.replay_point == self.recorded.sequence_number {
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
