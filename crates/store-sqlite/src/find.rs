//! Reading filed and unfiled traces as one, within a snapshot.
//!
//! What is filed is in the tables, and they come first. What is not filed is in the entries above the
//! mark; [`Index`] tells where, as far as this process knows, and what it does not know of stands
//! behind all that it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use foldhash::HashMap;
use rusqlite::Connection;
use windlass_kernel::TraceId;
use windlass_store::{IdempotencyRecord, Slot, StoreError};

use crate::fold::{self, Folded};
use crate::keys::{self, Finder, KeyHash};
use crate::lines;
use crate::rows::{self, KeyFinder, TraceNumber, TraceRow};
use crate::sheet::Fields;

/// Where the unfiled traces and keys stand that this process knows of, as of some commit.
#[derive(Debug, Default)]
pub struct Index {
    /// The number after the newest trace that was there; `None` before anything was looked at.
    pub next: Option<TraceNumber>,
    /// The number before which all traces are known since somebody has read there, if not all keys.
    pub read: Option<TraceNumber>,
    /// The numbers of the traces.
    pub traces: HashMap<TraceId, TraceNumber>,
    /// The numbers of the traces that have reserved the keys.
    pub keys: BTreeSet<(KeyHash, TraceNumber)>,
}

/// From so many traces on, those that are filed are forgotten.
const TRACES_MAX: usize = 8192;

/// What has come of looking for a trace.
#[derive(Debug)]
pub struct Found {
    /// The trace.
    pub row: Option<TraceRow>,
    /// Up to which number traces are filed.
    upto: TraceNumber,
    /// Where others stand that were come across.
    others: Vec<(TraceId, TraceNumber)>,
}

/// What an [`Index`] says about one thing. Taken before the snapshot begins: what came later then has
/// a number that is not below `next`.
#[derive(Clone, Debug)]
pub struct Hint {
    /// The numbers that it may be known under.
    pub numbers: Vec<TraceNumber>,
    /// The number from which on nothing is known.
    pub next: Option<TraceNumber>,
}

impl Hint {
    /// The number from which on there may be unfiled traces that are not known.
    fn unknown(&self, upto: TraceNumber) -> TraceNumber {
        self.next.map_or(upto.next(), |next| next.max(upto.next()))
    }
}

impl Index {
    /// Where a trace stands.
    pub fn trace(&self, trace_id: TraceId) -> Hint {
        let numbers = self.traces.get(&trace_id).copied().into_iter().collect();
        Hint { numbers, next: self.next.max(self.read) }
    }

    /// Takes over where traces stand that were not known, so that nobody has to look there again.
    pub fn learn(&mut self, found: &Found) {
        if self.traces.len() > TRACES_MAX {
            self.traces.retain(|_, number| *number > found.upto);
        }
        for (trace_id, number) in &found.others {
            self.traces.entry(*trace_id).or_insert(*number);
        }
        self.read = self.read.max(found.others.iter().map(|(_, number)| number.next()).max());
    }

    /// Where a key was reserved.
    pub fn key(&self, slot: &Slot) -> Hint {
        Hint { numbers: numbers_of(&self.keys, KeyHash::of(slot)), next: self.next }
    }
}

/// The traces that have reserved keys of this number.
pub fn numbers_of(keys: &BTreeSet<(KeyHash, TraceNumber)>, hash: KeyHash) -> Vec<TraceNumber> {
    let all = (hash, TraceNumber(i64::MIN))..=(hash, TraceNumber(i64::MAX));
    keys.range(all).map(|(_, number)| *number).collect()
}

