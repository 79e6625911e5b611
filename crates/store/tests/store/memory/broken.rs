//! Stores with one bug each, which the suite must find.
#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "test support, where each bug is an exception to what all others do"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{
    ChainError, Digest, Entry, Head, HolderId, PlanId, ReplayPoint, ReservedKey, State, TraceId,
    Uuid7,
};
use windlass_store::conformance::memory::MemoryHarness;
use windlass_store::conformance::{Harness, Tamper};
use windlass_store::{
    AcquireError, After, Append, AppendError, Appended, Claim, Counts, IdempotencyRecord,
    KeyAction, KeyMismatch, Lease, MemoryStore, Record, Shared, Slot, Store, StoreError,
    TraceFilter, TraceState, Visitor, rules,
};

use crate::memory::bugs::Bug;
use crate::memory::visitors::HeadFromEntries;

/// Processes with a bug, on a correct database in memory.
pub struct BrokenHarness {
    memory: MemoryHarness,
    bug: Bug,
    processes: AtomicU64,
    unburied: Mutex<Vec<Box<dyn Store>>>,
}

impl BrokenHarness {
    pub fn new(bug: Bug) -> Self {
        let (memory, processes) = (MemoryHarness::default(), AtomicU64::default());
        Self { memory, bug, processes, unburied: Mutex::default() }
    }
}

impl Harness for BrokenHarness {
    fn open(&self) -> Box<dyn Store> {
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        let me = HolderId(Uuid7::from_parts(number, [0; 10]));
        let shared = self.memory.shared.clone();
        Box::new(Broken { inner: MemoryStore::open(&shared, me), me, shared, bug: self.bug })
    }

    fn kill(&self, store: Box<dyn Store>) {
        if self.bug == Bug::MournsNobody {
            self.unburied.lock().unwrap().push(store);
        }
    }

    fn tamper(&self, what: &Tamper) -> Option<()> {
        self.memory.tamper(what)
    }
}

struct Broken {
    inner: MemoryStore,
    me: HolderId,
    shared: Shared,
    bug: Bug,
}

