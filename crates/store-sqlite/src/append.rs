//! Appends, as SQL.

use std::sync::Arc;

use rusqlite::{Connection, params};
use windlass_kernel::{Digest, Entry, HolderId, PlanId, State, ToolCallId, TraceId};
use windlass_store::{
    After, Append, AppendError, Claim, IdempotencyRecord, KeyAction, NewEntry, Reservation, Slot,
    StoreError, TraceState,
    rules::{self, Digests},
};

use crate::bound::Bound;
use crate::error::During;
use crate::rows::{self, TraceNumber};
use crate::tail::Tail;
use crate::writer::Desk;

/// Checks an append and writes it. A refusal leaves the transaction, which others may share, as it
/// was: everything is checked before anything is written.
///
/// The entries of a trace that is not filed are all that is written of it.
pub fn append(
    desk: &mut Desk<'_>,
    append: &Append<'_>,
    me: HolderId,
    digests: Digests,
) -> Result<Result<TraceState, AppendError>, StoreError> {
    let trace_id = append.claim.trace_id();
    let Desk { connection, tail, inserter } = desk;
    let connection = *connection;
    let unfiled = tail.get(trace_id);
    if let Some((_, _, Some(damage))) = unfiled {
        return Ok(Err(AppendError::Chain { trace_id, source: damage.clone() }));
    }
    let unfiled = unfiled.map(|(number, state, _)| (number, state));
    let filed = match unfiled {
        None if tail.may_be_filed(trace_id) => rows::load_trace(connection, trace_id)?,
        None | Some(_) => None,
    };
    let current = unfiled.map(|(_, state)| state).or(filed.map(|row| row.state));
    let state = match rules::decide_append(current.as_ref(), append, me, digests) {
        Ok(state) => state,
        Err(error) => return Ok(Err(error)),
    };
    if let KeyAction::Reserve(reservation) = &append.key
        && let Some(existing) = load_key(connection, tail, &reservation.slot)?
        && let Err(error) = rules::decide_key(Some(existing), &append.key)
    {
        return Ok(Err(error));
    }
    if let Some(row) = filed {
        inserter.insert(connection, row.number, append, &Extra::default())?;
        update_trace(connection, &state)?;
        if let KeyAction::Reserve(reservation) = &append.key {
            insert_key(connection, reservation, trace_id)?;
        }
        return Ok(Ok(state));
    }
    let number = unfiled.map_or(tail.next(), |(number, _)| number);
    let reserved = match &append.key {
        KeyAction::Reserve(reservation) => Some(reservation),
        KeyAction::None => None,
    };
    let carrier = reserved.and_then(|key| append.entries.iter().position(|new| carries(new, key)));
    let plan_id = match append.claim {
        Claim::New { plan_id, .. } => Some(plan_id),
        Claim::Held(_) => None,
    };
    let extra = Extra {
        genesis: plan_id.map(|plan_id| (plan_id, me)),
        released: append.after == After::Release,
        key: carrier.zip(reserved),
    };
    inserter.insert(connection, number, append, &extra)?;
    let last_artifact = append.entries.last().map_or(Digest::GENESIS, artifact_of);
    tail.note(number, state, last_artifact, append.entries.len());
    match (reserved, carrier) {
        (Some(reservation), Some(_)) => tail.note_key(number, reservation),
        // A key that none of the entries names has its record at once.
        (Some(reservation), None) => insert_key(connection, reservation, trace_id)?,
        (None, _) => {}
    }
    Ok(Ok(state))
}

fn artifact_of(new: &NewEntry) -> Digest {
    new.entry.artifact_digest
}

/// Whether an entry has what its columns must say for a key's record.
fn carries(new: &NewEntry, reservation: &Reservation) -> bool {
    new.entry.tool_call_id == Some(reservation.tool_call_id)
        && new.entry.idempotency_key.as_ref() == Some(&reservation.slot.idempotency_key)
}

/// The record of a key, wherever it stands.
fn load_key(
    connection: &Connection,
    tail: &Tail,
    slot: &Slot,
) -> Result<Option<IdempotencyRecord>, StoreError> {
    if let Some(record) = tail.key(slot)? {
        return Ok(Some(record));
    }
    let Some(mut record) = rows::load_key(connection, slot)? else { return Ok(None) };
    record.effect_digest = match rows::load_trace(connection, record.trace_id)? {
        Some(trace) => rows::load_effect(connection, &trace)?,
        None => tail.effect(record.trace_id),
    };
    Ok(Some(record))
}

