//! Stores that do not do what they say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{HolderId, State, TraceId, Uuid7};
use windlass_store::{
    AcquireError, After, Append, AppendError, Appended, Claim, IdempotencyRecord, KeyAction, Lease,
    NewEntry, Record, Shared, Store, StoreError, Tables, TraceFilter, TraceState, rules,
};
use windlass_testkit::gateway::{Meddle, Meddled, Parts, World};

const ME: HolderId = HolderId(Uuid7::from_parts(9, [9; 10]));

fn wrap(inner: Arc<dyn Store>, meddler: impl Meddle + 'static) -> Arc<dyn Store> {
    Arc::new(Meddled::new(inner, meddler))
}

fn last_state(append: &Append<'_>) -> Option<State> {
    append.entries.last().map(|new| new.entry.to_state)
}

/// Loses the last append when the process dies.
#[derive(Default)]
pub struct Volatile {
    before: Arc<Mutex<Option<Tables>>>,
}

struct VolatileStore {
    before: Arc<Mutex<Option<Tables>>>,
    shared: Shared,
}

impl Meddle for VolatileStore {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        *self.before.lock().unwrap() = Some(self.shared.tables());
        inner.append(append)
    }
}

impl Parts for Volatile {
    fn store(&self, honest: Arc<dyn Store>, world: &World) -> Arc<dyn Store> {
        *self.before.lock().unwrap() = None;
        let (before, shared) = (Arc::clone(&self.before), world.shared.clone());
        wrap(honest, VolatileStore { before, shared })
    }

    fn after_death(&self, world: &World) {
        if let Some(before) = self.before.lock().unwrap().take() {
            world.shared.tamper(|tables| *tables = before);
        }
    }
}

/// Forgets the last entry of each open trace when the process dies, head and all.
pub struct LostTail;

impl Parts for LostTail {
    fn after_death(&self, world: &World) {
        world.shared.tamper(|tables| {
            for (trace_id, records) in &mut tables.entries {
                let (Some(last), Some(trace)) = (records.pop(), tables.traces.get_mut(trace_id))
                else {
                    continue;
                };
                trace.head.sequence_number -= 1;
                trace.head.entry_digest = last.entry.prev_entry_digest;
                trace.head.state = Some(last.entry.from_state);
                if last.entry.to_state == State::Executing {
                    trace.head.tool_call_id = None;
                }
            }
        });
    }
}

/// Says that an effect is recorded, and throws it away.
pub struct AckedNotWritten;

impl AckedNotWritten {
    pub fn over(inner: Arc<dyn Store>) -> Arc<dyn Store> {
        wrap(inner, Self)
    }
}

impl Meddle for AckedNotWritten {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        let Claim::Held(lease) = append.claim else { return inner.append(append) };
        let current = inner.load_state(append.claim.trace_id())?;
        let state = rules::decide_append(
            Some(&current),
            &append,
            lease.holder(),
            rules::Digests::Unchecked,
        )?;
        Ok(Appended { state, lease: None })
    }
}

/// Does not reserve keys.
pub struct LostKey;

impl LostKey {
    pub fn over(inner: Arc<dyn Store>) -> Arc<dyn Store> {
        wrap(inner, Self)
    }
}

impl Meddle for LostKey {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        inner.append(Append { key: KeyAction::None, ..append })
    }
}

/// Reserves a key in a transaction of its own, after the entries.
pub struct SplitKey(Shared);

impl SplitKey {
    pub fn over(inner: Arc<dyn Store>, world: &World) -> Arc<dyn Store> {
        wrap(inner, Self(world.shared.clone()))
    }
}

impl Meddle for SplitKey {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        let Some(reservation) = append.key.reservation().cloned() else {
            return inner.append(append);
        };
        rules::decide_key(inner.load_idempotency(&reservation.slot)?, &append.key)?;
        let trace_id = append.claim.trace_id();
        let appended = inner.append(Append { key: KeyAction::None, ..append })?;
        let slot = reservation.slot.clone();
        let (effect_digest, did_not_run) = (None, false);
        let record = IdempotencyRecord { reservation, trace_id, effect_digest, did_not_run };
        self.0.tamper(|tables| tables.keys.entry(slot).or_default().push(record));
        Ok(appended)
    }
}