impl Broken {
    fn is(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    fn current(&self, trace_id: TraceId) -> Option<TraceState> {
        self.inner.load_state(trace_id).ok()
    }

    fn change_state(&self, trace_id: TraceId, change: impl FnOnce(&mut TraceState)) {
        self.shared.tamper(|tables| {
            if let Some(state) = tables.traces.get_mut(&trace_id) {
                change(state);
            }
        });
    }

    /// Makes this process the holder, with the current fence.
    fn rob(&self, state: &TraceState) -> Lease {
        let trace_id = state.head.trace_id;
        self.change_state(trace_id, |state| state.holder = Some(self.me));
        Lease::grant(trace_id, self.me, state.fence)
    }

    /// The slot as this store writes it.
    fn slot(&self, slot: &Slot) -> Slot {
        let mut slot = slot.clone();
        if self.is(Bug::KeysWithoutServer) {
            slot.server_id.clear();
        }
        if self.is(Bug::CutsKeysAtNul) {
            slot.idempotency_key =
                slot.idempotency_key.split('\0').next().unwrap_or_default().to_owned();
        }
        slot
    }

    /// Changes an append before the correct store gets it.
    fn bend(&self, append: &mut Append<'_>) {
        let trace_id = append.claim.trace_id();
        let head = self.current(trace_id).map_or(0, |state| state.head.sequence_number);
        for (new, number) in append.entries.iter_mut().zip(head + 1..) {
            match self.bug {
                Bug::IgnoresArtifactDigest => new.entry.artifact_digest = Digest::of(&new.body),
                Bug::Renumbers => new.entry.sequence_number = number,
                Bug::AdoptsEntries => new.entry.trace_id = trace_id,
                Bug::CorrectsSchema => {
                    new.entry.schema_id = new.entry.from_state.machine().schema_id().into();
                }
                Bug::IgnoresOwnDigest => {}
                _ => continue,
            }
            new.entry.entry_digest = new.entry.compute_digest(&mut Vec::new());
        }
        if let KeyAction::Reserve(reservation) = &mut append.key {
            reservation.slot = self.slot(&reservation.slot);
        }
        if self.is(Bug::LosesReservations) {
            append.key = KeyAction::None;
        }
        if self.is(Bug::ForgetsRelease) {
            append.after = After::Keep;
        }
        if self.is(Bug::MakesTracesTwice) && matches!(append.claim, Claim::New { .. }) {
            self.shared.tamper(|tables| {
                tables.traces.remove(&trace_id);
                tables.entries.remove(&trace_id);
            });
        }
    }

    /// Appends each entry in its own transaction.
    fn append_one_by_one(&self, append: Append<'_>) -> Result<Appended, AppendError> {
        let Append { claim, entries, mut key, after } = append;
        let last = entries.len();
        let mut made = None;
        let mut result = None;
        for (new, number) in entries.into_iter().zip(1..) {
            let claim = match (&claim, &made) {
                (_, Some(lease)) => Claim::Held(lease),
                (Claim::Held(lease), None) => Claim::Held(lease),
                (Claim::New { trace_id, plan_id }, None) => {
                    Claim::New { trace_id: *trace_id, plan_id: *plan_id }
                }
            };
            let key = if number == last {
                std::mem::replace(&mut key, KeyAction::None)
            } else {
                KeyAction::None
            };
            let after = if number == last { after } else { After::Keep };
            let mut appended =
                self.inner.append(Append { claim, entries: vec![new], key, after })?;
            if let Some(lease) = appended.lease.take() {
                made = Some(lease);
            }
            result = Some(appended.state);
        }
        let lease = made.filter(|_| after == After::Keep);
        Ok(Appended { state: result.unwrap(), lease })
    }

    /// Appends entries that the correct store refuses only for their transition.
    fn append_anywhere(
        &self,
        append: Append<'_>,
        mut state: TraceState,
    ) -> Result<Appended, AppendError> {
        let (trace_id, entries) = (append.claim.trace_id(), append.entries.clone());
        let result = self.inner.append(append);
        if let Err(AppendError::Chain { source: ChainError::Transition { .. }, .. }) = &result {
            let last = &entries.last().unwrap().entry;
            state.head.state = Some(last.to_state);
            state.head.sequence_number = last.sequence_number;
            state.head.entry_digest = last.entry_digest;
            self.shared.tamper(|tables| {
                tables.traces.insert(trace_id, state);
                let all = tables.entries.entry(trace_id).or_default();
                all.extend(entries.into_iter().map(Record::from));
            });
            return Ok(Appended { state, lease: None });
        }
        result
    }

    /// Changes what the correct store has written.
    fn spoil(&self, trace_id: TraceId) {
        self.shared.tamper(|tables| {
            let entries = tables.entries.get_mut(&trace_id).unwrap();
            if self.is(Bug::LosesLastEntry) {
                entries.pop();
            }
            for record in entries {
                match (self.bug, &mut record.body) {
                    (Bug::ForgetsBodies, body) => *body = None,
                    (Bug::EmptyBodyIsNone, body) if body.as_deref() == Some(b"") => *body = None,
                    (Bug::BodiesAreText, Some(body)) => {
                        *body = String::from_utf8_lossy(body).into_owned().into_bytes();
                    }
                    _ => {}
                }
            }
            if self.is(Bug::ForgetsCallId) {
                tables.traces.get_mut(&trace_id).unwrap().head.tool_call_id = None;
            }
        });
    }
}

fn has_ended(state: &TraceState) -> bool {
    state.head.state.is_some_and(State::is_terminal)
}

/// Shows only traces that have entries.
struct Filled<'a>(&'a mut dyn Visitor, Option<(TraceId, Option<TraceState>)>);

impl Visitor for Filled<'_> {
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>) {
        self.1 = Some((trace_id, recorded.copied()));
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>> {
        if let Some((trace_id, recorded)) = self.1.take() {
            self.0.trace(trace_id, recorded.as_ref());
        }
        self.0.entry(entry, body)
    }

    fn key_mismatch(&mut self, mismatch: KeyMismatch) {
        self.0.key_mismatch(mismatch);
    }
}

/// Shows only traces that have a row of their own.
struct Known<'a>(&'a mut dyn Visitor, bool);

impl Visitor for Known<'_> {
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>) {
        self.1 = recorded.is_some();
        if self.1 {
            self.0.trace(trace_id, recorded);
        }
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>> {
        if self.1 { self.0.entry(entry, body) } else { None }
    }

    fn key_mismatch(&mut self, mismatch: KeyMismatch) {
        self.0.key_mismatch(mismatch);
    }
}

impl Store for Broken {
    fn load_state(&self, trace_id: TraceId) -> Result<TraceState, StoreError> {
        match self.inner.load_state(trace_id) {
            Err(StoreError::NotFound { .. }) if self.is(Bug::InventsTraces) => Ok(TraceState {
                head: Head::empty(trace_id),
                plan_id: PlanId(trace_id.0),
                holder: None,
                fence: 0,
            }),
            result => result,
        }
    }

