//! Applies a history to a store and records every answer.

use std::collections::BTreeMap;

use windlass_kernel::{
    Code, Digest, HolderId, PlanId, ReplayPoint, ReplayPointState, State, ToolCallId, TraceId,
};

use super::Harness;
use super::fixture::{Ending, Fixture, Trace, forged, holding};
use super::history::{Fault, KEYS, Key, Op, PROCESSES, TRACES, Which};
use super::watch::{Scanned, ScannedEntry, scan};
use crate::error::{AppendError, StoreError};
use crate::store::{Appended, Store};
use crate::types::{
    Append, IdempotencyRecord, KeyAction, Lease, NewEntry, Record, Reservation, Slot, TraceFilter,
    TraceState,
};

/// Applies a history and returns a line for each step, with codes for errors and numbers for processes,
/// so that the lines of two backends can be compared.
///
/// # Panics
/// If the store fails in a way that no step expects.
#[must_use]
pub fn run_history(harness: &dyn Harness, ops: &[Op]) -> Vec<String> {
    let mut replay = Replay::new(harness);
    let mut lines = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        let answer = replay.perform(op);
        lines.push(format!("{number}: {op:?} -> {answer}"));
    }
    for process in 0..PROCESSES {
        lines.push(format!("end: scan {process} -> {}", replay.scan(process)));
    }
    for trace in 0..TRACES {
        lines.push(format!("end: trace {trace} -> {}", replay.load(0, trace, 0, usize::MAX)));
    }
    for key in 0..KEYS {
        lines.push(format!("end: key {key} -> {}", replay.load_key(0, key)));
    }
    lines
}

/// A lease that was granted and not released.
struct Granted {
    /// The number of the process, or `None` once it was killed.
    process: Option<usize>,
    trace: usize,
    lease: Lease,
}

struct Replay<'a> {
    harness: &'a dyn Harness,
    make: Fixture,
    traces: Vec<Trace>,
    processes: Vec<Option<Box<dyn Store>>>,
    granted: Vec<Granted>,
    /// The holders in the order in which they appeared; their position is their name.
    holders: BTreeMap<HolderId, usize>,
}

impl<'a> Replay<'a> {
    fn new(harness: &'a dyn Harness) -> Self {
        let make = Fixture::new();
        let trace = |number: usize| match number % 4 {
            0 | 1 => make.run_long(60),
            2 => make.call(if number == 2 { Ending::Executing } else { Ending::Completed }),
            _ => make.call(if number == 3 { Ending::Denied } else { Ending::Failed }),
        };
        let mut traces: Vec<Trace> = (0..TRACES).map(trace).collect();
        // Three plans have four traces each.
        let plans: Vec<PlanId> = traces.iter().take(3).map(|trace| trace.plan_id).collect();
        for (trace, plan_id) in traces.iter_mut().zip(plans.into_iter().cycle()) {
            trace.plan_id = plan_id;
        }
        Self {
            traces,
            processes: (0..PROCESSES).map(|_| Some(harness.open())).collect(),
            granted: Vec::new(),
            holders: BTreeMap::new(),
            harness,
            make,
        }
    }

    fn perform(&mut self, op: &Op) -> String {
        match *op {
            Op::Create { process, trace, count, key, after } => {
                let key = self.key(key);
                let append = Append { key, ..self.trace(trace).create(count, after) };
                let result = self.store(process).append(append);
                self.appended(process, trace, result)
            }
            Op::Append { process, trace, count, fault, lease, key, after } => {
                if lease == Which::Newest && self.find(process, trace, lease).is_none() {
                    // A history in which most appends have no lease would test little.
                    self.acquire(process, trace);
                }
                let entries = self.entries(process, trace, count, fault);
                let key = self.key(key);
                self.with_lease(process, trace, lease, |store, lease| {
                    store.append(Append { key, after, ..holding(lease, entries) })
                })
                .map_or_else(no_lease, |result| self.appended(process, trace, result))
            }
            Op::Acquire { process, trace } => self.acquire(process, trace),
            Op::Release { process, trace, lease } => self.release(process, trace, lease),
            Op::Kill { process } => self.end(process, |harness, store| harness.kill(store)),
            Op::Close { process } => self.end(process, |_, store| drop(store)),
            Op::ReplayPoint { process, trace, lease, honest } => {
                self.replay_point(process, trace, lease, honest)
            }
            Op::Redispatch { process, trace, lease, off } => {
                self.redispatch(process, trace, lease, off)
            }
            Op::List { process, open_only, state, machine, plan, not_before, before, limit } => {
                let id = |trace| self.trace(trace).trace_id;
                let (not_before, before) = (not_before.map(id), before.map(id));
                let plan_id = plan.map(|trace| self.trace(trace).plan_id);
                let filter =
                    TraceFilter { open_only, state, machine, plan_id, not_before, before, limit };
                let listed = self.store(process).list_traces(&filter);
                self.said(listed, |traces| traces.iter().map(|t| self.state(process, t)).collect())
            }
            Op::Load { process, trace, after, limit } => self.load(process, trace, after, limit),
            Op::LoadKey { process, key } => self.load_key(process, key),
            Op::Scan { process } => self.scan(process),
        }
    }