/// What the rows of an unfiled trace say beyond their entries.
#[derive(Default)]
struct Extra<'a> {
    /// The plan and the holder of a new trace: with its first entry.
    genesis: Option<(PlanId, HolderId)>,
    /// The lease is given back: with the last entry.
    released: bool,
    /// A key is reserved: with the entry that names it.
    key: Option<(usize, &'a Reservation)>,
}

/// Inserts entries: the statements, compiled and at hand for all of a batch.
#[derive(Default)]
pub struct Inserter<'a> {
    /// For what a trace begins with.
    opening: Option<Bound<'a>>,
    /// For what is added to it.
    later: Option<Bound<'a>>,
}

/// The statement that inserts into one of the two tables.
macro_rules! insert_into {
    ($table:literal) => {
        concat!(
            "INSERT INTO ",
            $table,
            " (id, trace_id, prev_entry_digest, ts, from_state, to_state, artifact_type,
                 artifact_id, artifact_digest, tool_call_id, idempotency_key, entry_digest,
                 plan_id, holder, released, server_id, tool_name, request_digest, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                 ?18, ?19)"
        )
    };
}

impl<'a> Inserter<'a> {
    const OPERATION: &'static str = "insert an entry";

    fn insert(
        &mut self,
        connection: &'a Connection,
        number: TraceNumber,
        append: &Append<'_>,
        extra: &Extra<'_>,
    ) -> Result<(), StoreError> {
        let (row, sql) = match append.claim {
            Claim::New { .. } => (&mut self.opening, insert_into!("entries_opening")),
            Claim::Held(_) => (&mut self.later, insert_into!("entries_later")),
        };
        let row = match row {
            Some(row) => row,
            none => none.insert(Bound::new(connection, sql).during(Self::OPERATION)?),
        };
        let last = append.entries.len().saturating_sub(1);
        let mut before: Option<&Entry> = None;
        for (place, new) in append.entries.iter().enumerate() {
            let id = number.entry_id(new.entry.sequence_number)?;
            let genesis = extra.genesis.as_ref().filter(|_| place == 0);
            let key = extra.key.filter(|(at, _)| *at == place).map(|(_, key)| key);
            let released = extra.released && place == last;
            let mut bind = || -> rusqlite::Result<()> {
                row.bind(1, id)?;
                bind_entry(row, &new.entry, before)?;
                row.bind_optional(13, genesis.map(|(plan_id, _)| plan_id.0.as_bytes()))?;
                row.bind_optional(14, genesis.map(|(_, holder)| holder.0.as_bytes()))?;
                row.bind_optional(15, released.then_some(1))?;
                row.bind_optional(16, key.map(|key| key.slot.server_id.as_str()))?;
                row.bind_optional(17, key.map(|key| key.slot.tool_name.as_str()))?;
                row.bind_optional(18, key.map(|key| key.request_digest.as_bytes()))?;
                row.bind(19, new.body.as_slice())?;
                row.run()
            };
            bind().during(Self::OPERATION)?;
            before = Some(&new.entry);
        }
        Ok(())
    }
}

/// Binds an entry's own columns, where they are not those of the row before.
fn bind_entry(row: &mut Bound<'_>, entry: &Entry, before: Option<&Entry>) -> rusqlite::Result<()> {
    if before.is_none_or(|before| before.trace_id != entry.trace_id) {
        row.bind(2, entry.trace_id.0.as_bytes())?;
    }
    row.bind(3, entry.prev_entry_digest.as_bytes())?;
    row.bind(4, entry.ts.unix_ms())?;
    row.bind(5, entry.from_state.as_str())?;
    row.bind(6, entry.to_state.as_str())?;
    row.bind(7, entry.artifact_type.as_str())?;
    row.bind(8, entry.artifact_id.0.as_bytes())?;
    row.bind(9, entry.artifact_digest.as_bytes())?;
    row.bind_optional(10, entry.tool_call_id.as_ref().map(|id| id.0.as_bytes()))?;
    if before.is_none_or(|before| before.idempotency_key != entry.idempotency_key) {
        row.bind_optional(11, entry.idempotency_key.as_deref())?;
    }
    row.bind(12, entry.entry_digest.as_bytes())
}

fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number)
        .map_err(|_| StoreError::Corrupt { reason: "a number is beyond 2^63".to_owned() })
}

/// Files traces one after the other. One that is there already stays as it is.
pub struct TraceFiler<'a> {
    row: Bound<'a>,
    before: Option<TraceState>,
}

impl<'a> TraceFiler<'a> {
    const OPERATION: &'static str = "file a trace";

