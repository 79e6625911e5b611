//! Appends, as SQL.

use rusqlite::{Connection, params};
use windlass_kernel::{HolderId, State, TraceId};
use windlass_store::{
    Append, AppendError, Claim, KeyAction, NewEntry, Reservation, StoreError, TraceState,
    rules::{self, Digests},
};

use crate::error::During;
use crate::rows::{self, TraceNumber};

/// Checks an append and writes it. A refusal leaves the transaction, which others may share, as it
/// was: what is checked by trying it is tried first, and taken back.
pub fn append(
    connection: &Connection,
    append: &Append<'_>,
    me: HolderId,
    digests: Digests,
) -> Result<Result<TraceState, AppendError>, StoreError> {
    let trace_id = append.claim.trace_id();
    // A new trace is looked for by inserting it: two statements less on the busiest path.
    let current = match append.claim {
        Claim::New { .. } => None,
        Claim::Held(_) => rows::load_trace(connection, trace_id)?,
    };
    let decided = rules::decide_append(current.map(|row| row.state).as_ref(), append, me, digests);
    let state = match (decided, current) {
        (Ok(state), _) => state,
        // The trace may exist all the same, and that would be the first thing to say.
        (Err(_), None) if rows::load_trace(connection, trace_id)?.is_some() => {
            return Ok(Err(AppendError::Fenced { trace_id }));
        }
        (Err(error), _) => return Ok(Err(error)),
    };
    let number = match current {
        Some(row) => row.number,
        None => match insert_trace(connection, &state)? {
            Some(number) => number,
            None => return Ok(Err(AppendError::Fenced { trace_id })),
        },
    };
    if let KeyAction::Reserve(reservation) = &append.key
        && !insert_key(connection, reservation, &state)?
    {
        if current.is_none() {
            delete_trace(connection, trace_id)?;
        }
        let existing = rows::load_key(connection, &reservation.slot)?;
        return match rules::decide_key(existing, &append.key) {
            Err(error) => Ok(Err(error)),
            Ok(()) => Err(StoreError::Corrupt { reason: "a taken key has no record".to_owned() }),
        };
    }
    for new in &append.entries {
        insert_entry(connection, number, new)?;
    }
    if current.is_some() {
        update_trace(connection, &state)?;
    }
    Ok(Ok(state))
}

fn insert_entry(
    connection: &Connection,
    number: TraceNumber,
    new: &NewEntry,
) -> Result<(), StoreError> {
    let operation = "insert an entry";
    let entry = &new.entry;
    connection
        .prepare_cached(
            "INSERT INTO entries (id, trace_id, prev_entry_digest, ts, from_state, to_state,
                 artifact_type, artifact_id, artifact_digest, tool_call_id, idempotency_key,
                 entry_digest, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )
        .during(operation)?
        .execute(params![
            number.entry_id(entry.sequence_number)?,
            entry.trace_id.0.as_bytes(),
            entry.prev_entry_digest.as_bytes(),
            entry.ts.unix_ms(),
            entry.from_state.as_str(),
            entry.to_state.as_str(),
            entry.artifact_type.as_str(),
            entry.artifact_id.0.as_bytes(),
            entry.artifact_digest.as_bytes(),
            entry.tool_call_id.as_ref().map(|id| id.0.as_bytes()),
            entry.idempotency_key,
            entry.entry_digest.as_bytes(),
            new.body,
        ])
        .during(operation)?;
    Ok(())
}

fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number)
        .map_err(|_| StoreError::Corrupt { reason: "a number is beyond 2^63".to_owned() })
}

/// Files a new trace under the next number; `None` when it exists.
fn insert_trace(
    connection: &Connection,
    state: &TraceState,
) -> Result<Option<TraceNumber>, StoreError> {
    let operation = "insert a trace";
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(id) FROM entries")
        .during(operation)?
        .query_row([], |row| row.get(0))
        .during(operation)?;
    let number = TraceNumber::after(last.unwrap_or_default());
    let inserted = connection
        .prepare_cached(
            "INSERT INTO traces (trace_id, plan_id, trace_number, state, last_sequence_number,
                 last_entry_digest, tool_call_id, holder, fence, open)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
        )
        .during(operation)?
        .execute(params![
            state.head.trace_id.0.as_bytes(),
            state.plan_id.0.as_bytes(),
            number.0,
            state.head.state.unwrap_or(State::Pending).as_str(),
            signed(state.head.sequence_number)?,
            state.head.entry_digest.as_bytes(),
            state.head.tool_call_id.as_ref().map(|id| id.0.as_bytes()),
            state.holder.as_ref().map(|id| id.0.as_bytes()),
            signed(state.fence)?,
            rows::is_open(state),
        ])
        .during(operation)?;
    Ok((inserted == 1).then_some(number))
}

/// Takes back a trace that this transaction has inserted.
fn delete_trace(connection: &Connection, trace_id: TraceId) -> Result<(), StoreError> {
    let operation = "take back a trace";
    connection
        .prepare_cached("DELETE FROM traces WHERE trace_id = ?1")
        .during(operation)?
        .execute([trace_id.0.as_bytes()])
        .during(operation)?;
    Ok(())
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

/// Reserves a key; `false` when it is taken.
fn insert_key(
    connection: &Connection,
    reservation: &Reservation,
    state: &TraceState,
) -> Result<bool, StoreError> {
    let operation = "reserve a key";
    let inserted = connection
        .prepare_cached(
            "INSERT INTO idempotency (server_id, tool_name, idempotency_key, request_digest,
                 trace_id, tool_call_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        )
        .during(operation)?
        .execute(params![
            reservation.slot.server_id,
            reservation.slot.tool_name,
            reservation.slot.idempotency_key,
            reservation.request_digest.as_bytes(),
            state.head.trace_id.0.as_bytes(),
            reservation.tool_call_id.0.as_bytes(),
        ])
        .during(operation)?;
    Ok(inserted == 1)
}
