//! A store in memory, for tests and simulations; the simplest implementation of the contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_kernel::artifact::{Redispatch, ToolEffect};
use windlass_kernel::{Entry, HolderId, ReplayPoint, ReservedKey, TraceId};

use crate::error::{AcquireError, AppendError, StoreError};
use crate::rules::{self, Digests};
use crate::store::{Appended, Store};
use crate::types::{
    After, Append, Claim, Counts, IdempotencyRecord, KeyAction, KeyMismatch, Lease, Record, Slot,
    TraceFilter, TraceState, Visitor,
};

/// The durable data: what survives when a process dies.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The state of each trace.
    pub traces: BTreeMap<TraceId, TraceState>,
    /// The entries of each trace, in the order in which they were appended.
    pub entries: BTreeMap<TraceId, Vec<Record>>,
    /// The replay points of each trace.
    pub replay_points: BTreeMap<TraceId, Vec<ReplayPoint>>,
    /// The idempotency records.
    pub keys: BTreeMap<Slot, Vec<IdempotencyRecord>>,
    /// The dispatches of each call after its first.
    pub redispatches: BTreeMap<TraceId, Vec<Redispatch>>,
}

impl Tables {
    /// The record of a key, with its effect if its trace has ended: the one that has the key, or any of
    /// those that do not use it up.
    fn key(&self, slot: &Slot) -> Option<IdempotencyRecord> {
        let mut records = self.keys.get(slot)?.iter().filter_map(|record| self.with_effect(record));
        let mut found = records.next()?;
        for record in records {
            if found.did_not_run {
                found = record;
            }
        }
        Some(found)
    }

    fn with_effect(&self, record: &IdempotencyRecord) -> Option<IdempotencyRecord> {
        let mut record = record.clone();
        let trace = self.traces.get(&record.trace_id)?;
        if trace.head.state.is_some_and(windlass_kernel::State::is_terminal) {
            let number = trace.head.sequence_number;
            let mut records = self.entries.get(&record.trace_id).into_iter().flatten();
            let last = records.find(|record| record.entry.sequence_number == number);
            record.effect_digest = last.map(|record| record.entry.artifact_digest);
            let body = last.and_then(|record| record.body.as_deref());
            record.did_not_run = body.is_some_and(ToolEffect::says_it_did_not_run);
        }
        Some(record)
    }

    /// Whether there is a record that matches the key of an entry.
    fn has_record(&self, key: &ReservedKey<'_>, entry: &Entry) -> bool {
        let mut records = self.keys.get(&Slot::from(key)).into_iter().flatten();
        records.any(|record| record.is_for(key, entry))
    }
}

#[derive(Debug, Default)]
struct World {
    tables: Tables,
    live: BTreeSet<HolderId>,
}

/// The memory that several [`MemoryStore`]s share; each of them is like a process.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<World>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the durable data.
    #[must_use]
    pub fn tables(&self) -> Tables {
        self.lock().tables.clone()
    }

    /// Changes the durable data without the store, as a tamperer would.
    pub fn tamper(&self, change: impl FnOnce(&mut Tables)) {
        change(&mut self.lock().tables);
    }
}

/// The handle of one process on a store in memory. To drop it is the end of that process.
#[derive(Debug)]
pub struct MemoryStore {
    shared: Shared,
    me: HolderId,
    held: Mutex<BTreeSet<TraceId>>,
}

impl MemoryStore {
    /// Opens a handle for the process `me`.
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
        if let Some(reservation) = append.key.reservation() {
            rules::decide_key(tables.key(&reservation.slot), &append.key)?;
        }
        tables.traces.insert(trace_id, state);
        let records = append.entries.into_iter().map(Record::from);
        tables.entries.entry(trace_id).or_default().extend(records);
        if let KeyAction::Reserve(reservation) | KeyAction::Retake(reservation) = append.key {
            let slot = reservation.slot.clone();
            let (effect_digest, did_not_run) = (None, false);
            let record = IdempotencyRecord { reservation, trace_id, effect_digest, did_not_run };
            tables.keys.entry(slot).or_default().push(record);
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
        // Only a scan visits entries without a trace.
        if !world.tables.traces.contains_key(&trace_id) {
            return Ok(Vec::new());
        }
        let records = world.tables.entries.get(&trace_id).map(Vec::as_slice).unwrap_or_default();
        let after =
            records.iter().filter(|record| record.entry.sequence_number > after_sequence_number);
        Ok(after.take(limit).cloned().collect())
    }

    fn write_replay_point(&self, lease: &Lease, point: &ReplayPoint) -> Result<(), AppendError> {
        let trace_id = lease.trace_id();
        let mut world = self.shared.lock();
        let current = world.tables.traces.get(&trace_id);
        rules::decide_replay_point(current, lease, self.me, point)?;
        world.tables.replay_points.entry(trace_id).or_default().push(point.clone());
        Ok(())
    }

    fn load_latest_replay_point(
        &self,
        trace_id: TraceId,
    ) -> Result<Option<ReplayPoint>, StoreError> {
        let world = self.shared.lock();
        Ok(world.tables.replay_points.get(&trace_id).and_then(|all| all.last().cloned()))
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
        let newest_first = world.tables.traces.values().rev();
        Ok(newest_first.filter(|trace| filter.admits(trace)).take(filter.limit).copied().collect())
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
                let expected = visitor.entry(Ok(record.entry.clone()), record.body.as_deref());
                if expected.is_some_and(|key| !tables.has_record(&key, &record.entry)) {
                    let sequence_number = record.entry.sequence_number;
                    let reason = KeyMismatch::MISSING;
                    visitor.key_mismatch(KeyMismatch { trace_id, sequence_number, reason });
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    fn is_held(&self, state: &TraceState) -> Result<bool, StoreError> {
        Ok(match state.holder {
            None => false,
            Some(holder) if holder == self.me => self.held().contains(&state.head.trace_id),
            Some(holder) => self.shared.lock().live.contains(&holder),
        })
    }
}