    fn append(&self, mut append: Append<'_>) -> Result<Appended, AppendError> {
        self.bend(&mut append);
        let trace_id = append.claim.trace_id();
        let (key, after) = (append.key.clone(), append.after);
        let state = self.current(trace_id);
        if let (KeyAction::Reserve(reservation), Bug::ChecksKeyFirst) = (&key, self.bug)
            && let Some(record) = self.inner.load_idempotency(&reservation.slot)?
        {
            return Err(AppendError::KeyTaken(Box::new(record)));
        }
        if let (KeyAction::Reserve(reservation), Bug::ReservesTooEarly) = (&key, self.bug) {
            let reservation = reservation.clone();
            let record = IdempotencyRecord {
                reservation,
                trace_id,
                effect_digest: None,
                did_not_run: false,
            };
            let slot = record.reservation.slot.clone();
            self.shared.tamper(|tables| {
                tables.keys.entry(slot).or_insert_with(|| vec![record]);
            });
            append.key = KeyAction::None;
        }
        let result = match (self.bug, &append.claim, state) {
            (Bug::SkipsFence, Claim::Held(_), Some(state)) => {
                let lease = self.rob(&state);
                self.inner.append(Append { claim: Claim::Held(&lease), ..append })
            }
            (Bug::LendsLeases, Claim::Held(lease), Some(state)) if rules::holds(lease, &state) => {
                let lease = self.rob(&state);
                self.inner.append(Append { claim: Claim::Held(&lease), ..append })
            }
            (Bug::AppendsNothing, Claim::Held(lease), Some(state))
                if append.entries.is_empty() && rules::holds(lease, &state) =>
            {
                return Ok(Appended { state, lease: None });
            }
            (Bug::AppendsOneByOne, _, _) => self.append_one_by_one(append),
            (Bug::AllowsAnyTransition, _, Some(state)) => self.append_anywhere(append, state),
            _ => self.inner.append(append),
        };
        if result.is_ok() {
            self.spoil(trace_id);
        } else if self.is(Bug::ReleasesOnRefusal) && after == After::Release {
            self.change_state(trace_id, |state| state.holder = None);
        }
        match (self.bug, result) {
            (Bug::TakenWithoutEffect, Err(AppendError::KeyTaken(mut record))) => {
                record.effect_digest = None;
                Err(AppendError::KeyTaken(record))
            }
            (_, result) => result,
        }
    }

    fn list_log_entries(
        &self,
        trace_id: TraceId,
        after_sequence_number: u64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let after = match self.bug {
            Bug::RepeatsAtPageEdges => after_sequence_number.saturating_sub(1),
            Bug::SignedPages if after_sequence_number > i64::MAX as u64 => 0,
            _ => after_sequence_number,
        };
        if self.is(Bug::ListsOrphans) && self.current(trace_id).is_none() {
            return Ok(self.shared.tables().entries.remove(&trace_id).unwrap_or_default());
        }
        self.inner.list_log_entries(trace_id, after, limit)
    }

    fn write_replay_point(&self, lease: &Lease, point: &ReplayPoint) -> Result<(), AppendError> {
        let result = self.inner.write_replay_point(lease, point);
        match (self.bug, &result) {
            (Bug::BelievesReplayPoints, Err(AppendError::Chain { .. }))
            | (Bug::UnfencedReplayPoints, Err(AppendError::Fenced { .. })) => {
                let (id, point) = (lease.trace_id(), point.clone());
                self.shared
                    .tamper(|tables| tables.replay_points.entry(id).or_default().push(point));
                Ok(())
            }
            _ => result,
        }
    }

    fn load_latest_replay_point(
        &self,
        trace_id: TraceId,
    ) -> Result<Option<ReplayPoint>, StoreError> {
        if self.is(Bug::OldestReplayPointWins) {
            let tables = self.shared.tables();
            return Ok(tables.replay_points.get(&trace_id).and_then(|all| all.first().cloned()));
        }
        let latest = self.inner.load_latest_replay_point(trace_id)?;
        Ok(latest.filter(|it| !self.is(Bug::HidesBadReplayPoints) || it.validate().is_ok()))
    }

