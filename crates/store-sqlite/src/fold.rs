//! Where a trace stands by its entries alone: the traces that are not filed yet.

use std::ops::ControlFlow;

use rusqlite::Connection;
use windlass_kernel::{ChainError, Digest, Head, TraceId};
use windlass_store::{StoreError, TraceState};

use crate::error::During;
use crate::keys::KeyHash;
use crate::lines;
use crate::rows::{self, TraceNumber, TraceRow};
use crate::sheet::{Field, Line, malformed};

/// The fence of a trace that nobody has taken over: one that is taken over is filed first.
pub const FIRST_FENCE: u64 = 1;

/// A trace that is not filed, as its entries tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfiled {
    /// Where it stands: after the last of its entries that can be read, as its row would say. Whether
    /// they hold together is found where they are read, as it is of a filed trace.
    pub state: TraceState,
    /// The digest of that entry's artifact.
    pub last_artifact: Digest,
    /// Why its chain does not hold, if it does not: then nothing is added to it.
    pub damage: Option<ChainError>,
    /// How many entries it has.
    pub entries: usize,
}

impl Unfiled {
    /// The digest of its effect, once it has ended.
    pub fn effect(&self) -> Option<Digest> {
        (!rows::is_open(&self.state)).then_some(self.last_artifact)
    }
}

/// What the rows under one trace number come to.
#[derive(Clone, Debug)]
pub struct Folded {
    /// The number.
    pub number: TraceNumber,
    /// The trace that its first row names, if it names one.
    pub trace_id: Option<TraceId>,
    /// The trace, or why there is nowhere that it could stand.
    pub trace: Result<Unfiled, ChainError>,
    /// The numbers of the keys that its rows reserve.
    pub keys: Vec<KeyHash>,
}

impl Folded {
    /// The trace with its number.
    pub fn row(&self, trace_id: TraceId) -> Result<TraceRow, StoreError> {
        match &self.trace {
            Ok(trace) => Ok(TraceRow { state: trace.state, number: self.number }),
            Err(source) => Err(StoreError::CorruptTrace { trace_id, source: source.clone() }),
        }
    }
}

/// The highest number whose rows are written; only what is above it is known by its entries alone.
pub fn filed_upto(connection: &Connection) -> Result<TraceNumber, StoreError> {
    let operation = "read up to where it is filed";
    connection
        .prepare_cached("SELECT upto FROM filed")
        .during(operation)?
        .query_row([], |row| row.get(0).map(TraceNumber))
        .during(operation)
}

/// Folds the traces from a number on, up to the last if one is given.
pub fn fold(
    connection: &Connection,
    first: TraceNumber,
    last: Option<TraceNumber>,
) -> Result<Vec<Folded>, StoreError> {
    let mut all: Vec<Folded> = Vec::new();
    let mut buffer = Vec::with_capacity(1024);
    lines::of_traces(connection, first, last, |line| {
        if all.last().is_none_or(|folded| folded.number != line.number) {
            all.push(begin(line));
        }
        if let Some(folded) = all.last_mut() {
            add(folded, line, &mut buffer);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for folded in &mut all {
        if let Ok(Unfiled { damage: Some(damage), state, .. }) = &folded.trace
            && state.head.sequence_number == 0
        {
            folded.trace = Err(damage.clone());
        }
    }
    Ok(all)
}

/// A trace before its first entry, which has its plan and its holder.
fn begin(line: &Line<'_>) -> Folded {
    let trace_id = line.fields.and_then(|fields| fields.trace_id());
    let genesis = line.fields.and_then(|fields| fields.genesis());
    let trace = trace_id.and_then(|trace_id| {
        let (plan_id, holder) = genesis?;
        Ok(Unfiled {
            state: TraceState {
                head: Head::empty(trace_id),
                plan_id,
                holder: Some(holder),
                fence: FIRST_FENCE,
            },
            last_artifact: Digest::GENESIS,
            damage: None,
            entries: 0,
        })
    });
    Folded {
        number: line.number,
        trace_id: trace_id.ok(),
        trace: trace.map_err(|what| malformed(1, what)),
        keys: Vec::new(),
    }
}

/// Adds an entry to its trace.
fn add(folded: &mut Folded, line: &Line<'_>, buffer: &mut Vec<u8>) {
    if let Ok(fields) = &line.fields {
        folded.keys.extend(KeyHash::in_entry(fields));
    }
    let Ok(trace) = &mut folded.trace else { return };
    trace.entries += 1;
    if line.fields.is_ok_and(|fields| fields.get(Field::Released).is_some()) {
        trace.state.holder = None;
    }
    let entry = match line.entry() {
        Ok(entry) => entry,
        Err(error) => {
            trace.damage.get_or_insert(error);
            return;
        }
    };
    let head = &mut trace.state.head;
    *head = head.admit(&entry, buffer).unwrap_or_else(|error| {
        trace.damage.get_or_insert(error);
        Head {
            trace_id: head.trace_id,
            sequence_number: entry.sequence_number,
            entry_digest: entry.entry_digest,
            state: Some(entry.to_state),
            tool_call_id: entry.tool_call_id.or(head.tool_call_id),
        }
    });
    trace.last_artifact = entry.artifact_digest;
}