    fn store(&self, process: usize) -> &dyn Store {
        &**self.processes.get(process).unwrap().as_ref().unwrap()
    }

    fn trace(&self, trace: usize) -> &Trace {
        self.traces.get(trace).unwrap()
    }

    fn slot(number: usize) -> Slot {
        Slot {
            server_id: format!("server-{}", number % 2),
            tool_name: "tool".into(),
            idempotency_key: format!("key-{}", number / 2),
        }
    }

    fn key(&self, key: Key) -> KeyAction {
        match key {
            Key::None => KeyAction::None,
            Key::Reserve(number) => {
                let tool_call_id = ToolCallId(self.make.uuid());
                KeyAction::Reserve(Reservation {
                    slot: Self::slot(number),
                    request_digest: Digest::of(tool_call_id.0.as_bytes()),
                    tool_call_id,
                })
            }
        }
    }

    /// The next entries of a trace, or one too many where it has no more.
    fn entries(
        &self,
        process: usize,
        trace: usize,
        count: usize,
        fault: Option<Fault>,
    ) -> Vec<NewEntry> {
        let head = self.store(process).load_state(self.trace(trace).trace_id).map(|s| s.head);
        let skip = head.map_or(0, |head| usize::try_from(head.sequence_number).unwrap());
        let trace = self.trace(trace);
        let mut entries = trace.part(skip, count);
        if entries.is_empty() {
            let end = trace.head_after(trace.len());
            entries.push(forged(trace.entry(trace.len()), |new| {
                new.entry.sequence_number = end.sequence_number + 1;
                new.entry.prev_entry_digest = end.entry_digest;
            }));
        }
        match fault {
            None => {}
            Some(Fault::Missing) => entries.clear(),
            Some(fault) => {
                let last = entries.pop().unwrap();
                entries.push(self.spoiled(last, fault));
            }
        }
        entries
    }

    fn spoiled(&self, new: NewEntry, fault: Fault) -> NewEntry {
        let other = TraceId(self.make.uuid());
        let mut bad = forged(new, |new| match fault {
            Fault::Gap => new.entry.sequence_number += 1,
            Fault::Repeat => new.entry.sequence_number -= 1,
            Fault::Trace => new.entry.trace_id = other,
            Fault::Previous => new.entry.prev_entry_digest = Digest::of(b"another"),
            Fault::Transition => new.entry.to_state = State::Init,
            Fault::Body => new.body.push(b'\n'),
            Fault::Schema => new.entry.schema_id = "another.log_entry".into(),
            Fault::OwnDigest | Fault::Missing => {}
        });
        if fault == Fault::OwnDigest {
            bad.entry.entry_digest = Digest::of(b"forged");
        }
        bad
    }

    /// Finds a lease, and the process that uses it. The lease of a dead process is used only after its
    /// trace was taken over: before that nobody could use it.
    fn find(&self, process: usize, trace: usize, which: Which) -> Option<usize> {
        let fence = self.store(process).load_state(self.trace(trace).trace_id).ok()?.fence;
        let mine = |granted: &Granted| match which {
            Which::Newest | Which::Oldest | Which::Foreign => granted.process.is_some(),
            Which::Lost => granted.process.is_none() && granted.lease.fence() < fence,
        };
        let mut found = self
            .granted
            .iter()
            .enumerate()
            .filter(|(_, granted)| granted.trace == trace && mine(granted))
            .map(|(at, _)| at);
        if which == Which::Oldest { found.next() } else { found.next_back() }
    }

    fn with_lease<T>(
        &self,
        process: usize,
        trace: usize,
        which: Which,
        work: impl FnOnce(&dyn Store, &Lease) -> T,
    ) -> Option<T> {
        let granted = self.granted.get(self.find(process, trace, which)?)?;
        let user = granted.process.filter(|_| which != Which::Foreign).unwrap_or(process);
        Some(work(self.store(user), &granted.lease))
    }

    fn grant(&mut self, process: usize, trace: usize, lease: Lease) -> String {
        let name = self.holders.len();
        let name = *self.holders.entry(lease.holder()).or_insert(name);
        let told = format!("lease {} of holder {name}", lease.fence());
        self.granted.push(Granted { process: Some(process), trace, lease });
        told
    }

    fn appended(
        &mut self,
        process: usize,
        trace: usize,
        result: Result<Appended, AppendError>,
    ) -> String {
        match result {
            Ok(Appended { state, lease }) => {
                let lease = lease.map(|lease| self.grant(process, trace, lease));
                format!("ok {} {lease:?}", self.state(process, &state))
            }
            Err(error) => refused(error),
        }
    }

