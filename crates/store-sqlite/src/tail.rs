//! The traces that are known by their entries alone, as the writer has them in memory, and their
//! filing: writing their rows in `traces` and `keys`, many at once.
//!
//! A commit that only adds entries at the end of one tree touches two or three pages; rows in two
//! more trees and an index would double that. So they wait, and cost a fraction of a page each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use rusqlite::Connection;
use windlass_kernel::{ChainError, Digest, TraceId};
use windlass_store::{StoreError, TraceState, fault};

use crate::error::During;
use crate::filing::{self, TraceToFile};
use crate::find::{Index, numbers_of};
use crate::fold::{self, Folded, Unfiled};
use crate::keys::KeyHash;
use crate::rows::TraceNumber;

/// From so many unfiled entries on, for each trace that may be unfiled, all are filed.
const ENTRIES: usize = 8;
/// A trace with more entries than this, which no call has, is filed: to read of an unfiled trace is to
/// fold all of it.
const LENGTH_MAX: usize = 8;
/// So many are left when another process turns out to write too: it, and this one next time, must
/// read what is not filed.
const SHARED_MAX: usize = 16;

/// What the writer knows of the unfiled traces. It is read anew when another process, or a rollback,
/// has changed what is there.
#[derive(Default)]
pub struct Tail {
    /// From so many unfiled traces on, the older half is filed: the newer are still being written to.
    max: usize,
    /// SQLite's number for the state that this was read from, or follows from by own commits.
    version: Option<i64>,
    upto: TraceNumber,
    last: TraceNumber,
    /// The greatest id of a filed trace: no greater one can be filed.
    newest_filed: Option<[u8; 16]>,
    entries: usize,
    /// The newest trace that has become too long to be left unfiled.
    long: Option<TraceNumber>,
    traces: BTreeMap<TraceNumber, Unfiled>,
    numbers: HashMap<TraceId, TraceNumber>,
    keys: BTreeSet<(KeyHash, TraceNumber)>,
    /// There are records of keys that have to be looked for by name.
    records: bool,
    /// What this transaction has made of it, for the index.
    news: News,
    index: Arc<Mutex<Index>>,
}

