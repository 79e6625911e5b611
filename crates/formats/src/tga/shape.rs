//! The fields of upstream artifacts, and the values that they may have.

use serde_json::{Map, Value};
use windlass_kernel::{ArtifactType, Digest, INTENT_CHARS, KEY_CHARS_MAX, Timestamp, Uuid7};

use super::{ALGORITHM_FIELD, DIGEST_FIELD};

/// The longest rationale, in characters.
pub(super) const RATIONALE_CHARS_MAX: usize = 2000;
/// The longest summary of an effect, in characters.
pub(super) const SUMMARY_CHARS_MAX: usize = 5000;

/// A field: its name, its requirement in words, and the check.
type Field = (&'static str, &'static str, fn(&Value) -> bool);

const ID: &str = "a UUID of version 7";
const DIGEST: &str = "64 lower-case hex digits";
const TEXT: &str = "a text";
const SCALARS: &str = "an object of texts, numbers and booleans";
const CALL: &str = "a server and a tool of a-z, 0-9, `_` and `-`, and an object of arguments";

/// The fields that every artifact must have.
const COMMON: [Field; 7] = [
    ("schema_id", TEXT, Value::is_string),
    ("schema_version", TEXT, Value::is_string),
    ("trace_id", ID, is_id),
    ("plan_id", ID, is_id),
    ("ts", "a time in UTC with milliseconds", is_time),
    (ALGORITHM_FIELD, TEXT, Value::is_string),
    (DIGEST_FIELD, DIGEST, is_digest),
];
/// A field that every artifact may have.
const META: Field = ("meta", SCALARS, is_meta);

const REQUEST: [Field; 6] = [
    ("action_request_id", ID, is_id),
    ("agent_id", ID, is_id),
    ("risk_level", "READ, WRITE or HIGH_RISK", |value| {
        is_one_of(value, &["READ", "WRITE", "HIGH_RISK"])
    }),
    ("intent", "10 to 1000 characters long", |value| {
        has_chars(value, *INTENT_CHARS.start(), *INTENT_CHARS.end())
    }),
    ("resources", "a list of kinds (repo, doc, service or db) and ids", is_resources),
    ("proposal", CALL, is_call),
];
const KEY: Field =
    ("idempotency_key", "1 to 255 characters long", |value| has_chars(value, 1, KEY_CHARS_MAX));
const DECISION: [Field; 4] = [
    ("supervisor_decision_id", ID, is_id),
    ("action_request_id", ID, is_id),
    ("action_request_digest", DIGEST, is_digest),
    ("decision", "APPROVE, DENY, NEEDS_APPROVAL or REQUEST_CHANGES", |value| {
        is_one_of(value, &["APPROVE", "DENY", "NEEDS_APPROVAL", "REQUEST_CHANGES"])
    }),
];
const DECISION_MAY: [Field; 2] = [
    ("rationale", "at most 2000 characters long", |value| has_chars(value, 0, RATIONALE_CHARS_MAX)),
    ("minted_capability", TEXT, Value::is_string),
];
const TOOL_CALL: [Field; 6] = [
    ("tool_call_id", ID, is_id),
    ("supervisor_decision_id", ID, is_id),
    ("supervisor_decision_digest", DIGEST, is_digest),
    ("capability_digest", DIGEST, is_digest),
    ("call", CALL, is_call),
    KEY,
];
const EFFECT: [Field; 4] = [
    ("tool_effect_id", ID, is_id),
    ("tool_call_id", ID, is_id),
    ("tool_call_digest", DIGEST, is_digest),
    (
        "outcome",
        "a status (SUCCESS, FAILURE or ERROR) and a summary of at most 5000 characters",
        is_outcome,
    ),
];

/// Checks that an artifact has the fields of its type and no others.
///
/// # Errors
/// A sentence about the first field that is missing, unknown or wrong.
pub(super) fn check(artifact_type: ArtifactType, body: &Value) -> Result<(), String> {
    let (must, may): (&[Field], &[Field]) = match artifact_type {
        ArtifactType::ActionRequest => (&REQUEST, &[KEY]),
        ArtifactType::SupervisorDecision => (&DECISION, &DECISION_MAY),
        ArtifactType::ToolCall => (&TOOL_CALL, &[]),
        ArtifactType::ToolEffect => (&EFFECT, &[]),
        ArtifactType::RunEvent | ArtifactType::GrantEvent | ArtifactType::NotificationEvent => {
            return Err("there is no such artifact in this form".to_owned());
        }
    };
    let empty = Map::new();
    let fields = body.as_object().unwrap_or(&empty);
    let required = || COMMON.iter().chain(must);
    if let Some((name, ..)) = required().find(|(name, ..)| !fields.contains_key(*name)) {
        return Err(format!("the artifact has no `{name}`"));
    }
    for (name, value) in fields {
        let known = required().chain(may).chain([&META]).find(|(known, ..)| known == name);
        let Some((name, requirement, is_right)) = known else {
            return Err(format!("the artifact has an unknown field `{name}`"));
        };
        if !is_right(value) {
            return Err(format!("the artifact's `{name}` must be {requirement}"));
        }
    }
    if fields.contains_key("minted_capability") && fields.get("decision") != Some(&"APPROVE".into())
    {
        return Err("the artifact mints a capability without an approval".to_owned());
    }
    Ok(())
}

fn is_id(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<Uuid7>().is_ok())
}

fn is_digest(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<Digest>().is_ok())
}

fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<Timestamp>().is_ok())
}

fn is_one_of(value: &Value, names: &[&str]) -> bool {
    value.as_str().is_some_and(|text| names.contains(&text))
}

fn has_chars(value: &Value, min: usize, max: usize) -> bool {
    value.as_str().is_some_and(|text| (min..=max).contains(&text.chars().count()))
}

fn is_meta(value: &Value) -> bool {
    let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
    value.as_object().is_some_and(|fields| fields.values().all(is_scalar))
}

/// Whether an object has a text of at least one character under this name.
fn has_text(value: &Value, name: &str) -> bool {
    value.get(name).is_some_and(|text| has_chars(text, 1, usize::MAX))
}

fn is_resources(value: &Value) -> bool {
    let kinds = ["repo", "doc", "service", "db"];
    let is_resource = |one: &Value| {
        one.get("kind").is_some_and(|kind| is_one_of(kind, &kinds)) && has_text(one, "id")
    };
    value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(is_resource))
}

fn is_call(value: &Value) -> bool {
    let is_name = |name: &str| {
        let text = value.get(name).and_then(Value::as_str);
        text.is_some_and(|text| {
            let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
            !text.is_empty() && text.bytes().all(is_plain)
        })
    };
    value.as_object().is_some_and(|fields| fields.len() == 3)
        && is_name("tool_server")
        && is_name("tool_name")
        && value.get("args").is_some_and(Value::is_object)
}

fn is_outcome(value: &Value) -> bool {
    let status = value.get("status");
    let summary = value.get("summary");
    status.is_some_and(|status| is_one_of(status, &["SUCCESS", "FAILURE", "ERROR"]))
        && summary.is_some_and(|summary| has_chars(summary, 0, SUMMARY_CHARS_MAX))
}
