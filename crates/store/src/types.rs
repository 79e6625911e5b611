//! What goes into a store and what comes out.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use windlass_kernel::{
    ChainError, Digest, Entry, Head, HolderId, PlanId, ReservedKey, SealedEntry, State, ToolCallId,
    TraceId,
};

/// The right to append to one trace, until it is given back or its holder dies.
///
/// It cannot be copied: only a successful acquire makes one, and only it can be released, so a
/// contender that lost can never release the winner's.
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    trace_id: TraceId,
    holder: HolderId,
    fence: u64,
}

impl Lease {
    /// Made by a store when it grants one.
    #[must_use]
    pub const fn grant(trace_id: TraceId, holder: HolderId, fence: u64) -> Self {
        Self { trace_id, holder, fence }
    }

    /// The trace.
    #[must_use]
    pub const fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// Who has it.
    #[must_use]
    pub const fn holder(&self) -> HolderId {
        self.holder
    }

    /// The number that grows with each takeover: a writer with an older one is refused.
    #[must_use]
    pub const fn fence(&self) -> u64 {
        self.fence
    }
}

/// A trace as the store keeps it apart from its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceState {
    /// The end of its chain.
    pub head: Head,
    /// The plan it belongs to.
    pub plan_id: PlanId,
    /// Who holds it; whether that process lives is another question.
    pub holder: Option<HolderId>,
    /// The number of its last lease.
    pub fence: u64,
}

/// An entry with its artifact's canonical bytes, to be appended.
///
/// It is sealed if the kernel has made it: then its digests hold, and a store need not compute them
/// again. Whoever reaches for it to change it breaks the seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    parts: Parts,
    sealed: bool,
}

/// What a [`NewEntry`] consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The entry.
    pub entry: Entry,
    /// The artifact that its digest covers.
    pub body: Vec<u8>,
}

impl NewEntry {
    /// An entry and a body whose digests are still to be checked.
    #[must_use]
    pub const fn new(entry: Entry, body: Vec<u8>) -> Self {
        Self { parts: Parts { entry, body }, sealed: false }
    }

    /// Whether its digests are known to hold.
    #[must_use]
    pub const fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Takes it apart.
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

/// A stored entry; its body may have been purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The entry.
    pub entry: Entry,
    /// The artifact's canonical bytes.
    pub body: Option<Vec<u8>>,
}

/// By what right entries are appended.
#[derive(Debug)]
pub enum Claim<'a> {
    /// The trace is new: it is made, and leased to this store, in the same transaction.
    New {
        /// The trace.
        trace_id: TraceId,
        /// The plan it belongs to.
        plan_id: PlanId,
    },
    /// The trace is held.
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

/// What becomes of the lease once the entries are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The trace stays held.
    Keep,
    /// The trace is released in the same transaction.
    Release,
}

/// What is done with an idempotency key in the transaction of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAction {
    /// The append does not concern a key.
    None,
    /// Reserve the key for this trace; the append fails if it is taken.
    Reserve(Reservation),
}

/// One atomic append: all of it becomes durable, or nothing does.
#[derive(Debug)]
pub struct Append<'a> {
    /// By what right.
    pub claim: Claim<'a>,
    /// What, in order.
    pub entries: Vec<NewEntry>,
    /// And what with the key.
    pub key: KeyAction,
    /// And with the lease.
    pub after: After,
}

/// The name under which an effect may happen once.
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

/// A key bound to what it was first used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The name.
    pub slot: Slot,
    /// The digest of server, tool and arguments.
    pub request_digest: Digest,
    /// The call that runs under it.
    pub tool_call_id: ToolCallId,
}

/// A reservation as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// The reservation.
    pub reservation: Reservation,
    /// The trace that runs, or ran, under it.
    pub trace_id: TraceId,
    /// The digest of the recorded effect: that of the trace's last artifact, once it has ended.
    pub effect_digest: Option<Digest>,
}

impl IdempotencyRecord {
    /// Whether it is what a key is reserved for with an entry.
    #[must_use]
    pub fn is_for(&self, key: &ReservedKey<'_>, entry: &Entry) -> bool {
        self.trace_id == entry.trace_id
            && self.reservation.request_digest == key.request_digest
            && Some(self.reservation.tool_call_id) == entry.tool_call_id
    }
}

/// Which traces to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFilter {
    /// Only those that have not ended.
    pub open_only: bool,
    /// Only those in this state.
    pub state: Option<State>,
    /// Only those older than this one: where the page before ended.
    pub before: Option<TraceId>,
    /// At most so many.
    pub limit: usize,
}

impl TraceFilter {
    /// All traces that have not ended, up to `limit`.
    #[must_use]
    pub const fn open(limit: usize) -> Self {
        Self { open_only: true, state: None, before: None, limit }
    }
}

/// How much a store has, from what is kept apart from the entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many traces stand in each state; a state that none stands in is absent.
    pub traces: BTreeMap<State, u64>,
    /// How many entries all of them have.
    pub entries: u64,
}

impl Counts {
    /// Adds traces that stand in a state, with their entries.
    pub fn add(&mut self, state: Option<State>, traces: u64, entries: u64) {
        if let Some(state) = state {
            *self.traces.entry(state).or_default() += traces;
        }
        self.entries = self.entries.saturating_add(entries);
    }
}

/// Sees every trace of a store, one after the other, in an order of the store's own.
pub trait Visitor {
    /// A trace begins; `recorded` is `None` when entries exist that belong to no trace.
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>);
    /// The next entry of that trace, or what makes its row unreadable.
    fn entry(&mut self, entry: Result<Entry, ChainError>, body: Option<&[u8]>);
    /// The key that must be reserved with the entry just seen, if the visitor can tell. The store
    /// answers with [`Visitor::unreserved`] if it is not.
    fn reserved(&self) -> Option<ReservedKey<'_>> {
        None
    }
    /// What the store has on record for keys does not match an entry of a trace.
    fn unreserved(&mut self, _: Unreserved) {}
}

/// A key that is on record otherwise than the entries say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreserved {
    /// The trace.
    pub trace_id: TraceId,
    /// Its entry; the first, if none of them has reserved the key.
    pub sequence_number: u64,
    /// What does not match.
    pub reason: &'static str,
}

impl Unreserved {
    /// The key of an entry is not on record.
    pub const LOST: &'static str = "its idempotency key is not reserved";
    /// A key is on record that none of the entries has reserved.
    pub const EXTRA: &'static str = "an idempotency key is reserved for it that it does not have";
}