    /// Prepares to file.
    pub fn new(connection: &'a Connection) -> Result<Self, StoreError> {
        let row = Bound::new(
            connection,
            "INSERT INTO traces (trace_id, plan_id, trace_number, state, last_sequence_number,
                 last_entry_digest, tool_call_id, holder, fence, open)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
        )
        .during(Self::OPERATION)?;
        Ok(Self { row, before: None })
    }

    /// Files a trace.
    pub fn file(&mut self, number: TraceNumber, state: &TraceState) -> Result<(), StoreError> {
        let (length, fence) = (signed(state.head.sequence_number)?, signed(state.fence)?);
        let before = self.before.replace(*state);
        let row = &mut self.row;
        let mut bind = || -> rusqlite::Result<()> {
            row.bind(1, state.head.trace_id.0.as_bytes())?;
            row.bind(2, state.plan_id.0.as_bytes())?;
            row.bind(3, number.0)?;
            // Most traces that are filed together have ended alike.
            if before.is_none_or(|before| before.head.state != state.head.state) {
                row.bind(4, state.head.state.unwrap_or(State::Pending).as_str())?;
                row.bind(10, rows::is_open(state))?;
            }
            row.bind(5, length)?;
            row.bind(6, state.head.entry_digest.as_bytes())?;
            row.bind_optional(7, state.head.tool_call_id.as_ref().map(|id| id.0.as_bytes()))?;
            row.bind_optional(8, state.holder.as_ref().map(|id| id.0.as_bytes()))?;
            row.bind(9, fence)?;
            row.run()
        };
        bind().during(Self::OPERATION)
    }
}

/// Writes where a trace stands; its id, plan and the rule that it exists do not change.
pub fn update_trace(connection: &Connection, state: &TraceState) -> Result<(), StoreError> {
    let operation = "update a trace";
    connection
        .prepare_cached(
            "UPDATE traces SET state = ?2, last_sequence_number = ?3, last_entry_digest = ?4,
                 tool_call_id = ?5, holder = ?6, fence = ?7, open = ?8
             WHERE trace_id = ?1",
        )
        .during(operation)?
        .execute(params![
            state.head.trace_id.0.as_bytes(),
            state.head.state.unwrap_or(State::Pending).as_str(),
            signed(state.head.sequence_number)?,
            state.head.entry_digest.as_bytes(),
            state.head.tool_call_id.as_ref().map(|id| id.0.as_bytes()),
            state.holder.as_ref().map(|id| id.0.as_bytes()),
            signed(state.fence)?,
            rows::is_open(state),
        ])
        .during(operation)?;
    Ok(())
}

/// Writes records of keys one after the other. One that is there already stays as it is.
pub struct KeyFiler<'a> {
    row: Bound<'a>,
    before: Option<Arc<Slot>>,
}

impl<'a> KeyFiler<'a> {
    const OPERATION: &'static str = "reserve a key";

    /// Prepares to write.
    pub fn new(connection: &'a Connection) -> Result<Self, StoreError> {
        let row = Bound::new(
            connection,
            "INSERT INTO idempotency (server_id, tool_name, idempotency_key, request_digest,
                 trace_id, tool_call_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        )
        .during(Self::OPERATION)?;
        Ok(Self { row, before: None })
    }

    /// Writes the record of a key.
    pub fn file(
        &mut self,
        slot: &Arc<Slot>,
        (request_digest, tool_call_id): (Digest, ToolCallId),
        trace_id: TraceId,
    ) -> Result<(), StoreError> {
        let before = self.before.replace(Arc::clone(slot));
        let row = &mut self.row;
        let bind = || -> rusqlite::Result<()> {
            if before.as_ref().is_none_or(|before| before.server_id != slot.server_id) {
                row.bind(1, slot.server_id.as_str())?;
            }
            if before.is_none_or(|before| before.tool_name != slot.tool_name) {
                row.bind(2, slot.tool_name.as_str())?;
            }
            row.bind(3, slot.idempotency_key.as_str())?;
            row.bind(4, request_digest.as_bytes())?;
            row.bind(5, trace_id.0.as_bytes())?;
            row.bind(6, tool_call_id.0.as_bytes())?;
            row.run()
        };
        bind().during(Self::OPERATION)
    }
}

fn insert_key(
    connection: &Connection,
    reservation: &Reservation,
    trace_id: TraceId,
) -> Result<(), StoreError> {
    let slot = Arc::new(reservation.slot.clone());
    let bound = (reservation.request_digest, reservation.tool_call_id);
    KeyFiler::new(connection)?.file(&slot, bound, trace_id)
}
