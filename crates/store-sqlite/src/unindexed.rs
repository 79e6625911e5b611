//! The unindexed traces, in memory, and indexing: writing their rows in `traces` and `keys`.
//!
//! A commit that only inserts an entry batch touches two or three pages; a row in `traces`, its index
//! and a row in `keys` would double that. Rows that are written for many traces at once share pages.
//!
//! The writer changes this while its transaction is open, and readers look into it at the same time, so
//! it may name traces that are not committed. A reader therefore looks up in its own snapshot whatever
//! it finds here. What is indexed is removed after the commit only.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use rusqlite::Connection;
use windlass_kernel::{ChainError, Digest, TraceId};
use windlass_store::{StoreError, fault};

use crate::progress::{Progress, batches_above};
use crate::replay::{ReplayedTrace, UnindexedTrace, replay_unindexed};
use crate::sql::query_value;
use crate::types::{KeyHash, TraceNumber, TraceRow};
use crate::{keys, trace_rows};

/// A trace with more entries than this, which no call has, is indexed at once: to read an unindexed
/// trace is to replay all of it.
const ENTRIES_MAX: usize = 8;
/// When another process turns out to write too, at most so many traces stay unindexed: each process
/// must read the unindexed traces again after the other one has written.
const SHARED_MAX: usize = 16;

/// The unindexed traces. They are read again when another process has written, or after a rollback.
#[derive(Default)]
pub struct UnindexedTraces {
    /// At so many traces the older half is indexed; the newer ones are likely to be appended to.
    max: usize,
    /// SQLite's `data_version` of the state that this was read from; `None` if nothing is known.
    data_version: Option<i64>,
    indexed_upto: TraceNumber,
    /// The position of the store, after the writes of the open transaction.
    position: i64,
    /// How many batches belong to unindexed traces.
    batches: i64,
    store: i64,
    last: TraceNumber,
    /// The newest trace with more than [`ENTRIES_MAX`] entries.
    long: Option<TraceNumber>,
    traces: BTreeMap<TraceNumber, UnindexedTrace>,
    numbers: HashMap<TraceId, TraceNumber>,
    keys: BTreeSet<(KeyHash, TraceNumber)>,
    /// Whether the open transaction has changed this.
    changed: bool,
}

/// Where a reader has to look for an unindexed trace or key.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// The traces that may be the one.
    pub numbers: Vec<TraceNumber>,
    /// The first trace number that this process knows nothing of.
    pub unknown_from: TraceNumber,
}

impl UnindexedTraces {
    /// Creates an empty set, which is read with the first transaction.
    pub fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// Whether there is nothing to index, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// Reads the traces again if that is necessary; the first thing in every transaction.
    pub fn refresh(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let sql = "PRAGMA data_version";
        let version = query_value(connection, "read its version", sql, [])?;
        if self.data_version == Some(version) {
            return Ok(());
        }
        // After a rollback, the memory says what was not committed.
        let shared = self.data_version.is_some();
        let before = if shared { std::mem::take(&mut self.traces) } else { BTreeMap::new() };
        let known = if shared { self.position } else { 0 };
        self.read(connection)?;
        self.data_version = Some(version);
        // A batch that was removed does not take the position back.
        self.position = self.position.max(known);
        self.restore_truncated(before);
        if shared && self.traces.len() > SHARED_MAX { self.index_all(connection) } else { Ok(()) }
    }

