//! Checks that a refused operation leaves a store unchanged.

use std::collections::BTreeMap;
use std::fmt::Debug;

use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{ChainError, Code, Entry, ReplayPoint, ReservedKey, TraceId};

use super::fixture::Trace;
use crate::error::AppendError;
use crate::store::Store;
use crate::types::{
    After, IdempotencyRecord, KeyMismatch, Lease, Record, Slot, TraceFilter, TraceState, Visitor,
};

/// An [`AppendError`] that can be compared.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Fenced(TraceId),
    Chain(TraceId, ChainError),
    KeyTaken(IdempotencyRecord),
    Store(Code),
}

impl From<AppendError> for Refusal {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Fenced { trace_id } => Self::Fenced(trace_id),
            AppendError::Chain { trace_id, source } => Self::Chain(trace_id, source),
            AppendError::KeyTaken(record) => Self::KeyTaken(*record),
            AppendError::Store(error) => Self::Store(error.code()),
        }
    }
}

/// All traces.
pub(super) const ALL: TraceFilter = TraceFilter::all(usize::MAX);

/// One entry as a scan shows it, with its body.
pub(super) type ScannedEntry = (Result<Entry, ChainError>, Option<Vec<u8>>);

/// One trace as a scan shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    pub(super) trace_id: TraceId,
    pub(super) recorded: Option<TraceState>,
    pub(super) entries: Vec<ScannedEntry>,
}

impl Scanned {
    /// The first error in chain, bodies and head, as a verifier would report it.
    pub(super) fn verdict(&self) -> Result<(), ChainError> {
        let mut head = windlass_kernel::Head::empty(self.trace_id);
        for (entry, body) in &self.entries {
            let entry = entry.clone()?;
            head = head.admit(&entry, &mut Vec::new())?;
            let digest = body.as_ref().map(|body| windlass_kernel::Digest::of(body));
            if digest.is_some_and(|digest| digest != entry.artifact_digest) {
                return Err(ChainError::Artifact {
                    sequence_number: entry.sequence_number,
                    artifact: entry.artifact_type.as_str(),
                });
            }
        }
        self.recorded.map_or(Ok(()), |recorded| head.matches(&recorded.head))
    }
}

/// Collects what a scan visits.
#[derive(Debug, Default)]
struct Seen(Vec<Scanned>);

impl Visitor for Seen {
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>) {
        self.0.push(Scanned { trace_id, recorded: recorded.copied(), entries: Vec::new() });
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>> {
        let trace = self.0.last_mut().expect("an entry comes after its trace");
        trace.entries.push((entry, body.map(<[u8]>::to_vec)));
        None
    }

    fn key_mismatch(&mut self, _: KeyMismatch) {}
}

/// Scans the whole store, and sorts the traces by their ids.
pub(super) fn scan(store: &dyn Store) -> Vec<Scanned> {
    let mut seen = Seen::default();
    store.scan(&mut seen).expect("a scan");
    seen.0.sort_by_key(|trace| trace.trace_id);
    seen.0
}

/// The whole content of a store.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Picture {
    traces: Vec<TraceState>,
    scanned: Vec<Scanned>,
    records: BTreeMap<TraceId, Vec<Record>>,
    replay_points: BTreeMap<TraceId, Option<ReplayPoint>>,
    redispatches: BTreeMap<TraceId, Vec<Redispatch>>,
    keys: Vec<Option<IdempotencyRecord>>,
}

/// Reads the content of a store through one handle, with these slots.
pub(super) struct Watch<'a> {
    store: &'a dyn Store,
    slots: Vec<Slot>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(store: &'a dyn Store, slots: &[Slot]) -> Self {
        Self { store, slots: slots.to_vec() }
    }

    pub(super) fn picture(&self) -> Picture {
        let store = self.store;
        let scanned = scan(store);
        let ids: Vec<TraceId> = scanned.iter().map(|trace| trace.trace_id).collect();
        let records = |id: &TraceId| (*id, store.list_log_entries(*id, 0, usize::MAX).unwrap());
        let latest = |id: &TraceId| (*id, store.load_latest_replay_point(*id).unwrap());
        let redispatches = |id: &TraceId| (*id, store.list_redispatches(*id).unwrap());
        Picture {
            traces: store.list_traces(&ALL).unwrap(),
            records: ids.iter().map(records).collect(),
            replay_points: ids.iter().map(latest).collect(),
            redispatches: ids.iter().map(redispatches).collect(),
            keys: self.slots.iter().map(|slot| store.load_idempotency(slot).unwrap()).collect(),
            scanned,
        }
    }

    /// Makes an attempt that must fail and must change nothing.
    pub(super) fn refused<T: Debug>(
        &self,
        attempt: impl FnOnce() -> Result<T, AppendError>,
    ) -> Refusal {
        let before = self.picture();
        let error = attempt().expect_err("this must be refused");
        assert_eq!(self.picture(), before, "a refusal (`{error}`) left something behind");
        error.into()
    }
}

/// Creates a trace with its first entries and keeps its lease.
pub(super) fn hold(store: &dyn Store, trace: &Trace, count: usize) -> Lease {
    let appended = store.append(trace.create(count, After::Keep)).expect("a new trace");
    appended.lease.expect("a lease on a trace that is kept")
}

/// Creates a trace with all its entries and releases it.
pub(super) fn put(store: &dyn Store, trace: &Trace) {
    store.append(trace.create(trace.len(), After::Release)).expect("a new trace");
}

/// Checks that a trace reads back as its first entries.
pub(super) fn assert_reads_back(store: &dyn Store, trace: &Trace, count: usize) {
    let state = store.load_state(trace.trace_id).expect("the trace");
    assert_eq!((state.head, state.plan_id), (trace.head_after(count), trace.plan_id));
    let records = store.list_log_entries(trace.trace_id, 0, usize::MAX).expect("its entries");
    assert!(records == trace.records(count), "trace {} reads back changed", trace.trace_id);
}