    fn acquire(&mut self, process: usize, trace: usize) -> String {
        match self.store(process).acquire(self.trace(trace).trace_id) {
            Ok(lease) => self.grant(process, trace, lease),
            Err(error) => error.code().to_string(),
        }
    }

    fn release(&mut self, process: usize, trace: usize, which: Which) -> String {
        let Some(at) = self.find(process, trace, which) else { return no_lease() };
        let Granted { lease, process: owner, .. } = self.granted.remove(at);
        let user = owner.filter(|_| which != Which::Foreign).unwrap_or(process);
        let result = self.store(user).release(lease);
        self.said(result, |()| "released".into())
    }

    fn end(&mut self, process: usize, how: impl FnOnce(&dyn Harness, Box<dyn Store>)) -> String {
        let slot = self.processes.get_mut(process).unwrap();
        how(self.harness, slot.take().unwrap());
        *slot = Some(self.harness.open());
        for granted in self.granted.iter_mut().filter(|granted| granted.process == Some(process)) {
            granted.process = None;
        }
        "another process".into()
    }

    fn replay_point(&self, process: usize, trace: usize, which: Which, honest: bool) -> String {
        let Ok(state) = self.store(process).load_state(self.trace(trace).trace_id) else {
            return Code::TraceNotFound.to_string();
        };
        let mut told = ReplayPointState::of(&state.head, state.plan_id).unwrap();
        if !honest {
            told.last_entry_digest = Digest::of(b"another");
        }
        let point = ReplayPoint::new(told, self.make.ts());
        let work = |store: &dyn Store, lease: &Lease| store.write_replay_point(lease, &point);
        self.with_lease(process, trace, which, work)
            .map_or_else(no_lease, |result| result.map_or_else(refused, |()| "kept".into()))
    }

    fn redispatch(&self, process: usize, trace: usize, which: Which, off: u32) -> String {
        let recorded = self.store(process).list_redispatches(self.trace(trace).trace_id).unwrap();
        let attempt = u32::try_from(recorded.len()).unwrap() + 2 + off;
        let redispatch = self.make.redispatch(attempt);
        let work = |store: &dyn Store, lease: &Lease| store.record_redispatch(lease, &redispatch);
        self.with_lease(process, trace, which, work)
            .map_or_else(no_lease, |result| result.map_or_else(refused, |()| "kept".into()))
    }

    fn load(&self, process: usize, trace: usize, after: u64, limit: usize) -> String {
        let (store, id) = (self.store(process), self.trace(trace).trace_id);
        let state = self.said(store.load_state(id), |state| self.state(process, &state));
        let entries = store.list_log_entries(id, after, limit);
        let entries = self.said(entries, |all| all.iter().map(told_record).collect());
        let point = self.said(store.load_latest_replay_point(id), |it| format!("{it:?}"));
        let redispatches = self.said(store.list_redispatches(id), |all| format!("{all:?}"));
        format!("{state} {entries} {point} {redispatches}")
    }

    fn load_key(&self, process: usize, key: usize) -> String {
        let record = self.store(process).load_idempotency(&Self::slot(key));
        self.said(record, |record| format!("{:?}", record.as_ref().map(told_key)))
    }

    fn scan(&self, process: usize) -> String {
        let told = |trace: Scanned| {
            let state = trace.recorded.map(|state| self.state(process, &state));
            let entry = |(entry, body): ScannedEntry| match entry {
                Ok(entry) => told_record(&Record { entry, body }),
                Err(error) => error.code().to_string(),
            };
            let entries: String = trace.entries.into_iter().map(entry).collect();
            format!("{}: {state:?} {entries};", trace.trace_id)
        };
        scan(self.store(process)).into_iter().map(told).collect()
    }

    /// The state of a trace, with its holder only while that process lives: what the row of a dead
    /// holder says is up to the store.
    fn state(&self, process: usize, state: &TraceState) -> String {
        let held = self.store(process).is_held(state).unwrap();
        let holder = state.holder.filter(|_| held).map(|holder| self.holders.get(&holder));
        format!("[{:?} {} fence {} holder {holder:?}]", state.head, state.plan_id, state.fence)
    }

    fn said<T>(&self, result: Result<T, StoreError>, tell: impl FnOnce(T) -> String) -> String {
        result.map_or_else(|error| error.code().to_string(), tell)
    }
}

fn no_lease() -> String {
    "no such lease".into()
}

fn refused(error: AppendError) -> String {
    match error {
        AppendError::KeyTaken(record) => {
            format!("{} {}", Code::IdempotencyConflict, told_key(&record))
        }
        AppendError::Fenced { .. } | AppendError::Chain { .. } | AppendError::Store(_) => {
            error.code().to_string()
        }
    }
}

fn told_key(record: &IdempotencyRecord) -> String {
    format!("{record:?}")
}

fn told_record(Record { entry, body }: &Record) -> String {
    let body = body.as_ref().map(|body| Digest::of(body));
    format!("({} {} {body:?})", entry.sequence_number, entry.entry_digest)
}