    fn acquire(&self, trace_id: TraceId) -> Result<Lease, AcquireError> {
        if self.is(Bug::RobsTheLiving) {
            self.change_state(trace_id, |state| state.holder = None);
        }
        let lease = self.inner.acquire(trace_id);
        match (self.bug, lease) {
            (Bug::LosersRelease, Err(error)) => {
                self.change_state(trace_id, |state| state.holder = None);
                Err(error)
            }
            (Bug::FenceStays, Ok(lease)) => {
                self.change_state(trace_id, |state| state.fence -= 1);
                Ok(Lease::grant(trace_id, lease.holder(), lease.fence() - 1))
            }
            (_, lease) => lease,
        }
    }

    fn release(&self, lease: Lease) -> Result<(), StoreError> {
        let mine = self.current(lease.trace_id()).is_some_and(|it| it.holder == Some(self.me));
        if self.is(Bug::ReleasesForeignLeases) || (self.is(Bug::ReleasesLaterLeases) && mine) {
            self.change_state(lease.trace_id(), |state| state.holder = None);
        }
        self.inner.release(lease)
    }

    fn load_idempotency(&self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError> {
        let mut record = self.inner.load_idempotency(&self.slot(slot))?;
        if let Some(record) = &mut record {
            let entries = self.shared.tables().entries.remove(&record.trace_id).unwrap_or_default();
            let digest = |it: &Record| Some(it.entry.artifact_digest);
            record.effect_digest = match (self.bug, record.effect_digest) {
                (Bug::EffectBeforeEnd, None) => entries.last().and_then(digest),
                (Bug::EffectOfFirstEntry, Some(_)) => entries.first().and_then(digest),
                (Bug::EffectOfCutTrace, _)
                    if self.current(record.trace_id).is_some_and(|it| has_ended(&it)) =>
                {
                    entries.last().and_then(digest)
                }
                (_, effect) => effect,
            };
        }
        Ok(record)
    }

    fn record_redispatch(&self, lease: &Lease, redispatch: &Redispatch) -> Result<(), AppendError> {
        let all: usize = self.shared.tables().redispatches.values().map(Vec::len).sum();
        if self.is(Bug::CountsAllRedispatches) && redispatch.attempt as usize != all + 2 {
            return Err(AppendError::Fenced { trace_id: lease.trace_id() });
        }
        let result = self.inner.record_redispatch(lease, redispatch);
        match (self.bug, &result) {
            (Bug::UnnumberedRedispatches, Err(AppendError::Chain { .. }))
            | (Bug::UnfencedRedispatches, Err(AppendError::Fenced { .. })) => {
                let (id, redispatch) = (lease.trace_id(), redispatch.clone());
                self.shared
                    .tamper(|tables| tables.redispatches.entry(id).or_default().push(redispatch));
                Ok(())
            }
            _ => result,
        }
    }

    fn list_redispatches(&self, trace_id: TraceId) -> Result<Vec<Redispatch>, StoreError> {
        let mut all = self.inner.list_redispatches(trace_id)?;
        if self.is(Bug::ReversesRedispatches) {
            all.reverse();
        }
        Ok(all)
    }

    fn list_traces(&self, filter: &TraceFilter) -> Result<Vec<TraceState>, StoreError> {
        let mut asked = *filter;
        match self.bug {
            Bug::ForgetsPlans => asked.plan_id = None,
            Bug::ForgetsKinds => asked.machine = None,
            _ => {}
        }
        let mut traces = self.inner.list_traces(&asked)?;
        if self.is(Bug::LosesOldest) {
            traces.retain(|state| Some(state.head.trace_id) != filter.not_before);
        }
        if self.is(Bug::EndedForGood) && filter.open_only {
            let tables = self.shared.tables();
            traces.retain(|state| {
                let mut records = tables.entries.get(&state.head.trace_id).into_iter().flatten();
                !records.any(|record| record.entry.to_state.is_terminal())
            });
        }
        if self.is(Bug::OldestFirst) {
            traces.reverse();
        }
        Ok(traces)
    }

    fn count(&self) -> Result<Counts, StoreError> {
        let mut counts = self.inner.count()?;
        if self.is(Bug::CountsOpenOnly) {
            counts.traces.retain(|state, _| !state.is_terminal());
        }
        Ok(counts)
    }

    fn scan(&self, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
        match self.bug {
            Bug::HidesEmptyTraces => self.inner.scan(&mut Filled(visitor, None)),
            Bug::HidesOrphans => self.inner.scan(&mut Known(visitor, false)),
            Bug::HeadFromEntries => self.inner.scan(&mut HeadFromEntries(visitor)),
            _ => self.inner.scan(visitor),
        }
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        self.inner.check()
    }

    fn is_held(&self, state: &TraceState) -> Result<bool, StoreError> {
        self.inner.is_held(state)
    }
}
