//! Chains that must be refused. The expected findings are written by hand, never computed.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use windlass_kernel::{Code, Digest, canon};

use super::fixture::{Call, id, named};

const GAP: Code = Code::StateSequenceGap;
const CHECKSUM: Code = Code::StateChecksumMismatch;
const TRANSITION: Code = Code::StateInvalidTransition;
const MISSING: Code = Code::MissingToolCallId;

/// Whether the schema alone refuses the wrong entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Every entry is valid by itself.
    Good,
    /// The entry at this place is not.
    Bad(usize),
}

/// Collects the cases.
struct Cases<'a> {
    calls: &'a [Call],
    rows: Vec<Value>,
}

/// Entries as raw JSON, to be damaged. Places count from 1, as sequence numbers do.
#[derive(Clone)]
pub(super) struct Raw(pub(super) Vec<Value>);

impl Raw {
    /// The entries of a valid chain.
    pub(super) fn of(calls: &[Call], name: &str) -> Result<Self> {
        let entries = &named(calls, name)?.entries;
        Ok(Self(entries.iter().map(serde_json::to_value).collect::<Result<_, _>>()?))
    }

    /// The number of entries.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    fn at(&mut self, place: usize) -> Result<&mut Value> {
        self.0.get_mut(place - 1).with_context(|| format!("there is no entry {place}"))
    }

    /// Sets one field and leaves the digest as it is.
    pub(super) fn tamper(mut self, place: usize, field: &str, value: Value) -> Result<Self> {
        let entry = self.at(place)?.as_object_mut().context("an entry is an object")?;
        entry.insert(field.to_owned(), value);
        Ok(self)
    }

    pub(super) fn without(mut self, place: usize, field: &str) -> Result<Self> {
        self.at(place)?.as_object_mut().context("an entry is an object")?.remove(field);
        Ok(self)
    }

    /// Recomputes the entry's digest.
    fn redigest(mut self, place: usize) -> Result<Self> {
        let entry = self.at(place)?.as_object_mut().context("an entry is an object")?;
        entry.remove("entry_digest");
        // An entry without a canonical form gets some well-formed digest.
        let digest = canon::digest(entry).unwrap_or(Digest::of(b"no canonical form"));
        entry.insert("entry_digest".to_owned(), json!(digest));
        Ok(self)
    }

    /// Recomputes the numbers, links and digests of all entries from `place` on, so that only their
    /// content is wrong.
    pub(super) fn relink(mut self, place: usize) -> Result<Self> {
        for at in place..=self.0.len() {
            let before = match at {
                1 => json!(Digest::GENESIS),
                _ => self.at(at - 1)?.get("entry_digest").cloned().unwrap_or_default(),
            };
            self = self.tamper(at, "prev_entry_digest", before)?;
            self = self.tamper(at, "sequence_number", json!(at))?.redigest(at)?;
        }
        Ok(self)
    }

    /// Sets fields of one entry and recomputes all digests.
    pub(super) fn forge(mut self, place: usize, fields: &[(&str, Value)]) -> Result<Self> {
        for (field, value) in fields {
            self = self.tamper(place, field, value.clone())?;
        }
        self.relink(place)
    }

    /// Sets one field of one entry and recomputes its digest, but not the links after it.
    fn set_and_redigest(self, place: usize, field: &str, value: Value) -> Result<Self> {
        self.tamper(place, field, value)?.redigest(place)
    }

    pub(super) fn truncate(mut self, length: usize) -> Self {
        self.0.truncate(length);
        self
    }

    pub(super) fn drop(mut self, place: usize) -> Self {
        self.0.remove(place - 1);
        self
    }

    pub(super) fn copy(mut self, from: usize, to: usize) -> Result<Self> {
        let entry = self.at(from)?.clone();
        self.0.insert(to - 1, entry);
        Ok(self)
    }

    fn swap(mut self, one: usize, other: usize) -> Self {
        self.0.swap(one - 1, other - 1);
        self
    }

    /// Appends an entry that claims a transition, with correct links and digests.
    pub(super) fn claim(self, from: &str, to: &str, artifact: &str) -> Result<Self> {
        let place = self.0.len() + 1;
        let fields = step(from, to, artifact);
        let mut more = self.copy(place - 1, place)?.forge(place, &fields)?;
        if to == "EXECUTING" {
            more = more.forge(place, &[("tool_call_id", json!(id(4, 20)))])?;
        }
        Ok(more)
    }
}

