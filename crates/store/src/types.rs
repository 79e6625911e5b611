//! The types of the contract.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use windlass_kernel::{
    ChainError, Digest, Entry, Head, HolderId, Machine, PlanId, ReservedKey, SealedEntry, State,
    ToolCallId, TraceId,
};

/// The right to append to a trace, until it is released or its holder dies.
///
/// A lease cannot be cloned: a caller that failed to acquire a trace has nothing to release.
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    trace_id: TraceId,
    holder: HolderId,
    fence: u64,
}

impl Lease {
    /// Creates a lease; only a store does that.
    #[must_use]
    pub const fn grant(trace_id: TraceId, holder: HolderId, fence: u64) -> Self {
        Self { trace_id, holder, fence }
    }

    /// The trace.
    #[must_use]
    pub const fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// The process that holds the trace.
    #[must_use]
    pub const fn holder(&self) -> HolderId {
        self.holder
    }

    /// A number that grows each time the trace is acquired; a writer with an older one is refused.
    #[must_use]
    pub const fn fence(&self) -> u64 {
        self.fence
    }
}

/// The state of a trace, which a store keeps apart from its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceState {
    /// The end of its chain.
    pub head: Head,
    /// The plan it belongs to.
    pub plan_id: PlanId,
    /// The process that holds it, which may be dead.
    pub holder: Option<HolderId>,
    /// The fence of its last lease.
    pub fence: u64,
}

/// An entry with its artifact's canonical bytes, to be appended.
///
/// It is sealed if the kernel has created it: then its digests are right, and a store need not compute
/// them again. Borrowing it mutably removes the seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    parts: Parts,
    sealed: bool,
}

/// The parts of a [`NewEntry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The entry.
    pub entry: Entry,
    /// The canonical bytes of its artifact.
    pub body: Vec<u8>,
}

impl NewEntry {
    /// Creates an entry that is not sealed: a store checks its digests.
    #[must_use]
    pub const fn new(entry: Entry, body: Vec<u8>) -> Self {
        Self { parts: Parts { entry, body }, sealed: false }
    }

    /// Whether its digests are known to be right.
    #[must_use]
    pub const fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Returns the parts.
    #[must_use]
    pub fn into_parts(self) -> Parts {
        self.parts
    }
}

impl From<SealedEntry> for NewEntry {
    fn from(sealed: SealedEntry) -> Self {
        let (entry, body) = sealed.into_parts();
        Self { parts: Parts { entry, body }, sealed: true }
    }
}

impl Deref for NewEntry {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl DerefMut for NewEntry {
    fn deref_mut(&mut self) -> &mut Parts {
        self.sealed = false;
        &mut self.parts
    }
}

impl From<NewEntry> for Record {
    fn from(new: NewEntry) -> Self {
        let Parts { entry, body } = new.parts;
        Self { entry, body: Some(body) }
    }
}

/// A stored entry. Its body may have been purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The entry.
    pub entry: Entry,
    /// The artifact's canonical bytes.
    pub body: Option<Vec<u8>>,
}

/// The right by which entries are appended.
#[derive(Debug)]
pub enum Claim<'a> {
    /// The trace is new: the append creates it, and this process holds it.
    New {
        /// The trace.
        trace_id: TraceId,
        /// The plan it belongs to.
        plan_id: PlanId,
    },
    /// The caller holds the trace.
    Held(&'a Lease),
}

impl Claim<'_> {
    /// The trace that is appended to.
    #[must_use]
    pub const fn trace_id(&self) -> TraceId {
        match self {
            Self::New { trace_id, .. } => *trace_id,
            Self::Held(lease) => lease.trace_id,
        }
    }
}

/// What happens to the lease with the append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The caller keeps it.
    Keep,
    /// The append releases it.
    Release,
}

/// What an append does with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAction {
    /// Nothing.
    None,
    /// Reserves the key for the trace; the append fails if the key is taken.
    Reserve(Reservation),
    /// Reserves the key also if the calls that had it certainly did not run.
    Retake(Reservation),
}

impl KeyAction {
    /// The reservation, if one is made.
    #[must_use]
    pub const fn reservation(&self) -> Option<&Reservation> {
        match self {
            Self::None => None,
            Self::Reserve(reservation) | Self::Retake(reservation) => Some(reservation),
        }
    }
}

/// An append: all of it becomes durable, or nothing.
#[derive(Debug)]
pub struct Append<'a> {
    /// The right to append.
    pub claim: Claim<'a>,
    /// The entries, in order.
    pub entries: Vec<NewEntry>,
    /// What happens to the key.
    pub key: KeyAction,
    /// What happens to the lease.
    pub after: After,
}

/// An idempotency key with its scope: under one slot an effect may happen once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The server.
    pub server_id: String,
    /// The tool.
    pub tool_name: String,
    /// The caller's key.
    pub idempotency_key: String,
}

impl From<&ReservedKey<'_>> for Slot {
    fn from(key: &ReservedKey<'_>) -> Self {
        Self {
            server_id: key.server_id.to_owned(),
            tool_name: key.tool_name.to_owned(),
            idempotency_key: key.idempotency_key.to_owned(),
        }
    }
}

