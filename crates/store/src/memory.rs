//! A store in memory: for tests, simulations, and as the plainest reading of the contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{Entry, HolderId, ReplayPoint, ReservedKey, TraceId};

use crate::error::{AcquireError, AppendError, StoreError};
use crate::rules::{self, Digests};
use crate::store::{Appended, Store};
use crate::types::{
    After, Append, Claim, Counts, IdempotencyRecord, KeyAction, Lease, Record, Slot, TraceFilter,
    TraceState, Unreserved, Visitor,
};

/// What survives when a process dies: the database.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Where each trace stands.
    pub traces: BTreeMap<TraceId, TraceState>,
    /// Each trace's entries, in the order they were appended.
    pub entries: BTreeMap<TraceId, Vec<Record>>,
    /// Each trace's checkpoints.
    pub checkpoints: BTreeMap<TraceId, Vec<ReplayPoint>>,
    /// The keys.
    pub keys: BTreeMap<Slot, IdempotencyRecord>,
    /// Each call's dispatches after its first.
    pub redispatches: BTreeMap<TraceId, Vec<Redispatch>>,
}

impl Tables {
    /// A key's record, with its effect if the trace under it has ended.
    fn key(&self, slot: &Slot) -> Option<IdempotencyRecord> {
        let mut record = self.keys.get(slot)?.clone();
        let trace = self.traces.get(&record.trace_id)?;
        if trace.head.state.is_some_and(windlass_kernel::State::is_terminal) {
            let number = trace.head.sequence_number;
            let mut records = self.entries.get(&record.trace_id).into_iter().flatten();
            let last = records.find(|record| record.entry.sequence_number == number);
            record.effect_digest = last.map(|record| record.entry.artifact_digest);
        }
        Some(record)
    }

    /// Whether a key is on record as an entry says.
    fn has(&self, key: &ReservedKey<'_>, entry: &Entry) -> bool {
        self.keys.get(&Slot::from(key)).is_some_and(|record| record.is_for(key, entry))
    }
}

#[derive(Debug, Default)]
struct World {
    tables: Tables,
    live: BTreeSet<HolderId>,
}

/// The shared memory that several [`MemoryStore`]s, each like a process of its own, work on.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<World>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of all that is durable.
    #[must_use]
    pub fn tables(&self) -> Tables {
        self.lock().tables.clone()
    }

    /// Changes what is durable behind the store's back, as a tamperer would.
    pub fn tamper(&self, change: impl FnOnce(&mut Tables)) {
        change(&mut self.lock().tables);
    }
}

/// One process's handle of a store in memory. Dropping it is that process's death.
#[derive(Debug)]
pub struct MemoryStore {
    shared: Shared,
    me: HolderId,
    held: Mutex<BTreeSet<TraceId>>,
}

impl MemoryStore {
    /// Opens a handle under an id of its own.
    #[must_use]
    pub fn open(shared: &Shared, me: HolderId) -> Self {
        shared.lock().live.insert(me);
        Self { shared: shared.clone(), me, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, BTreeSet<TraceId>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.shared.lock().live.remove(&self.me);
    }
}

impl Store for MemoryStore {
    fn load_state(&self, trace_id: TraceId) -> Result<TraceState, StoreError> {
        let world = self.shared.lock();
        world.tables.traces.get(&trace_id).copied().ok_or(StoreError::NotFound { trace_id })
    }

    fn append(&self, append: Append<'_>) -> Result<Appended, AppendError> {
        let trace_id = append.claim.trace_id();
        let mut world = self.shared.lock();
        let tables = &mut world.tables;
        let current = tables.traces.get(&trace_id);
        let state = rules::decide_append(current, &append, self.me, Digests::Unchecked)?;
        if let KeyAction::Reserve(reservation) = &append.key {
            rules::decide_key(tables.key(&reservation.slot), &append.key)?;
        }
        tables.traces.insert(trace_id, state);
        let records = append.entries.into_iter().map(Record::from);
        tables.entries.entry(trace_id).or_default().extend(records);
        if let KeyAction::Reserve(reservation) = append.key {
            let slot = reservation.slot.clone();
            let record = IdempotencyRecord { reservation, trace_id, effect_digest: None };
            tables.keys.insert(slot, record);
        }
        let lease = match (append.claim, append.after) {
            (Claim::New { .. }, After::Keep) => {
                self.held().insert(trace_id);
                Some(Lease::grant(trace_id, self.me, state.fence))
            }
            (_, After::Release) => {
                self.held().remove(&trace_id);
                None
            }
            (Claim::Held(_), After::Keep) => None,
        };
        Ok(Appended { state, lease })
    }

    fn list_log_entries(
        &self,
        trace_id: TraceId,
        after_sequence_number: u64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let world = self.shared.lock();
        // Entries that belong to no trace are shown by a scan only.
        if !world.tables.traces.contains_key(&trace_id) {
            return Ok(Vec::new());
        }
        let records = world.tables.entries.get(&trace_id).map(Vec::as_slice).unwrap_or_default();
        let after =
            records.iter().filter(|record| record.entry.sequence_number > after_sequence_number);
        Ok(after.take(limit).cloned().collect())
    }