fn step(from: &str, to: &str, artifact: &str) -> [(&'static str, Value); 3] {
    [("from_state", json!(from)), ("to_state", json!(to)), ("artifact_type", json!(artifact))]
}

impl Cases<'_> {
    fn raw(&self, name: &str) -> Result<Raw> {
        Raw::of(self.calls, name)
    }

    fn add(
        &mut self,
        name: &str,
        raw: Result<Raw>,
        code: Code,
        point: u64,
        shape: Shape,
    ) -> Result<()> {
        let raw = raw.with_context(|| format!("make the chain `{name}`"))?;
        self.rows.push(json!({
            "name": name,
            "entries": raw.0,
            "schema_invalid_at": match shape {
                Shape::Good => Value::Null,
                Shape::Bad(place) => json!(place),
            },
            "expect": { "chain_valid": false, "error_code": code, "divergence_point": point },
        }));
        Ok(())
    }
}

/// The chains that must be refused.
pub fn chains(calls: &[Call]) -> Result<Value> {
    let mut cases = Cases { calls, rows: Vec::new() };
    order(&mut cases)?;
    digests(&mut cases)?;
    transitions(&mut cases)?;
    tool_calls(&mut cases)?;
    shapes(&mut cases)?;
    Ok(Value::Array(cases.rows))
}

/// Entries that are missing, repeated or out of order.
fn order(cases: &mut Cases<'_>) -> Result<()> {
    use Shape::{Bad, Good};
    let whole = || cases.raw("completed");
    let rows = [
        ("gap", whole().map(|raw| raw.drop(2)), 2, Good),
        ("gap-before-the-last", whole().map(|raw| raw.drop(3)), 3, Good),
        ("duplicate-sequence", whole()?.copy(2, 3), 3, Good),
        ("duplicate-last", whole()?.copy(4, 5), 5, Good),
        ("duplicate-first", whole()?.copy(1, 2), 2, Good),
        ("reordered", whole().map(|raw| raw.swap(2, 3)), 2, Good),
        ("reversed", whole().map(|raw| raw.swap(1, 4).swap(2, 3)), 1, Good),
        ("starts-at-2", whole().map(|raw| raw.drop(1)), 1, Good),
        (
            "starts-at-0",
            whole()?.truncate(1).set_and_redigest(1, "sequence_number", json!(0)),
            1,
            Bad(1),
        ),
        ("skips-a-number", whole()?.set_and_redigest(4, "sequence_number", json!(5)), 4, Good),
        (
            "largest-safe-sequence-number",
            whole()?.set_and_redigest(2, "sequence_number", json!(canon::INTEGER_MAX)),
            2,
            Good,
        ),
    ];
    for (name, raw, point, shape) in rows {
        cases.add(name, raw, GAP, point, shape)?;
    }
    Ok(())
}

