//! Reading filed and unfiled traces as one, within a snapshot.
//!
//! What is filed is in the tables, and they come first. What is not filed is in the entries above the
//! mark; [`Index`] tells where, as far as this process knows, and what it does not know of stands
//! behind all that it knows.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::Connection;
use windlass_kernel::TraceId;
use windlass_store::{IdempotencyRecord, Slot, StoreError};

use crate::fold::{self, Folded};
use crate::lines;
use crate::rows::{self, KeyFinder, TraceNumber, TraceRow};
use crate::sheet::{Field, Fields};

/// Where the unfiled traces and keys stand that this process knows of, as of some commit.
#[derive(Debug, Default)]
pub struct Index {
    /// The number after the newest trace that was there; `None` before anything was looked at.
    pub next: Option<TraceNumber>,
    /// The numbers of the traces.
    pub traces: HashMap<TraceId, TraceNumber>,
    /// The numbers of the traces that have reserved the keys.
    pub keys: HashMap<Arc<Slot>, TraceNumber>,
}

/// What an [`Index`] says about one thing. Taken before the snapshot begins: what came later then has
/// a number that is not below `next`.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    /// The number that it is known under.
    pub number: Option<TraceNumber>,
    /// The number from which on nothing is known.
    pub next: Option<TraceNumber>,
}

impl Hint {
    /// The number from which on there may be unfiled traces that are not known.
    fn unknown(self, upto: TraceNumber) -> TraceNumber {
        self.next.map_or(upto.next(), |next| next.max(upto.next()))
    }
}

impl Index {
    /// Where a trace stands.
    pub fn trace(&self, trace_id: TraceId) -> Hint {
        Hint { number: self.traces.get(&trace_id).copied(), next: self.next }
    }

    /// Where a key was reserved.
    pub fn key(&self, slot: &Slot) -> Hint {
        Hint { number: self.keys.get(slot).copied(), next: self.next }
    }
}

/// Finds a trace.
pub fn trace(
    connection: &Connection,
    trace_id: TraceId,
    hint: Hint,
) -> Result<Option<TraceRow>, StoreError> {
    if let Some(row) = rows::load_trace(connection, trace_id)? {
        return Ok(Some(row));
    }
    let upto = fold::filed_upto(connection)?;
    let known = unfiled_at(connection, hint.number.filter(|number| *number > upto))?;
    // One whose first entry names nobody is still the one that is known to stand there.
    if let Some(folded) =
        known.filter(|folded| folded.trace_id.is_none_or(|named| named == trace_id))
    {
        return folded.row(trace_id).map(Some);
    }
    let wanted = trace_id.0.as_bytes().as_slice();
    let number = first_number(connection, hint.unknown(upto), |fields| {
        fields.get(Field::Trace) == Some(wanted)
    })?;
    match unfiled_at(connection, number)? {
        Some(folded) => folded.row(trace_id).map(Some),
        None => Ok(None),
    }
}

/// Finds a key's record.
pub fn key(
    connection: &Connection,
    slot: &Slot,
    hint: Hint,
) -> Result<Option<IdempotencyRecord>, StoreError> {
    if let Some(mut record) = KeyFinder::new(connection)?.find(slot)? {
        record.effect_digest = match rows::load_trace(connection, record.trace_id)? {
            Some(trace) => rows::load_effect(connection, &trace)?,
            // A key can be filed before its trace is.
            None => {
                let hint = Hint { number: None, next: None };
                let number = trace(connection, record.trace_id, hint)?.map(|row| row.number);
                let folded = unfiled_at(connection, number)?;
                folded.and_then(|folded| folded.trace.ok()).and_then(|trace| trace.effect())
            }
        };
        return Ok(Some(record));
    }
    let upto = fold::filed_upto(connection)?;
    if let Some(folded) = unfiled_at(connection, hint.number.filter(|number| *number > upto))?
        && let Some(record) = folded.record(slot)?
    {
        return Ok(Some(record));
    }
    let number = first_number(connection, hint.unknown(upto), |fields| {
        fields.text(Field::Server) == Some(&slot.server_id)
            && fields.text(Field::Tool) == Some(&slot.tool_name)
            && fields.text(Field::Key) == Some(&slot.idempotency_key)
    })?;
    match unfiled_at(connection, number)? {
        Some(folded) => folded.record(slot),
        None => Ok(None),
    }
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