    fn write_replay_point(
        &self,
        lease: &Lease,
        checkpoint: &ReplayPoint,
    ) -> Result<(), AppendError> {
        let trace_id = lease.trace_id();
        let mut world = self.shared.lock();
        let current = world.tables.traces.get(&trace_id);
        rules::decide_checkpoint(current, lease, self.me, checkpoint)?;
        world.tables.checkpoints.entry(trace_id).or_default().push(checkpoint.clone());
        Ok(())
    }

    fn load_latest_replay_point(
        &self,
        trace_id: TraceId,
    ) -> Result<Option<ReplayPoint>, StoreError> {
        let world = self.shared.lock();
        Ok(world.tables.checkpoints.get(&trace_id).and_then(|all| all.last().cloned()))
    }

    fn acquire(&self, trace_id: TraceId) -> Result<Lease, AcquireError> {
        let mut world = self.shared.lock();
        let World { tables, live } = &mut *world;
        let state = tables.traces.get_mut(&trace_id).ok_or(StoreError::NotFound { trace_id })?;
        let mut held = self.held();
        if let Some(holder) = state.holder {
            let mine = holder == self.me && held.contains(&trace_id);
            if mine || (holder != self.me && live.contains(&holder)) {
                return Err(AcquireError::Held { trace_id, holder });
            }
        }
        state.fence += 1;
        state.holder = Some(self.me);
        held.insert(trace_id);
        Ok(Lease::grant(trace_id, self.me, state.fence))
    }

    fn release(&self, lease: Lease) -> Result<(), StoreError> {
        let mut world = self.shared.lock();
        if let Some(state) = world.tables.traces.get_mut(&lease.trace_id())
            && rules::holds(&lease, state)
        {
            self.held().remove(&lease.trace_id());
            state.holder = None;
        }
        Ok(())
    }

    fn load_idempotency(&self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError> {
        Ok(self.shared.lock().tables.key(slot))
    }

    fn record_redispatch(&self, lease: &Lease, redispatch: &Redispatch) -> Result<(), AppendError> {
        let trace_id = lease.trace_id();
        let mut world = self.shared.lock();
        let tables = &mut world.tables;
        let list = tables.redispatches.entry(trace_id).or_default();
        let recorded = u32::try_from(list.len()).unwrap_or(u32::MAX);
        let current = tables.traces.get(&trace_id);
        rules::decide_redispatch(current, lease, self.me, recorded, redispatch.attempt)?;
        list.push(redispatch.clone());
        Ok(())
    }

    fn list_redispatches(&self, trace_id: TraceId) -> Result<Vec<Redispatch>, StoreError> {
        let world = self.shared.lock();
        Ok(world.tables.redispatches.get(&trace_id).cloned().unwrap_or_default())
    }

    fn list_traces(&self, filter: &TraceFilter) -> Result<Vec<TraceState>, StoreError> {
        let world = self.shared.lock();
        let wanted = |state: &&TraceState| {
            let terminal = state.head.state.is_some_and(windlass_kernel::State::is_terminal);
            !(filter.open_only && terminal)
                && filter.state.is_none_or(|wanted| state.head.state == Some(wanted))
                && filter.before.is_none_or(|before| state.head.trace_id < before)
        };
        let newest_first = world.tables.traces.values().rev();
        Ok(newest_first.filter(wanted).take(filter.limit).copied().collect())
    }

    fn count(&self) -> Result<Counts, StoreError> {
        let mut counts = Counts::default();
        for trace in self.shared.lock().tables.traces.values() {
            counts.add(trace.head.state, 1, trace.head.sequence_number);
        }
        Ok(counts)
    }

    fn scan(&self, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
        let tables = self.shared.tables();
        let ids: BTreeSet<TraceId> =
            tables.traces.keys().chain(tables.entries.keys()).copied().collect();
        for trace_id in ids {
            visitor.trace(trace_id, tables.traces.get(&trace_id));
            for record in tables.entries.get(&trace_id).into_iter().flatten() {
                visitor.entry(Ok(record.entry.clone()), record.body.as_deref());
                if visitor.reserved().is_some_and(|key| !tables.has(&key, &record.entry)) {
                    let sequence_number = record.entry.sequence_number;
                    let reason = Unreserved::LOST;
                    visitor.unreserved(Unreserved { trace_id, sequence_number, reason });
                }
            }
        }
        Ok(())
    }

    fn is_held(&self, state: &TraceState) -> Result<bool, StoreError> {
        Ok(match state.holder {
            None => false,
            Some(holder) if holder == self.me => self.held().contains(&state.head.trace_id),
            Some(holder) => self.shared.lock().live.contains(&holder),
        })
    }
}