/// Commits the first of several entries by itself.
pub struct TornBatch;

impl TornBatch {
    pub fn over(inner: Arc<dyn Store>) -> Arc<dyn Store> {
        wrap(inner, Self)
    }
}

impl Meddle for TornBatch {
    fn append(&self, inner: &dyn Store, mut append: Append<'_>) -> Result<Appended, AppendError> {
        if append.entries.len() < 2 || matches!(append.claim, Claim::Held(_)) {
            return inner.append(append);
        }
        let rest = append.entries.split_off(1);
        let first = Append { key: KeyAction::None, after: After::Keep, ..append };
        let (key, after) = (append.key, append.after);
        let lease = inner.append(first)?.lease.unwrap();
        let claim = Claim::Held(&lease);
        let appended = inner.append(Append { claim, entries: rest, key, after })?;
        let lease = (after == After::Keep).then_some(lease);
        Ok(Appended { state: appended.state, lease })
    }
}

/// Writes a call down only together with its effect.
#[derive(Default)]
pub struct Deferred(Mutex<Vec<(Vec<NewEntry>, KeyAction, windlass_kernel::PlanId)>>);

impl Deferred {
    pub fn over(inner: Arc<dyn Store>) -> Arc<dyn Store> {
        wrap(inner, Self::default())
    }
}

impl Meddle for Deferred {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        let trace_id = append.claim.trace_id();
        match append.claim {
            Claim::New { plan_id, .. } if last_state(&append) == Some(State::Executing) => {
                let state = rules::decide_append(None, &append, ME, rules::Digests::Unchecked)?;
                self.0.lock().unwrap().push((append.entries, append.key, plan_id));
                Ok(Appended { state, lease: Some(Lease::grant(trace_id, ME, state.fence)) })
            }
            Claim::New { .. } => inner.append(append),
            Claim::Held(_) => {
                let Some((mut entries, key, plan_id)) = self.0.lock().unwrap().pop() else {
                    return inner.append(append);
                };
                entries.extend(append.entries);
                let claim = Claim::New { trace_id, plan_id };
                inner.append(Append { claim, entries, key, after: append.after })
            }
        }
    }
}

/// Reads as if the last entry of an ended trace had not been written; writes whatever it is given.
pub struct Stale {
    shared: Shared,
    hidden: fn(State) -> bool,
}

impl Stale {
    pub fn ended(inner: Arc<dyn Store>, world: &World) -> Arc<dyn Store> {
        let hidden = |state| matches!(state, State::Completed | State::Failed);
        wrap(inner, Self { shared: world.shared.clone(), hidden })
    }

    pub fn decided(inner: Arc<dyn Store>, world: &World) -> Arc<dyn Store> {
        let hidden = |state| state == State::Denied;
        wrap(inner, Self { shared: world.shared.clone(), hidden })
    }

    fn hide(&self, inner: &dyn Store, mut state: TraceState) -> Result<TraceState, StoreError> {
        let trace_id = state.head.trace_id;
        let records = inner.list_log_entries(trace_id, 0, usize::MAX)?;
        for record in records.iter().rev().take_while(|one| (self.hidden)(one.entry.to_state)) {
            state.head.sequence_number -= 1;
            state.head.entry_digest = record.entry.prev_entry_digest;
            state.head.state = Some(record.entry.from_state);
        }
        Ok(state)
    }
}

impl Meddle for Stale {
    fn load_state(&self, inner: &dyn Store, id: TraceId) -> Result<TraceState, StoreError> {
        self.hide(inner, inner.load_state(id)?)
    }

    fn list_log_entries(
        &self,
        inner: &dyn Store,
        trace_id: TraceId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let mut records = inner.list_log_entries(trace_id, after, limit)?;
        records.retain(|record| !(self.hidden)(record.entry.to_state));
        Ok(records)
    }

    fn list_traces(
        &self,
        inner: &dyn Store,
        filter: &TraceFilter,
    ) -> Result<Vec<TraceState>, StoreError> {
        let mut all = inner.list_traces(&TraceFilter { open_only: false, ..*filter })?;
        for state in &mut all {
            *state = self.hide(inner, *state)?;
        }
        all.retain(|state| !state.head.state.is_some_and(State::is_terminal));
        Ok(all)
    }

