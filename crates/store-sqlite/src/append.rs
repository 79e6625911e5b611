//! Appends, as SQL.

use rusqlite::{Connection, params};
use windlass_kernel::{HolderId, State};
use windlass_store::{
    Append, AppendError, Claim, KeyAction, NewEntry, Reservation, Slot, StoreError, TraceState,
    rules,
};

use crate::error::During;
use crate::rows;

/// Checks an append and writes it. Everything is checked before anything is written, so a refusal
/// leaves a transaction that others share as it was.
pub fn append(
    connection: &Connection,
    append: &Append<'_>,
    me: HolderId,
) -> Result<Result<TraceState, AppendError>, StoreError> {
    let trace_id = append.claim.trace_id();
    let current = rows::load_trace(connection, trace_id)?;
    let mut buffer = Vec::with_capacity(1024);
    let state = match rules::decide_append(current.as_ref(), append, me, &mut buffer) {
        Ok(state) => state,
        Err(error) => return Ok(Err(error)),
    };
    if let KeyAction::Reserve(reservation) = &append.key {
        let existing = rows::load_key(connection, &reservation.slot)?;
        if let Err(error) = rules::decide_key(existing, &append.key) {
            return Ok(Err(error));
        }
    }
    for new in &append.entries {
        insert_entry(connection, new)?;
    }
    match append.claim {
        Claim::New { .. } => insert_trace(connection, &state)?,
        Claim::Held(_) => update_trace(connection, &state)?,
    }
    match &append.key {
        KeyAction::None => {}
        KeyAction::Reserve(reservation) => insert_key(connection, reservation, &state)?,
        KeyAction::Settle(slot) => settle_key(connection, slot, append, &state)?,
    }
    Ok(Ok(state))
}

fn insert_entry(connection: &Connection, new: &NewEntry) -> Result<(), StoreError> {
    let operation = "insert an entry";
    connection
        .prepare_cached("INSERT INTO bodies (body) VALUES (?1)")
        .during(operation)?
        .execute([&new.body])
        .during(operation)?;
    let body = connection.last_insert_rowid();
    let entry = &new.entry;
    connection
        .prepare_cached(
            "INSERT INTO entries (trace_id, sequence_number, prev_entry_digest, ts, from_state,
                 to_state, artifact_type, artifact_id, artifact_digest, tool_call_id,
                 idempotency_key, entry_digest, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )
        .during(operation)?
        .execute(params![
            entry.trace_id.0.as_bytes(),
            signed(entry.sequence_number)?,
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
            body,
        ])
        .during(operation)?;
    Ok(())
}

fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number)
        .map_err(|_| StoreError::Corrupt { reason: "a number is beyond 2^63".to_owned() })
}

fn insert_trace(connection: &Connection, state: &TraceState) -> Result<(), StoreError> {
    let operation = "insert a trace";
    connection
        .prepare_cached(
            "INSERT INTO traces (trace_id, plan_id, state, last_sequence_number,
                 last_entry_digest, tool_call_id, holder, fence)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )
        .during(operation)?
        .execute(params![
            state.head.trace_id.0.as_bytes(),
            state.plan_id.0.as_bytes(),
            state.head.state.unwrap_or(State::Pending).as_str(),
            signed(state.head.sequence_number)?,
            state.head.entry_digest.as_bytes(),
            state.head.tool_call_id.as_ref().map(|id| id.0.as_bytes()),
            state.holder.as_ref().map(|id| id.0.as_bytes()),
            signed(state.fence)?,
        ])
        .during(operation)?;
    Ok(())
}

/// Writes where a trace stands; its id, plan and the rule that it exists do not change.
pub fn update_trace(connection: &Connection, state: &TraceState) -> Result<(), StoreError> {
    let operation = "update a trace";
    connection
        .prepare_cached(
            "UPDATE traces SET state = ?2, last_sequence_number = ?3, last_entry_digest = ?4,
                 tool_call_id = ?5, holder = ?6, fence = ?7
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
        ])
        .during(operation)?;
    Ok(())
}

fn insert_key(
    connection: &Connection,
    reservation: &Reservation,
    state: &TraceState,
) -> Result<(), StoreError> {
    let operation = "reserve a key";
    connection
        .prepare_cached(
            "INSERT INTO idempotency (server_id, tool_name, idempotency_key, request_digest,
                 trace_id, tool_call_id, effect_digest)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL)",
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
    Ok(())
}

fn settle_key(
    connection: &Connection,
    slot: &Slot,
    append: &Append<'_>,
    state: &TraceState,
) -> Result<(), StoreError> {
    let operation = "settle a key";
    let Some(effect) = append.entries.last() else { return Ok(()) };
    connection
        .prepare_cached(
            "UPDATE idempotency SET effect_digest = ?4
             WHERE server_id = ?1 AND tool_name = ?2 AND idempotency_key = ?3
               AND trace_id = ?5 AND effect_digest IS NULL",
        )
        .during(operation)?
        .execute(params![
            slot.server_id,
            slot.tool_name,
            slot.idempotency_key,
            effect.entry.artifact_digest.as_bytes(),
            state.head.trace_id.0.as_bytes(),
        ])
        .during(operation)?;
    Ok(())
}