    fn read(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let Progress { upto, writes, store } = Progress::load(connection)?;
        let batches = batches_above(connection, upto)?;
        let sql = "SELECT max(ifnull((SELECT max(id) FROM first_batches), 0),
            ifnull((SELECT max(id) FROM later_batches), 0))";
        let last =
            TraceNumber::of_entry(query_value(connection, "read its newest trace", sql, [])?).0;
        *self = Self {
            max: self.max,
            indexed_upto: upto,
            position: writes.saturating_add(batches),
            batches,
            store,
            last: last.max(upto),
            ..Self::default()
        };
        for ReplayedTrace { number, trace, keys, .. } in replay_unindexed(connection)? {
            self.keys.extend(keys.into_iter().map(|hash| (hash, number)));
            if let Ok(trace) = trace {
                self.numbers.entry(trace.state.head.trace_id).or_insert(number);
                self.traces.insert(number, trace);
            }
        }
        Ok(())
    }

    /// Restores traces that have fewer entries than this process knew. A chain does not show that its
    /// end was cut off; with the known head, the trace does not verify.
    fn restore_truncated(&mut self, before: BTreeMap<TraceNumber, UnindexedTrace>) {
        let upto = self.indexed_upto;
        for (number, mut known) in before.into_iter().filter(|(number, _)| *number > upto) {
            let expected = known.state.head.sequence_number;
            let found = self.traces.get(&number);
            if found.is_some_and(|trace| trace.damage.is_some()) {
                continue;
            }
            let found = found.map_or(0, |trace| trace.state.head.sequence_number);
            if found < expected {
                known.damage = Some(ChainError::Truncated { expected, found });
                self.numbers.insert(known.state.head.trace_id, number);
                self.traces.insert(number, known);
            }
        }
    }

    pub fn get(&self, trace_id: TraceId) -> Option<(TraceNumber, &UnindexedTrace)> {
        let number = self.numbers.get(&trace_id).filter(|number| **number > self.indexed_upto)?;
        Some((*number, self.traces.get(number)?))
    }

    /// The unindexed traces that have reserved keys with this hash.
    pub fn key_numbers(&self, hash: KeyHash) -> Vec<TraceNumber> {
        let all = (hash, TraceNumber(i64::MIN))..=(hash, TraceNumber(i64::MAX));
        self.keys.range(all).map(|(_, number)| *number).collect()
    }

    pub fn candidates(&self, trace_id: TraceId) -> Candidates {
        self.to_candidates(self.numbers.get(&trace_id).copied().into_iter().collect())
    }

    pub fn key_candidates(&self, hash: KeyHash) -> Candidates {
        self.to_candidates(self.key_numbers(hash))
    }

    fn to_candidates(&self, numbers: Vec<TraceNumber>) -> Candidates {
        let known = self.data_version.is_some();
        let unknown_from = if known { self.last.next() } else { TraceNumber::default() };
        Candidates { numbers, unknown_from }
    }

    pub const fn next_number(&self) -> TraceNumber {
        self.last.next()
    }

    /// Records an append of so many entries to an unindexed trace.
    pub fn record_append(
        &mut self,
        TraceRow { state, number, .. }: TraceRow,
        last_artifact: Digest,
        entries: usize,
    ) {
        self.changed = true;
        self.position += 1;
        self.batches += 1;
        if number > self.last {
            self.last = number;
            self.numbers.insert(state.head.trace_id, number);
        }
        let entries = entries + self.traces.get(&number).map_or(0, |trace| trace.entries);
        if entries > ENTRIES_MAX {
            self.long = self.long.max(Some(number));
        }
        let trace = UnindexedTrace { state, last_artifact, damage: None, entries };
        self.traces.insert(number, trace);
    }

    /// Records that an unindexed trace has reserved a key.
    pub fn record_key(&mut self, number: TraceNumber, hash: KeyHash) {
        self.changed = true;
        self.keys.insert((hash, number));
    }

    /// Indexes all traces if this one is unindexed.
    pub fn index_trace(
        &mut self,
        connection: &Connection,
        trace_id: TraceId,
    ) -> Result<(), StoreError> {
        if self.get(trace_id).is_some() { self.index_all(connection) } else { Ok(()) }
    }

    /// Indexes long traces, and the older half if there are too many; the last thing in every
    /// transaction.
    pub fn index_if_full(&mut self, connection: &Connection) -> Result<(), StoreError> {
        if let Some(long) = self.long.take() {
            self.index(connection, long)
        } else if self.traces.len() >= self.max {
            let middle = self.traces.keys().nth(self.max / 2).copied();
            self.index(connection, middle.unwrap_or(self.last))
        } else {
            Ok(())
        }
    }

    pub fn index_all(&mut self, connection: &Connection) -> Result<(), StoreError> {
        self.index(connection, self.last)
    }

    /// Writes the rows of all unindexed traces up to a number. A trace whose chain is invalid gets the
    /// head that its entries name; they stay as they are, so it does not verify.
    fn index(&mut self, connection: &Connection, upto: TraceNumber) -> Result<(), StoreError> {
        if upto <= self.indexed_upto {
            return Ok(());
        }
        self.changed = true;
        for (number, trace) in self.traces.range(self.indexed_upto.next()..=upto) {
            trace_rows::insert(connection, &TraceRow::new(trace.state, *number))?;
        }
        fault::point("index.inside");
        // In the order of the table, so that neighbours share pages.
        for (hash, number) in self.keys.iter().filter(|(_, number)| *number <= upto) {
            keys::insert(connection, *hash, *number)?;
        }
        self.indexed_upto = upto;
        self.batches = if upto == self.last { 0 } else { batches_above(connection, upto)? };
        self.save(connection)
    }

    /// Records a write that is not an append to an unindexed trace.
    pub fn record_write(&mut self, connection: &Connection) -> Result<(), StoreError> {
        self.changed = true;
        self.position += 1;
        self.save(connection)
    }

    fn save(&self, connection: &Connection) -> Result<(), StoreError> {
        let (upto, writes) = (self.indexed_upto, self.position - self.batches);
        Progress { upto, writes, store: self.store }.save(connection)
    }

    /// The position of the store.
    pub const fn position(&self) -> i64 {
        self.position
    }

    /// Forgets the indexed traces once the transaction is committed.
    pub fn committed(&mut self) {
        self.changed = false;
        let upto = self.indexed_upto;
        if self.traces.first_key_value().is_some_and(|(number, _)| *number <= upto) {
            self.traces = self.traces.split_off(&upto.next());
            self.numbers.retain(|_, number| *number > upto);
            self.keys.retain(|(_, number)| *number > upto);
        }
    }

    /// Discards the memory if the transaction that was rolled back has changed it.
    pub fn rolled_back(&mut self) {
        if std::mem::take(&mut self.changed) {
            self.data_version = None;
        }
    }
}