#[derive(Default)]
struct News {
    /// It has made anything of it.
    any: bool,
    traces: Vec<(TraceId, TraceNumber)>,
    keys: Vec<(KeyHash, TraceNumber)>,
    filed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tail {
    /// One that nothing is known of yet.
    pub fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// What readers look into.
    pub fn index(&self) -> Arc<Mutex<Index>> {
        Arc::clone(&self.index)
    }

    /// Whether there is anything to file, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// Brings it up to date; the first thing in every transaction. Says whether it was.
    pub fn refresh(&mut self, connection: &Connection) -> Result<bool, StoreError> {
        let operation = "read its version";
        let version: i64 = connection
            .prepare_cached("PRAGMA data_version")
            .during(operation)?
            .query_row([], |row| row.get(0))
            .during(operation)?;
        if self.version == Some(version) {
            return Ok(true);
        }
        // After a rollback, what is in memory is not what was there.
        let shared = self.version.is_some();
        let before = if shared { std::mem::take(&mut self.traces) } else { BTreeMap::new() };
        self.read(connection)?;
        self.version = Some(version);
        self.compare(before);
        if shared && self.traces.len() > SHARED_MAX {
            self.file_all(connection)?;
        }
        Ok(false)
    }

    fn read(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let operation = "read its last numbers";
        let upto = fold::filed_upto(connection)?;
        let last: Option<i64> = connection
            .prepare_cached(
                "SELECT max(ifnull((SELECT max(id) FROM sheets_opening), 0),
                     ifnull((SELECT max(id) FROM sheets_later), 0))",
            )
            .during(operation)?
            .query_row([], |row| row.get(0))
            .during(operation)?;
        let newest: Option<Vec<u8>> = connection
            .prepare_cached("SELECT max(trace_id) FROM traces")
            .during(operation)?
            .query_row([], |row| row.get(0))
            .during(operation)?;
        let records: bool = connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM idempotency)")
            .during(operation)?
            .query_row([], |row| row.get(0))
            .during(operation)?;
        let index = Arc::clone(&self.index);
        *self = Self {
            max: self.max,
            upto,
            last: TraceNumber::of_entry(last.unwrap_or_default()).0.max(upto),
            // One that is no id is greater than all, so that the table is asked.
            newest_filed: newest.map(|id| id.try_into().unwrap_or([0xff; 16])),
            records,
            index,
            ..Self::default()
        };
        for folded in fold::fold(connection, upto.next(), None)? {
            self.learn(folded);
        }
        // All of this is committed, whatever becomes of this transaction.
        let mut index = lock(&self.index);
        index.next = Some(self.last.next());
        index.read = None;
        index.traces = self.numbers.clone();
        index.keys.clone_from(&self.keys);
        Ok(())
    }

    /// Holds what was read against what this process knew: entries do not show that the last of them
    /// are gone. Such a trace stands where it stood, and its entries do not match.
    fn compare(&mut self, before: BTreeMap<TraceNumber, Unfiled>) {
        for (number, mut known) in before.into_iter().filter(|(number, _)| *number > self.upto) {
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

    /// Takes over what was read.
    fn learn(&mut self, folded: Folded) {
        let number = folded.number;
        self.keys.extend(folded.keys.into_iter().map(|hash| (hash, number)));
        if let Ok(trace) = folded.trace {
            self.entries += trace.entries;
            self.numbers.entry(trace.state.head.trace_id).or_insert(number);
            self.traces.insert(number, trace);
        }
    }

    /// A trace, if it is not filed; and why it cannot be added to, if it cannot.
    pub fn get(&self, trace_id: TraceId) -> Option<(TraceNumber, TraceState, Option<&ChainError>)> {
        let number = self.numbers.get(&trace_id)?;
        let trace = self.traces.get(number)?;
        Some((*number, trace.state, trace.damage.as_ref()))
    }

    /// Whether a trace of this id could be among the filed ones.
    pub fn may_be_filed(&self, trace_id: TraceId) -> bool {
        self.newest_filed.is_some_and(|newest| *trace_id.0.as_bytes() <= newest)
    }

    /// The unfiled traces that may have reserved a key of this number.
    pub fn key(&self, hash: KeyHash) -> Vec<TraceNumber> {
        numbers_of(&self.keys, hash)
    }

    /// Whether there are records of keys that have to be looked for by name.
    pub const fn has_records(&self) -> bool {
        self.records
    }

    /// The digest of an unfiled trace's effect, once it has ended.
    pub fn effect(&self, trace_id: TraceId) -> Option<Digest> {
        self.traces.get(self.numbers.get(&trace_id)?)?.effect()
    }

    /// The number of a new trace.
    pub const fn next(&self) -> TraceNumber {
        self.last.next()
    }

    /// Notes what an append has made of a trace.
    pub fn note(
        &mut self,
        number: TraceNumber,
        state: TraceState,
        last_artifact: Digest,
        entries: usize,
    ) {
        self.news.any = true;
        let before = self.traces.get(&number).map_or(0, |trace| trace.entries);
        if number > self.last {
            self.last = number;
            self.numbers.insert(state.head.trace_id, number);
            self.news.traces.push((state.head.trace_id, number));
        }
        self.entries += entries;
        let entries = before + entries;
        if entries > LENGTH_MAX {
            self.long = self.long.max(Some(number));
        }
        self.traces.insert(number, Unfiled { state, last_artifact, damage: None, entries });
    }

    /// Notes that an unfiled trace has reserved a key in one of its entries.
    pub fn note_key(&mut self, number: TraceNumber, hash: KeyHash) {
        self.news.any = true;
        self.news.keys.push((hash, number));
        self.keys.insert((hash, number));
    }

    /// Notes that a key's record has been written in full.
    pub const fn note_record(&mut self) {
        self.news.any = true;
        self.records = true;
    }

    /// Files all if this trace is not filed: what follows works on the tables.
    pub fn settle(&mut self, connection: &Connection, trace_id: TraceId) -> Result<(), StoreError> {
        if self.numbers.contains_key(&trace_id) {
            self.file_all(connection)?;
        }
        Ok(())
    }

    /// Whether there is so much that some of it is to be filed.
    pub fn is_full(&self) -> bool {
        self.has_too_many_entries() || self.long.is_some() || self.traces.len() >= self.max
    }

    const fn has_too_many_entries(&self) -> bool {
        self.entries >= self.max.saturating_mul(ENTRIES)
    }

    /// Files what has become too much; the last thing in every transaction.
    pub fn file_if_full(&mut self, connection: &Connection) -> Result<(), StoreError> {
        if self.has_too_many_entries() {
            self.file_all(connection)
        } else if let Some(long) = self.long.take() {
            self.file(connection, long)
        } else if self.traces.len() >= self.max {
            let middle = self.traces.keys().nth(self.max / 2).copied();
            self.file(connection, middle.unwrap_or(self.last))
        } else {
            Ok(())
        }
    }

    /// Files all there is.
    pub fn file_all(&mut self, connection: &Connection) -> Result<(), StoreError> {
        self.file(connection, self.last)
    }

    /// Writes the rows of all unfiled traces up to a number. Of a trace that does not hold together
    /// the row says where it stands, and the entries, which stay as they are, do not hold.
    fn file(&mut self, connection: &Connection, upto: TraceNumber) -> Result<(), StoreError> {
        let operation = "file traces";
        if upto <= self.upto {
            return Ok(());
        }
        self.news.any = true;
        let traces = self.traces.range(..=upto);
        let traces: Vec<TraceToFile> = traces
            .map(|(number, trace)| TraceToFile::new(*number, &trace.state))
            .collect::<Result<_, _>>()?;
        filing::insert(connection, &traces)?;
        let ids =
            self.traces.range(..=upto).map(|(_, trace)| *trace.state.head.trace_id.0.as_bytes());
        self.newest_filed = self.newest_filed.max(ids.max());
        fault::point("file.inside");
        // In the order of their tree, so that neighbours find their page at hand.
        let keys = self.keys.iter().copied().filter(|(_, number)| *number <= upto);
        filing::insert(connection, &Vec::from_iter(keys))?;
        connection
            .prepare_cached("UPDATE filed SET upto = ?1")
            .during(operation)?
            .execute([upto.0])
            .during(operation)?;
        self.traces = self.traces.split_off(&upto.next());
        self.numbers.retain(|_, number| *number > upto);
        self.keys.retain(|(_, number)| *number > upto);
        self.entries = self.traces.values().map(|trace| trace.entries).sum();
        self.upto = upto;
        self.news.filed = true;
        Ok(())
    }

    /// The transaction is durable: readers may know.
    pub fn publish(&mut self) {
        let news = std::mem::take(&mut self.news);
        let mut index = lock(&self.index);
        index.next = Some(self.last.next());
        index.traces.extend(news.traces);
        index.keys.extend(news.keys);
        if news.filed {
            let upto = self.upto;
            index.traces.retain(|_, number| *number > upto);
            index.keys.retain(|(_, number)| *number > upto);
        }
    }

    /// The transaction was rolled back: if it has made anything of what is in memory, that is not what
    /// is there.
    pub fn forget(&mut self) {
        if std::mem::take(&mut self.news).any {
            self.version = None;
        }
    }
}