/// Digests that do not match what they cover.
fn digests(cases: &mut Cases<'_>) -> Result<()> {
    use Shape::{Bad, Good};
    let other = || json!(Digest::of(b"something else"));
    let whole = || cases.raw("completed");
    let rows = [
        ("wrong-prev-digest", whole()?.set_and_redigest(2, "prev_entry_digest", other()), 2, Good),
        (
            "first-prev-digest-is-not-zero",
            whole()?.set_and_redigest(1, "prev_entry_digest", other()),
            1,
            Good,
        ),
        ("prev-digest-unsealed", whole()?.tamper(3, "prev_entry_digest", other()), 3, Good),
        ("tampered-ts", whole()?.tamper(2, "ts", json!("2026-01-01T00:00:04.035Z")), 2, Good),
        ("tampered-artifact-digest", whole()?.tamper(4, "artifact_digest", other()), 4, Good),
        (
            "tampered-idempotency-key",
            whole()?.tamper(1, "idempotency_key", json!("key-5")),
            1,
            Good,
        ),
        ("removed-idempotency-key", whole()?.tamper(3, "idempotency_key", Value::Null), 3, Good),
        ("tampered-tool-call-id", whole()?.tamper(3, "tool_call_id", json!(id(4, 21))), 3, Good),
        ("added-tool-call-id", whole()?.tamper(2, "tool_call_id", json!(id(4, 20))), 2, Good),
        ("tampered-artifact-id", whole()?.tamper(2, "artifact_id", json!(id(4, 21))), 2, Good),
        ("tampered-outcome", whole()?.tamper(4, "to_state", json!("FAILED")), 4, Good),
        ("tampered-schema-id", whole()?.tamper(2, "schema_id", json!("tga.other")), 2, Bad(2)),
        ("tampered-entry-digest", whole()?.tamper(2, "entry_digest", other()), 2, Good),
        ("tampered-last-entry-digest", whole()?.tamper(4, "entry_digest", other()), 4, Good),
        (
            "key-in-another-normal-form",
            cases.raw("unicode-key")?.tamper(
                1,
                "idempotency_key",
                json!("clé-鍵-ключ-\u{1f511}-\u{e9}"),
            ),
            1,
            Good,
        ),
        (
            "tampered-then-redigested",
            whole()?.set_and_redigest(2, "ts", json!("2026-01-01T00:00:04.035Z")),
            3,
            Good,
        ),
        ("foreign-trace", whole()?.forge(2, &[("trace_id", json!(id(5, 0)))]), 2, Good),
        ("foreign-trace-at-the-end", whole()?.forge(4, &[("trace_id", json!(id(5, 0)))]), 4, Good),
    ];
    for (name, raw, point, shape) in rows {
        cases.add(name, raw, CHECKSUM, point, shape)?;
    }
    Ok(())
}

