//! The traces that are known by their entries alone, as the writer has them in memory, and their
//! filing: writing their rows in `traces` and `idempotency`, many at once.
//!
//! A commit that only adds entries at the end of one tree touches two or three pages; rows in two
//! more trees and an index would double that. So they wait, and cost a fraction of a page each.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use windlass_kernel::{ChainError, Digest, TraceId};
use windlass_store::{IdempotencyRecord, Reservation, Slot, StoreError, TraceState, fault};

use crate::error::During;
use crate::filing::{self, KeyToFile, TraceToFile};
use crate::find::Index;
use crate::fold::{self, Folded, Key, Unfiled};
use crate::lines;
use crate::rows::TraceNumber;
use crate::sheet::Field;

/// From so many unfiled traces on, the older half is filed: the newer are still being written to.
const TRACES_MAX: usize = 2048;
/// From so many unfiled entries on, all are filed.
const ENTRIES_MAX: usize = 16384;
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
    keys: HashMap<Arc<Slot>, (TraceNumber, Key)>,
    /// What this transaction has made of it, for the index.
    news: News,
    index: Arc<Mutex<Index>>,
}

#[derive(Default)]
struct News {
    /// It has made anything of it.
    any: bool,
    traces: Vec<(TraceId, TraceNumber)>,
    keys: Vec<(Arc<Slot>, TraceNumber)>,
    filed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tail {
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
        let index = Arc::clone(&self.index);
        *self = Self {
            upto,
            last: TraceNumber::of_entry(last.unwrap_or_default()).0.max(upto),
            // One that is no id is greater than all, so that the table is asked.
            newest_filed: newest.map(|id| id.try_into().unwrap_or([0xff; 16])),
            index,
            ..Self::default()
        };
        for folded in fold::fold(connection, upto.next(), None)? {
            self.learn(folded);
        }
        // All of this is committed, whatever becomes of this transaction.
        let mut index = lock(&self.index);
        index.next = Some(self.last.next());
        index.traces = self.numbers.clone();
        index.keys =
            self.keys.iter().map(|(slot, (number, _))| (Arc::clone(slot), *number)).collect();
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
        for key in folded.keys {
            self.keys.entry(Arc::clone(&key.slot)).or_insert((number, key));
        }
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

    /// The record of a key, if an unfiled trace has reserved it.
    pub fn key(&self, slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError> {
        let Some((number, key)) = self.keys.get(slot) else { return Ok(None) };
        let trace = self.traces.get(number);
        let trace_id = trace.map(|trace| trace.state.head.trace_id);
        fold::record(key, trace_id, trace.and_then(Unfiled::effect)).map(Some)
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
    pub fn note_key(&mut self, number: TraceNumber, reservation: &Reservation) {
        let slot = Arc::new(reservation.slot.clone());
        let bound = Some((reservation.request_digest, reservation.tool_call_id));
        self.news.keys.push((Arc::clone(&slot), number));
        self.keys.insert(Arc::clone(&slot), (number, Key { slot, bound }));
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
        self.entries >= ENTRIES_MAX || self.long.is_some() || self.traces.len() >= TRACES_MAX
    }

    /// Files what has become too much; the last thing in every transaction.
    pub fn file_if_full(&mut self, connection: &Connection) -> Result<(), StoreError> {
        if self.entries >= ENTRIES_MAX {
            self.file_all(connection)
        } else if let Some(long) = self.long.take() {
            self.file(connection, long)
        } else if self.traces.len() >= TRACES_MAX {
            let middle = self.traces.keys().nth(TRACES_MAX / 2).copied();
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
        let traces = self.traces.range(..=upto);
        let traces: Vec<TraceToFile> = traces
            .map(|(number, trace)| TraceToFile::new(*number, &trace.state))
            .collect::<Result<_, _>>()?;
        filing::insert(connection, &traces)?;
        let ids =
            self.traces.range(..=upto).map(|(_, trace)| *trace.state.head.trace_id.0.as_bytes());
        self.newest_filed = self.newest_filed.max(ids.max());
        fault::point("file.inside");
        let mut keys = Vec::with_capacity(traces.len());
        for (number, key) in self.keys.values().filter(|(number, _)| *number <= upto) {
            let trace = self.traces.get(number);
            match (&key.bound, trace.map(|trace| &trace.state.head.trace_id)) {
                (Some((request, call)), Some(trace_id)) => {
                    keys.push(KeyToFile::new(&key.slot, (request, call), trace_id));
                }
                _ => copy_keys(connection, *number)?,
            }
        }
        // In the order of their tree, so that neighbours find their page at hand.
        keys.sort_unstable_by_key(|key| key.place);
        filing::insert(connection, &keys)?;
        connection
            .prepare_cached("UPDATE filed SET upto = ?1")
            .during(operation)?
            .execute([upto.0])
            .during(operation)?;
        self.traces = self.traces.split_off(&upto.next());
        self.numbers.retain(|_, number| *number > upto);
        self.keys.retain(|_, (number, _)| *number > upto);
        self.entries = self.traces.values().map(|trace| trace.entries).sum();
        self.upto = upto;
        self.news.any = true;
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
            index.keys.retain(|_, number| *number > upto);
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

/// Files the keys of a trace from its entries as they are, readable or not: no key may get lost.
fn copy_keys(connection: &Connection, number: TraceNumber) -> Result<(), StoreError> {
    lines::of_trace(connection, number, 0, |line| {
        let Ok(fields) = line.fields else { return Ok(ControlFlow::Continue(())) };
        let bytes = |field| fields.get(field).unwrap_or_default();
        if let [Some(key), Some(tool), Some(server)] =
            [Field::Key, Field::Tool, Field::Server].map(|field| fields.text(field))
        {
            let key = KeyToFile {
                place: [key, tool, server],
                request_digest: bytes(Field::Request),
                trace_id: bytes(Field::Trace),
                tool_call_id: bytes(Field::Call),
            };
            filing::insert(connection, &[key])?;
        }
        Ok(ControlFlow::Continue(()))
    })
}