/// A key, bound to the request and the call that used it first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The key.
    pub slot: Slot,
    /// The digest of server, tool and arguments.
    pub request_digest: Digest,
    /// The call.
    pub tool_call_id: ToolCallId,
}

/// A stored reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// The reservation.
    pub reservation: Reservation,
    /// The trace that has reserved the key.
    pub trace_id: TraceId,
    /// The digest of the effect: that of the trace's last artifact, once the trace has ended.
    pub effect_digest: Option<Digest>,
    /// Whether the call certainly did not run, as its effect says.
    pub did_not_run: bool,
}

impl IdempotencyRecord {
    /// Whether this is the record of the key that an entry must have reserved.
    #[must_use]
    pub fn is_for(&self, key: &ReservedKey<'_>, entry: &Entry) -> bool {
        self.trace_id == entry.trace_id
            && self.reservation.request_digest == key.request_digest
            && Some(self.reservation.tool_call_id) == entry.tool_call_id
    }
}

/// Which traces to list: those that meet every condition.
///
/// A list of a plan, a kind, a state, open traces or a part of the ids is found by an index: its time does not depend on
/// the number of other traces. With a plan and other conditions, the traces of the plan are looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFilter {
    /// Only traces that have not ended.
    pub open_only: bool,
    /// Only traces in this state.
    pub state: Option<State>,
    /// Only traces of this kind.
    pub machine: Option<Machine>,
    /// Only traces of this plan.
    pub plan_id: Option<PlanId>,
    /// The oldest trace that is listed, if it exists. Ids are in the order of the times that they contain.
    pub not_before: Option<TraceId>,
    /// Only traces that are older than this one, the last of the page before.
    pub before: Option<TraceId>,
    /// At most so many traces.
    pub limit: usize,
}

impl TraceFilter {
    /// All traces, up to `limit`.
    #[must_use]
    pub const fn all(limit: usize) -> Self {
        Self {
            open_only: false,
            state: None,
            machine: None,
            plan_id: None,
            not_before: None,
            before: None,
            limit,
        }
    }

    /// All traces that have not ended, up to `limit`.
    #[must_use]
    pub const fn open(limit: usize) -> Self {
        Self { open_only: true, ..Self::all(limit) }
    }

    /// Whether a trace meets every condition. Whether it is among the first `limit`, it does not say.
    #[must_use]
    pub fn admits(&self, trace: &TraceState) -> bool {
        let trace_id = trace.head.trace_id;
        self.admits_state(trace.head.state)
            && self.plan_id.is_none_or(|plan_id| trace.plan_id == plan_id)
            && self.not_before.is_none_or(|oldest| trace_id >= oldest)
            && self.before.is_none_or(|before| trace_id < before)
    }

    /// The states that a listed trace can be in; `None` if it can be in any.
    #[must_use]
    pub fn states(&self) -> Option<Vec<State>> {
        if self.state.is_none() && self.machine.is_none() {
            return None;
        }
        let states = State::ALL.iter().copied();
        Some(states.filter(|state| self.admits_state(Some(*state))).collect())
    }

    fn admits_state(&self, state: Option<State>) -> bool {
        !(self.open_only && state.is_some_and(State::is_terminal))
            && self.state.is_none_or(|wanted| state == Some(wanted))
            && self.machine.is_none_or(|kind| state.is_some_and(|state| state.machine() == kind))
    }
}

/// The numbers of traces and entries in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of traces in each state; a state without traces is absent.
    pub traces: BTreeMap<State, u64>,
    /// The number of entries of all traces.
    pub entries: u64,
    /// The number of traces that are so damaged that no list has them.
    pub unreadable: u64,
}

impl Counts {
    /// Adds traces in a state, and their entries.
    pub fn add(&mut self, state: Option<State>, traces: u64, entries: u64) {
        if let Some(state) = state {
            *self.traces.entry(state).or_default() += traces;
        }
        self.entries = self.entries.saturating_add(entries);
    }
}

/// Visits every trace of a store with its entries. The order of the traces is the store's own.
pub trait Visitor {
    /// Begins a trace; `recorded` is `None` if there are entries but no head that can be read.
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>);
    /// Visits the next entry of that trace, or the error that makes it unreadable. Returns the key
    /// that must be reserved with the entry, if the visitor knows of one; the store checks it.
    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>>;
    /// Reports that the idempotency records and the entries of a trace do not match.
    fn key_mismatch(&mut self, mismatch: KeyMismatch);
}

/// An idempotency record that does not match the entries of its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyMismatch {
    /// The trace.
    pub trace_id: TraceId,
    /// The entry that reserves the key; 1 if none does.
    pub sequence_number: u64,
    /// What does not match.
    pub reason: &'static str,
}

impl KeyMismatch {
    /// There is no record of a key that an entry reserves.
    pub const MISSING: &'static str = "its idempotency key is not reserved";
    /// There is a record of a key that no entry reserves.
    pub const UNEXPECTED: &'static str =
        "an idempotency key is reserved for it that it does not have";
}