/// Transitions that the table does not have, with correct digests.
fn transitions(cases: &mut Cases<'_>) -> Result<()> {
    use Shape::{Bad, Good};
    const REQUEST: &str = "action_request";
    const DECISION: &str = "supervisor_decision";
    const CALL: &str = "tool_call";
    const EFFECT: &str = "tool_effect";
    // Name, the valid chain before it, the claim.
    let claims = [
        ("pending-to-executing", "pending", ("PENDING", "EXECUTING", CALL)),
        ("pending-to-completed", "pending", ("PENDING", "COMPLETED", EFFECT)),
        ("pending-to-failed", "pending", ("PENDING", "FAILED", EFFECT)),
        ("pending-to-pending-decision", "pending", ("PENDING", "PENDING", DECISION)),
        ("second-genesis", "pending", ("PENDING", "PENDING", REQUEST)),
        ("approved-by-a-tool-call", "pending", ("PENDING", "AUTHORIZED", CALL)),
        ("from-state-not-current", "pending", ("AUTHORIZED", "EXECUTING", CALL)),
        ("authorized-to-denied", "authorized", ("AUTHORIZED", "DENIED", DECISION)),
        ("authorized-to-completed", "authorized", ("AUTHORIZED", "COMPLETED", EFFECT)),
        ("authorized-to-pending", "authorized", ("AUTHORIZED", "PENDING", REQUEST)),
        ("approved-twice", "authorized", ("PENDING", "AUTHORIZED", DECISION)),
        ("started-by-an-effect", "authorized", ("AUTHORIZED", "EXECUTING", EFFECT)),
        ("executing-to-authorized", "executing", ("EXECUTING", "AUTHORIZED", DECISION)),
        ("executing-to-executing", "executing", ("EXECUTING", "EXECUTING", CALL)),
        ("completed-by-a-decision", "executing", ("EXECUTING", "COMPLETED", DECISION)),
        ("started-twice", "executing", ("AUTHORIZED", "EXECUTING", CALL)),
        ("after-completed", "completed", ("COMPLETED", "EXECUTING", CALL)),
        ("after-completed-stale-from-state", "completed", ("EXECUTING", "COMPLETED", EFFECT)),
        ("completed-then-failed", "completed", ("EXECUTING", "FAILED", EFFECT)),
        ("completed-again", "completed", ("COMPLETED", "COMPLETED", EFFECT)),
        ("after-denied", "denied", ("DENIED", "AUTHORIZED", DECISION)),
        ("after-denied-stale-from-state", "denied", ("PENDING", "AUTHORIZED", DECISION)),
        ("after-failed", "failed", ("FAILED", "EXECUTING", CALL)),
        ("after-failed-stale-from-state", "failed", ("EXECUTING", "COMPLETED", EFFECT)),
    ];
    for (name, before, (from, to, artifact)) in claims {
        let raw = cases.raw(before)?;
        let point = u64::try_from(raw.0.len() + 1)?;
        cases.add(name, raw.claim(from, to, artifact), TRANSITION, point, Good)?;
    }
    let first = |from, to, artifact| -> Result<Raw> {
        cases.raw("pending")?.forge(1, &step(from, to, artifact))
    };
    let rows = [
        ("genesis-to-authorized", first("PENDING", "AUTHORIZED", DECISION), Good),
        ("genesis-from-authorized", first("AUTHORIZED", "EXECUTING", CALL), Good),
        ("genesis-with-another-artifact", first("PENDING", "PENDING", DECISION), Good),
        ("genesis-executing-to-executing", first("EXECUTING", "EXECUTING", REQUEST), Good),
        ("genesis-of-both-machines", first("PENDING", "INIT", "run_event"), Bad(1)),
    ];
    for (name, raw, shape) in rows {
        cases.add(name, raw, TRANSITION, 1, shape)?;
    }
    let run = cases.raw("pending")?.claim("PENDING", "RUNNING", "run_event");
    cases.add("call-becomes-a-run", run, TRANSITION, 2, Bad(2))
}

/// Entries without the id of their call.
fn tool_calls(cases: &mut Cases<'_>) -> Result<()> {
    let whole = || cases.raw("completed");
    let failed = || cases.raw("failed");
    let null = [("tool_call_id", Value::Null)];
    let other = [("tool_call_id", json!(id(4, 21)))];
    let rows = [
        ("executing-without-tool-call-id", whole()?.forge(3, &null), 3, MISSING),
        ("completed-without-tool-call-id", whole()?.forge(4, &null), 4, MISSING),
        ("completed-with-another-tool-call-id", whole()?.forge(4, &other), 4, TRANSITION),
        ("failed-without-tool-call-id", failed()?.forge(4, &null), 4, MISSING),
        ("failed-with-another-tool-call-id", failed()?.forge(4, &other), 4, TRANSITION),
    ];
    for (name, raw, point, code) in rows {
        cases.add(name, raw, code, point, Shape::Good)?;
    }
    let absent = cases.raw("completed")?.without(3, "tool_call_id")?.relink(3);
    cases.add("absent-tool-call-id-of-a-call", absent, MISSING, 3, Shape::Good)?;
    let keys = [
        ("effect-with-another-key", json!("another")),
        ("effect-without-the-key-of-its-call", Value::Null),
    ];
    for (name, key) in keys {
        let raw = cases.raw("completed")?.forge(4, &[("idempotency_key", key)]);
        cases.add(name, raw, CHECKSUM, 4, Shape::Good)?;
    }
    Ok(())
}