    fn record_redispatch(
        &self,
        _: &dyn Store,
        lease: &Lease,
        redispatch: &Redispatch,
    ) -> Result<(), AppendError> {
        let redispatch = redispatch.clone();
        self.shared.tamper(|tables| {
            tables.redispatches.entry(lease.trace_id()).or_default().push(redispatch);
        });
        Ok(())
    }

    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        match append.claim {
            Claim::New { .. } => inner.append(append),
            Claim::Held(_) => Ok(append_unchecked(&self.shared, append)),
        }
    }
}

/// Writes entries without asking anything.
fn append_unchecked(shared: &Shared, append: Append<'_>) -> Appended {
    let trace_id = append.claim.trace_id();
    let mut state = shared.tables().traces.get(&trace_id).copied().unwrap();
    shared.tamper(|tables| {
        for new in append.entries {
            state.head.sequence_number = new.entry.sequence_number;
            state.head.entry_digest = new.entry.entry_digest;
            state.head.state = Some(new.entry.to_state);
            tables.entries.entry(trace_id).or_default().push(new.into());
        }
        if append.after == After::Release {
            state.holder = None;
        }
        tables.traces.insert(trace_id, state);
    });
    Appended { state, lease: None }
}

/// Does not write down that a call is handed over again.
pub struct RedispatchUnrecorded;

impl RedispatchUnrecorded {
    pub fn over(inner: Arc<dyn Store>) -> Arc<dyn Store> {
        wrap(inner, Self)
    }
}

impl Meddle for RedispatchUnrecorded {
    fn record_redispatch(
        &self,
        _: &dyn Store,
        _: &Lease,
        _: &Redispatch,
    ) -> Result<(), AppendError> {
        Ok(())
    }
}

/// Lets a key be used for another request.
pub struct ConflictExecuted;

impl ConflictExecuted {
    pub fn over(inner: Arc<dyn Store>) -> Arc<dyn Store> {
        wrap(inner, Self)
    }
}

impl Meddle for ConflictExecuted {
    fn append(&self, inner: &dyn Store, mut append: Append<'_>) -> Result<Appended, AppendError> {
        if let Some(wanted) = append.key.reservation()
            && let Some(record) = inner.load_idempotency(&wanted.slot)?
            && record.reservation.request_digest != wanted.request_digest
        {
            append.key = KeyAction::None;
        }
        inner.append(append)
    }
}

/// Lets a writer write that has been taken over.
pub struct SkippedFence(Shared);

impl SkippedFence {
    pub fn over(inner: Arc<dyn Store>, world: &World) -> Arc<dyn Store> {
        wrap(inner, Self(world.shared.clone()))
    }
}

impl Meddle for SkippedFence {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        match append.claim {
            Claim::New { .. } => inner.append(append),
            Claim::Held(_) => Ok(append_unchecked(&self.0, append)),
        }
    }
}

/// Takes every lock for free.
pub struct HolderRobbed(Shared);

impl HolderRobbed {
    pub fn over(inner: Arc<dyn Store>, world: &World) -> Arc<dyn Store> {
        wrap(inner, Self(world.shared.clone()))
    }
}

fn free(shared: &Shared, trace_id: TraceId) {
    shared.tamper(|tables| {
        if let Some(trace) = tables.traces.get_mut(&trace_id) {
            trace.holder = None;
        }
    });
}

impl Meddle for HolderRobbed {
    fn acquire(&self, inner: &dyn Store, trace_id: TraceId) -> Result<Lease, AcquireError> {
        free(&self.0, trace_id);
        inner.acquire(trace_id)
    }
}

/// Releases the lock even when it did not get it.
pub struct LoserReleases(Shared);

impl LoserReleases {
    pub fn over(inner: Arc<dyn Store>, world: &World) -> Arc<dyn Store> {
        wrap(inner, Self(world.shared.clone()))
    }
}

impl Meddle for LoserReleases {
    fn acquire(&self, inner: &dyn Store, trace_id: TraceId) -> Result<Lease, AcquireError> {
        let result = inner.acquire(trace_id);
        if matches!(result, Err(AcquireError::Held { .. })) {
            free(&self.0, trace_id);
        }
        result
    }
}