/// Finds a trace.
pub fn trace(connection: &Connection, trace_id: TraceId, hint: Hint) -> Result<Found, StoreError> {
    let row = rows::load_trace(connection, trace_id)?;
    let mut found = Found { row, upto: TraceNumber::default(), others: Vec::new() };
    if found.row.is_some() {
        return Ok(found);
    }
    let upto = fold::filed_upto(connection)?;
    found.upto = upto;
    let known = hint.numbers.iter().copied().find(|number| *number > upto);
    let known = unfiled_at(connection, known)?;
    // One whose first entry names nobody is still the one that is known to stand there.
    if let Some(folded) =
        known.filter(|folded| folded.trace_id.is_none_or(|named| named == trace_id))
    {
        found.row = Some(folded.row(trace_id)?);
        return Ok(found);
    }
    lines::of_traces(connection, hint.unknown(upto), None, |line| {
        if let Ok(Ok(trace_id)) = line.fields.as_ref().map(Fields::trace_id)
            && found.others.last() != Some(&(trace_id, line.number))
        {
            found.others.push((trace_id, line.number));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let number = found.others.iter().find(|(other, _)| *other == trace_id).map(|found| found.1);
    if let Some(folded) = unfiled_at(connection, number)? {
        found.row = Some(folded.row(trace_id)?);
    }
    Ok(found)
}

/// Finds a key's record.
pub fn key(
    connection: &Connection,
    slot: &Slot,
    hint: Hint,
) -> Result<Option<IdempotencyRecord>, StoreError> {
    let upto = fold::filed_upto(connection)?;
    let unknown = hint.unknown(upto);
    let hash = KeyHash::of(slot);
    let mut numbers = Finder::new(connection)?.numbers(hash)?;
    numbers.extend(hint.numbers.into_iter().filter(|number| *number > upto));
    for number in numbers {
        if let Some(record) = keys::read(connection, number, (slot, hash))? {
            return with_effect(connection, record, Some(number)).map(Some);
        }
    }
    if let Some(record) = KeyFinder::new(connection)?.find(slot)? {
        // It can be there before its trace is filed.
        let hint = Hint { numbers: Vec::new(), next: None };
        let number = trace(connection, record.trace_id, hint)?.row.map(|row| row.number);
        return with_effect(connection, record, number).map(Some);
    }
    let reserved = |fields: &Fields<'_>| keys::is_reserved(fields, slot);
    let Some(number) = first_number(connection, unknown, reserved)? else { return Ok(None) };
    let record = keys::read(connection, number, (slot, hash))?;
    record.map(|record| with_effect(connection, record, Some(number))).transpose()
}

/// The record of a key that a trace with this number has reserved, with its effect.
fn with_effect(
    connection: &Connection,
    mut record: IdempotencyRecord,
    number: Option<TraceNumber>,
) -> Result<IdempotencyRecord, StoreError> {
    record.effect_digest = match rows::load_trace(connection, record.trace_id)? {
        Some(trace) => rows::load_effect(connection, &trace)?,
        None => {
            let folded = unfiled_at(connection, number)?;
            folded.and_then(|folded| folded.trace.ok()).and_then(|trace| trace.effect())
        }
    };
    Ok(record)
}

/// All unfiled traces, by their numbers.
pub fn unfiled(connection: &Connection) -> Result<BTreeMap<TraceNumber, Folded>, StoreError> {
    let all = fold::fold(connection, fold::filed_upto(connection)?.next(), None)?;
    Ok(all.into_iter().map(|folded| (folded.number, folded)).collect())
}

fn unfiled_at(
    connection: &Connection,
    number: Option<TraceNumber>,
) -> Result<Option<Folded>, StoreError> {
    let Some(number) = number else { return Ok(None) };
    Ok(fold::fold(connection, number, Some(number))?.pop())
}

/// The first trace from a number on with an entry that is wanted.
fn first_number(
    connection: &Connection,
    from: TraceNumber,
    wanted: impl Fn(&Fields<'_>) -> bool,
) -> Result<Option<TraceNumber>, StoreError> {
    let mut found = None;
    lines::of_traces(connection, from, None, |line| {
        if line.fields.as_ref().is_ok_and(&wanted) {
            found = Some(line.number);
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}