/// Malformed entries, with digests as correct as they can be.
fn shapes(cases: &mut Cases<'_>) -> Result<()> {
    let v4 = "01890a5d-ac96-474b-bcce-b302099a8057";
    let upper = json!(Digest::of(b"body").to_string().to_uppercase());
    let short = json!("0".repeat(63));
    let fields = [
        ("unknown-field", 2, "note", json!("kindly ignore me")),
        ("unknown-field-null", 2, "note", Value::Null),
        ("upper-case-digest", 2, "artifact_digest", upper),
        ("short-digest", 2, "artifact_digest", short),
        ("uuid-v4", 2, "artifact_id", json!(v4)),
        ("uuid-v4-trace", 1, "trace_id", json!(v4)),
        ("upper-case-uuid", 3, "tool_call_id", json!("019B76DA-A800-7414-8000-00000000040B")),
        (
            "uuid-without-hyphens",
            2,
            "artifact_id",
            json!(v4.replace('-', "").replace("474b", "774b")),
        ),
        ("timestamp-without-milliseconds", 2, "ts", json!("2026-01-01T00:00:04Z")),
        ("timestamp-with-offset", 2, "ts", json!("2026-01-01T00:00:04.034+00:00")),
        ("timestamp-as-number", 2, "ts", json!(1_767_225_604_034_u64)),
        ("unknown-schema-id", 2, "schema_id", json!("tga.other")),
        ("schema-id-of-a-run", 1, "schema_id", json!("windlass.run_log_entry")),
        ("schema-id-of-other-entries", 2, "schema_id", json!("talos.tga.execution_log_entry")),
        ("wrong-schema-version", 2, "schema_version", json!("v2")),
        ("schema-version-as-number", 1, "schema_version", json!(1)),
        ("key-of-256-characters", 2, "idempotency_key", json!("k".repeat(256))),
        ("empty-key", 2, "idempotency_key", json!("")),
        ("key-as-number", 2, "idempotency_key", json!(7)),
        ("unsafe-sequence-number", 2, "sequence_number", json!(9_007_199_254_740_993_u64)),
        ("negative-sequence-number", 2, "sequence_number", json!(-1)),
        ("sequence-number-as-text", 2, "sequence_number", json!("2")),
        ("unknown-state", 2, "to_state", json!("APPROVED")),
        ("lower-case-state", 2, "to_state", json!("authorized")),
        ("unknown-artifact-type", 2, "artifact_type", json!("note")),
        ("null-trace", 2, "trace_id", Value::Null),
        ("null-state", 1, "from_state", Value::Null),
    ];
    for (name, place, field, value) in fields {
        let raw = cases.raw("completed")?.set_and_redigest(place, field, value);
        cases.add(name, raw, CHECKSUM, u64::try_from(place)?, Shape::Bad(place))?;
    }
    for (name, place, field) in [
        ("missing-artifact-id", 2, "artifact_id"),
        ("missing-sequence-number", 2, "sequence_number"),
        ("missing-schema-id", 1, "schema_id"),
    ] {
        let raw = cases.raw("completed-read")?.without(place, field)?.redigest(place);
        cases.add(name, raw, CHECKSUM, u64::try_from(place)?, Shape::Bad(place))?;
    }
    let undigested = cases.raw("completed")?.without(4, "entry_digest");
    cases.add("missing-entry-digest", undigested, CHECKSUM, 4, Shape::Bad(4))?;
    // A schema cannot detect that this day does not exist.
    let day = cases.raw("completed")?.set_and_redigest(2, "ts", json!("2026-02-30T00:00:00.000Z"));
    cases.add("timestamp-that-is-no-day", day, CHECKSUM, 2, Shape::Good)?;
    for (name, value) in [("entry-is-null", Value::Null), ("entry-is-text", json!("entry"))] {
        let mut raw = cases.raw("completed")?;
        *raw.at(2)? = value;
        cases.add(name, Ok(raw), CHECKSUM, 2, Shape::Bad(2))?;
    }
    Ok(())
}
