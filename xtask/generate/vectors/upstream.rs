//! The same machine in the shape of the specification's own vectors: `valid_transitions`, `invalid_transitions`
//! and `recovery_vectors`, with upstream ids. The entries are whole, so that digests can be checked too.

use anyhow::Result;
use serde_json::{Map, Value, json};
use windlass_kernel::Code;
use windlass_kernel::verify::UPSTREAM_ENTRY_SCHEMA_ID;

use super::fixture::Call;
use super::invalid::Raw;

/// A chain with upstream ids and digests.
fn raw(calls: &[Call], name: &str) -> Result<Raw> {
    let mut raw = Raw::of(calls, name)?;
    for place in 1..=raw.len() {
        raw = raw.tamper(place, "schema_id", json!(UPSTREAM_ENTRY_SCHEMA_ID))?;
    }
    raw.relink(1)
}

/// The three sections.
pub fn sections(calls: &[Call]) -> Result<Map<String, Value>> {
    let whole = || raw(calls, "completed");
    let valid = [
        ("requested, approved, dispatched, done", whole()?),
        ("requested, approved, dispatched, failed", raw(calls, "failed")?),
        ("requested and denied", raw(calls, "denied")?),
        ("a read without a key, whose absent fields are null", {
            let mut read = raw(calls, "completed-read")?;
            for place in 1..=read.len() {
                read = read.without(place, "idempotency_key")?;
            }
            read.without(1, "tool_call_id")?.without(2, "tool_call_id")?
        }),
    ];
    let null = [("tool_call_id", Value::Null)];
    let invalid = [
        (
            "an effect without a decision and a call",
            whole()?.truncate(1).claim("PENDING", "COMPLETED", "tool_effect")?,
            Code::StateInvalidTransition,
        ),
        ("a sequence number twice", whole()?.copy(2, 3)?, Code::StateSequenceGap),
        ("a sequence number that is left out", whole()?.drop(2), Code::StateSequenceGap),
        (
            "an effect without a call",
            whole()?.truncate(2).claim("AUTHORIZED", "COMPLETED", "tool_effect")?,
            Code::StateInvalidTransition,
        ),
        (
            "a second decision after the call",
            whole()?.truncate(3).claim("EXECUTING", "AUTHORIZED", "supervisor_decision")?,
            Code::StateInvalidTransition,
        ),
        ("a call without its id", whole()?.forge(3, &null)?, Code::MissingToolCallId),
        (
            "an effect without the id of its call",
            whole()?.forge(4, &null)?,
            Code::MissingToolCallId,
        ),
        (
            "an effect with another key than its call",
            whole()?.forge(4, &[("idempotency_key", json!("another"))])?,
            Code::StateChecksumMismatch,
        ),
        (
            "a schema_id that is unknown",
            whole()?.forge(2, &[("schema_id", json!("talos.tga.other"))])?,
            Code::StateChecksumMismatch,
        ),
    ];
    let recovery = [
        (
            "no effect is recorded: the same call is dispatched again",
            whole()?.truncate(3),
            ["RE_DISPATCH_SAME_TOOL_CALL", "COMPLETED_OR_FAILED"],
            true,
        ),
        (
            "the effect is recorded: nothing is dispatched",
            whole()?,
            ["REPLAY_ONLY_NO_DISPATCH", "COMPLETED"],
            false,
        ),
    ];
    let valid: Vec<Value> = valid
        .into_iter()
        .map(|(description, raw)| {
            json!({ "description": description, "entries": raw.0, "should_pass": true })
        })
        .collect();
    let invalid: Vec<Value> = invalid
        .into_iter()
        .map(|(description, raw, code)| {
            json!({
                "description": description,
                "entries": raw.0,
                "should_pass": false,
                "expected_error": code,
            })
        })
        .collect();
    let recovery: Vec<Value> = recovery
        .into_iter()
        .map(|(description, raw, [action, state], enforced)| {
            json!({
                "description": description,
                "initial_log": raw.0,
                "recovery_action": action,
                "expected_state_after_recovery": state,
                "idempotency_enforced": enforced,
            })
        })
        .collect();
    let sections = [
        ("valid_transitions", valid),
        ("invalid_transitions", invalid),
        ("recovery_vectors", recovery),
    ];
    Ok(sections.into_iter().map(|(name, rows)| (name.to_owned(), Value::Array(rows))).collect())
}
