//! What recovery does with an interrupted call, and which checkpoints it may start from.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use windlass_kernel::{
    Code, Digest, PlanId, ReplayPoint, ReplayPointState, SCHEMA_VERSION, State, canon,
};

use super::fixture::{Call, id, named, time};

/// Every combination of a recorded state and a rule, around the limit of retries.
pub fn plans() -> Value {
    let mut rows = Vec::new();
    let chains = [
        None,
        Some("pending"),
        Some("authorized"),
        Some("executing"),
        Some("completed"),
        Some("failed"),
        Some("denied"),
    ];
    for chain in chains {
        for rule in ["probe", "retry", "compensate", "hold"] {
            for (redispatches, retries_max) in [(0, 3), (2, 3), (3, 3), (4, 3), (0, 0)] {
                rows.push(json!({
                    "chain": chain,
                    "on_uncertain": rule,
                    "redispatches": redispatches,
                    "retries_max": retries_max,
                    "plan": plan(chain, rule, redispatches < retries_max),
                }));
            }
        }
    }
    Value::Array(rows)
}

/// The expected plan: written by hand, not computed by the kernel.
fn plan(chain: Option<&str>, rule: &str, may_retry: bool) -> &'static str {
    match (chain, rule) {
        (Some("pending"), _) => "judge",
        (Some("authorized"), _) => "start",
        (Some("executing"), "probe") => "probe",
        (Some("executing"), "compensate") => "compensate",
        (Some("executing"), "retry") if may_retry => "redispatch",
        (Some("executing"), _) => "hold",
        // Nothing is recorded, or the effect is: there is nothing to dispatch.
        _ => "nothing",
    }
}

/// Valid and invalid checkpoints, each with the entries that it is compared with.
pub fn checkpoints(calls: &[Call]) -> Result<Value> {
    let mut rows = Vec::new();
    for name in ["completed", "failed", "denied"] {
        let chain = named(calls, name)?;
        for at in 1..=chain.entries.len() {
            rows.push(row(
                &format!("{name}-{at}"),
                name,
                at,
                json!(replay_point(chain, at)?),
                None,
            ));
        }
    }
    let chain = named(calls, "completed")?;
    let good = json!(replay_point(chain, 3)?);
    let other = json!(Digest::of(b"something else"));
    let tampered = [
        ("state-changed", "/checkpoint_state/current_state", json!("AUTHORIZED")),
        ("trace-changed", "/checkpoint_state/trace_id", json!(id(5, 0))),
        ("plan-changed", "/checkpoint_state/plan_id", json!(id(5, 10))),
        ("entry-digest-changed", "/checkpoint_state/last_entry_digest", other.clone()),
        ("number-in-the-state-changed", "/checkpoint_state/last_sequence_number", json!(4)),
        ("digest-changed", "/checkpoint_digest", other.clone()),
        ("sequence-number-differs", "/checkpoint_sequence_number", json!(2)),
        ("trace-differs", "/trace_id", json!(id(5, 0))),
        ("schema-version", "/schema_version", json!("v2")),
        ("schema-id", "/schema_id", json!("tga.execution_state")),
        ("upper-case-digest", "/checkpoint_digest", json!("A".repeat(64))),
        ("timestamp", "/ts", json!("2026-01-01T00:00:00Z")),
        ("unknown-field", "/note", json!("kindly ignore me")),
        ("unknown-field-in-the-state", "/checkpoint_state/note", Value::Null),
    ];
    for (name, pointer, value) in tampered {
        let changed = set(&good, pointer, value)?;
        rows.push(row(name, "completed", 3, changed, Some(Code::StateChecksumMismatch)));
    }
    // Consistent in themselves, but different from the entries.
    let forged = [
        ("forged-state", "current_state", json!("COMPLETED")),
        ("forged-trace", "trace_id", json!(id(5, 0))),
        ("forged-entry-digest", "last_entry_digest", other),
        ("forged-state-of-a-run", "current_state", json!("RUNNING")),
    ];
    for (name, field, value) in forged {
        let changed = set(&good, &format!("/checkpoint_state/{field}"), value)?;
        let state = changed.pointer("/checkpoint_state").context("a checkpoint has a state")?;
        let redigested = set(&changed, "/checkpoint_digest", json!(canon::digest(state)?))?;
        rows.push(row(name, "completed", 3, redigested, Some(Code::StateChecksumMismatch)));
    }
    rows.push(row(
        "of-a-later-entry",
        "completed",
        2,
        good.clone(),
        Some(Code::StateChecksumMismatch),
    ));
    rows.push(row(
        "of-an-earlier-entry",
        "completed",
        4,
        good.clone(),
        Some(Code::StateChecksumMismatch),
    ));
    rows.push(row("of-another-chain", "failed", 3, good, Some(Code::StateChecksumMismatch)));
    Ok(Value::Array(rows))
}

/// The replay point after the first `at` entries.
fn replay_point(chain: &Call, at: usize) -> Result<ReplayPoint> {
    let head = chain.heads.get(at).context("the chain has that entry")?;
    let plan_id = PlanId(id(4, 10));
    let state = ReplayPointState::of(head, plan_id).context("the chain has entries")?;
    Ok(ReplayPoint::new(state, time(4, 100)?))
}

fn set(value: &Value, pointer: &str, new: Value) -> Result<Value> {
    let mut value = value.clone();
    let (parent, field) = pointer.rsplit_once('/').context("a pointer has a slash")?;
    let parent = value.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.context("the parent is an object")?.insert(field.to_owned(), new);
    Ok(value)
}

fn row(name: &str, chain: &str, at: usize, checkpoint: Value, code: Option<Code>) -> Value {
    json!({
        "name": name,
        "chain": chain,
        "entries_applied": at,
        "checkpoint": checkpoint,
        "expect": { "valid": code.is_none(), "error_code": code },
    })
}

/// Execution states of traces.
pub fn states(calls: &[Call]) -> Result<Value> {
    let mut rows = Vec::new();
    for (name, at) in [("completed", 0), ("completed", 1), ("completed", 4), ("denied", 2)] {
        let chain = named(calls, name)?;
        let head = chain.heads.get(at).context("the chain has that entry")?;
        let state = windlass_kernel::ExecutionState::of(head, PlanId(id(4, 10)));
        debug_assert_eq!(state.schema_version, SCHEMA_VERSION);
        debug_assert!(at > 0 || state.current_state == State::Pending);
        rows.push(json!({ "chain": name, "entries_applied": at, "state": state }));
    }
    Ok(Value::Array(rows))
}
