//! What `bd` prints, read tolerantly: its envelope and its fields differ from version to version.

use serde_json::{Map, Value};
use windlass_kernel::Timestamp;

use crate::limits::is_id;
use crate::{Item, Kind, Status};

/// The fields that an envelope may have its contents in.
const ENVELOPES: [&str; 6] = ["data", "issues", "issue", "result", "results", "closed"];
/// How deep envelopes may be in each other.
const ENVELOPE_DEPTH_MAX: usize = 4;
/// At so many places of the output a value is looked for.
const CANDIDATES_MAX: usize = 64;
/// The kinds of dependencies that block.
const BLOCKING: [&str; 3] = ["blocks", "conditional-blocks", "waits-for"];

/// Finds the JSON in what a program printed: other lines may stand before and after it.
pub fn find_value(output: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(output);
    let mut at = 0;
    let starts = text.split_inclusive('\n').filter_map(|line| {
        let start = at;
        at += line.len();
        let first = line.trim_start();
        first.starts_with(['{', '[']).then_some(start)
    });
    starts.take(CANDIDATES_MAX).find_map(|start| {
        let rest = text.get(start..)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let value = values.next()?.ok()?;
        // An answer has its last line to itself; `[] were found` is a sentence.
        let behind = rest.get(values.byte_offset()..)?.lines().next().unwrap_or_default();
        if !behind.trim().is_empty() {
            return None;
        }
        // A log line such as `[1] started` begins like JSON, but is not an answer.
        let plain = |value: &Value| !value.is_object() && !value.is_array();
        match &value {
            Value::Array(values) if !values.is_empty() && values.iter().all(plain) => None,
            Value::Array(_) | Value::Object(_) => Some(value),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    })
}

/// The message of an answer that is an error.
pub fn error_message(value: &Value) -> Option<String> {
    let error = [value.get("error"), value.pointer("/data/error")].into_iter().flatten().next()?;
    match error {
        Value::String(message) if !message.is_empty() => Some(message.clone()),
        Value::Object(error) => {
            Some(error.get("message").and_then(Value::as_str).unwrap_or("unknown").to_owned())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}

/// An item of `bd`, and of what is not in [`Item`] what is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub item: Item,
    /// Whether each of the blockers is known to be open.
    pub blockers_known: bool,
}

/// The items of an answer; `None` if it is no list of items.
pub fn items(value: &Value) -> Option<Vec<Found>> {
    items_in(value, ENVELOPE_DEPTH_MAX)
}

fn items_in(value: &Value, depth: usize) -> Option<Vec<Found>> {
    match value {
        Value::Array(values) => {
            let found: Vec<_> = values.iter().filter_map(item).collect();
            let strangers = found.is_empty() && !values.is_empty();
            // Deleted items are left out; anything else that is not an item is not our list.
            (!strangers || values.iter().all(is_deleted)).then_some(found)
        }
        Value::Object(map) if map.get("id").is_some_and(Value::is_string) => {
            Some(item(value).into_iter().collect())
        }
        Value::Object(map) => {
            let depth = depth.checked_sub(1)?;
            let inner = ENVELOPES.iter().filter_map(|name| map.get(*name)).next()?;
            if inner.is_null() { Some(Vec::new()) } else { items_in(inner, depth) }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn is_deleted(value: &Value) -> bool {
    value.get("status").and_then(Value::as_str) == Some("tombstone")
}

fn text<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    map.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn item(value: &Value) -> Option<Found> {
    let map = value.as_object()?;
    let id = text(map, "id").filter(|id| is_id(id))?;
    let status = status(text(map, "status"))?;
    let time = |name: &str| text(map, name).and_then(utc);
    let created_at = time("created_at").unwrap_or_else(|| Timestamp::EPOCH.to_string());
    let closed = status == Status::Closed;
    let updated_at = time("updated_at").unwrap_or_else(|| created_at.clone());
    let mut found = Found {
        item: Item {
            id: id.to_owned(),
            title: text(map, "title").unwrap_or_default().to_owned(),
            kind: kind(text(map, "issue_type").or_else(|| text(map, "type"))),
            status,
            assignee: text(map, "assignee").map(str::to_owned),
            priority: map.get("priority").map_or(2, priority),
            description: text(map, "description").unwrap_or_default().to_owned(),
            labels: strings(map.get("labels")),
            blockers: Vec::new(),
            links: Vec::new(),
            closed_at: time("closed_at").filter(|_| closed),
            close_reason: text(map, "close_reason").filter(|_| closed).map(str::to_owned),
            created_at,
            updated_at,
        },
        blockers_known: true,
    };
    found.item.labels.sort_unstable();
    if let Some(parent) = text(map, "parent").filter(|parent| is_id(parent)) {
        found.item.links.push(format!("parent:{parent}"));
    }
    for dependency in array(map.get("dependencies")) {
        found.add_dependency(dependency);
    }
    for dependent in array(map.get("dependents")) {
        found.add_dependent(dependent);
    }
    if map.contains_key("blocked_by") {
        found.item.blockers =
            strings(map.get("blocked_by")).into_iter().filter(|id| is_id(id)).collect();
        found.blockers_known = true;
    }
    found.item.links.sort_unstable();
    found.item.links.dedup();
    Some(found)
}

impl Found {
    /// Adds an item that this one depends on. In `bd show` it is the whole item with its kind of
    /// dependency, in `bd list` only the two ids and the kind.
    fn add_dependency(&mut self, value: &Value) {
        let Some(map) = value.as_object() else { return };
        let whole = text(map, "dependency_type");
        let kind = whole.or_else(|| text(map, "type")).unwrap_or("blocks");
        let other = if whole.is_some() { text(map, "id") } else { text(map, "depends_on_id") };
        let Some(other) = other.filter(|other| is_id(other)) else { return };
        if BLOCKING.contains(&kind) {
            match (whole, text(map, "status")) {
                (Some(_), Some("closed")) => self.item.links.push(format!("blocked-by:{other}")),
                (Some(_), _) => self.item.blockers.push(other.to_owned()),
                (None, _) => {
                    self.blockers_known = false;
                    self.item.blockers.push(other.to_owned());
                }
            }
        } else if kind == "parent-child" {
            self.item.links.push(format!("parent:{other}"));
        } else {
            self.item.links.push(format!("related:{other}"));
        }
    }

    /// Adds an item that depends on this one.
    fn add_dependent(&mut self, value: &Value) {
        let Some(map) = value.as_object() else { return };
        let Some(other) = text(map, "id").filter(|other| is_id(other)) else { return };
        let kind = text(map, "dependency_type").unwrap_or("blocks");
        let name = match kind {
            "parent-child" => "child",
            kind if BLOCKING.contains(&kind) => "blocks",
            _ => "related",
        };
        self.item.links.push(format!("{name}:{other}"));
    }
}

fn array(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn strings(value: Option<&Value>) -> Vec<String> {
    array(value)
        .filter_map(|value| value.as_str().or_else(|| value.get("id").and_then(Value::as_str)))
        .map(str::to_owned)
        .collect()
}

/// A number, or a text such as `P1`.
fn priority(value: &Value) -> u8 {
    let number = value.as_u64().or_else(|| {
        let text = value.as_str()?;
        text.strip_prefix(['P', 'p']).unwrap_or(text).parse().ok()
    });
    number.and_then(|number| u8::try_from(number).ok()).map_or(2, |number| number.min(4))
}

/// The status, as near as it can be told; `None` for a deleted item.
fn status(text: Option<&str>) -> Option<Status> {
    match text {
        Some("in_progress" | "hooked") => Some(Status::InProgress),
        Some("blocked" | "deferred") => Some(Status::Blocked),
        Some("closed") => Some(Status::Closed),
        Some("tombstone") => None,
        Some(_) | None => Some(Status::Open),
    }
}

/// The kind, as near as it can be told: users may define others.
fn kind(text: Option<&str>) -> Kind {
    text.and_then(|text| text.parse().ok()).unwrap_or(Kind::Task)
}

/// A time of RFC 3339 in our form: UTC, with milliseconds.
fn utc(text: &str) -> Option<String> {
    let (seconds, rest) = text.split_at_checked(19)?;
    let seconds = seconds.replacen([' ', 't'], "T", 1);
    let digits = rest.strip_prefix('.').unwrap_or_default();
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    let zone = rest.trim_start_matches(|char: char| char == '.' || char.is_ascii_digit());
    let thousandths: String = digits.chars().chain("000".chars()).take(3).collect();
    let local: Timestamp = format!("{seconds}.{thousandths}Z").parse().ok()?;
    let offset_ms = match zone.as_bytes() {
        [b'Z' | b'z'] | [] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let number = |tens: &u8, ones: &u8| {
                let (tens, ones) =
                    (char::from(*tens).to_digit(10)?, char::from(*ones).to_digit(10)?);
                Some(i64::from(tens * 10 + ones))
            };
            let minutes = number(h1, h2)? * 60 + number(m1, m2)?;
            if *sign == b'-' { -minutes * 60_000 } else { minutes * 60_000 }
        }
        _ => return None,
    };
    let utc = Timestamp::from_unix_ms(local.unix_ms().checked_sub(offset_ms)?).ok()?;
    Some(utc.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_found_among_other_lines() {
        for output in [
            "[{\"id\":\"a-1\"}]",
            "warning: old database\n[{\"id\":\"a-1\"}]\n",
            "[1] daemon started\n[info] x\n  [\n {\"id\":\"a-1\"}]\nNOTE: done",
            "{broken\n[{\"id\":\"a-1\"}]",
        ] {
            assert_eq!(find_value(output.as_bytes()), Some(json!([{ "id": "a-1" }])), "{output}");
        }
        assert_eq!(find_value(b"[]\n"), Some(json!([])));
        let deep = "[".repeat(100_000);
        for output in ["", "no json", "[1]", "\u{0}\u{1}", deep.as_str()] {
            assert_eq!(find_value(output.as_bytes()), None);
        }
        assert_eq!(find_value(&[0xff; 1000]), None);
    }

    #[test]
    fn every_envelope_is_opened() {
        let one = json!({ "id": "a-1", "title": "T", "unknown": { "x": 1 } });
        for value in [
            json!([one]),
            one.clone(),
            json!({ "schema_version": 1, "data": [one] }),
            json!({ "schema_version": 1, "data": one }),
            json!({ "issues": [one], "total": 1 }),
            json!({ "result": { "issues": [one] } }),
            json!({ "closed": [one], "unblocked": [] }),
        ] {
            let found = items(&value).unwrap();
            assert_eq!(found.len(), 1, "{value}");
            assert_eq!((found[0].item.id.as_str(), found[0].item.title.as_str()), ("a-1", "T"));
        }
        for value in [json!([]), json!({ "data": [] }), json!({ "data": null })] {
            assert_eq!(items(&value), Some(Vec::new()), "{value}");
        }
        assert_eq!(items(&json!([{ "id": "a-1", "status": "tombstone" }])), Some(Vec::new()));
        for value in [json!([1]), json!({}), json!([{ "id": "--all" }]), json!("x")] {
            assert_eq!(items(&value), None, "{value}");
        }
    }

    #[test]
    fn an_item_of_show_is_read_in_full() {
        let value = json!([{
            "id": "bd-2", "title": "T", "issue_type": "bug", "status": "in_progress",
            "priority": 1, "assignee": "ann", "description": "D", "labels": ["b", "a"],
            "created_at": "2025-10-16T13:45:12.123456789-07:00",
            "updated_at": "2025-10-16T21:00:00Z",
            "dependencies": [
                { "id": "bd-1", "status": "open", "dependency_type": "blocks" },
                { "id": "bd-0", "status": "closed", "dependency_type": "blocks" },
                { "id": "bd-9", "status": "open", "dependency_type": "parent-child" },
                { "id": "bd-8", "status": "open", "dependency_type": "discovered-from" },
            ],
            "dependents": [
                { "id": "bd-3", "dependency_type": "blocks" },
                { "id": "bd-4", "dependency_type": "parent-child" },
            ],
            "parent": "bd-9",
        }]);
        let expected = Item {
            id: "bd-2".to_owned(),
            title: "T".to_owned(),
            kind: Kind::Bug,
            status: Status::InProgress,
            assignee: Some("ann".to_owned()),
            priority: 1,
            description: "D".to_owned(),
            labels: vec!["a".to_owned(), "b".to_owned()],
            blockers: vec!["bd-1".to_owned()],
            links: ["blocked-by:bd-0", "blocks:bd-3", "child:bd-4", "parent:bd-9", "related:bd-8"]
                .map(str::to_owned)
                .to_vec(),
            created_at: "2025-10-16T20:45:12.123Z".to_owned(),
            updated_at: "2025-10-16T21:00:00.000Z".to_owned(),
            closed_at: None,
            close_reason: None,
        };
        let found = Found { item: expected, blockers_known: true };
        assert_eq!(items(&value), Some(vec![found]));
    }

    #[test]
    fn odd_fields_do_not_lose_an_item() {
        let value = json!([{
            "id": "bd-2", "title": null, "issue_type": "molecule", "status": "pinned",
            "priority": "P0", "labels": null, "created_at": "yesterday", "closed_at": 7,
            "dependencies": [1, { "issue_id": "bd-2", "depends_on_id": "bd-1", "type": "blocks" }],
        }]);
        let found = items(&value).unwrap().pop().unwrap();
        assert!(!found.blockers_known);
        assert_eq!(found.item.blockers, ["bd-1"]);
        assert_eq!((found.item.kind, found.item.status), (Kind::Task, Status::Open));
        assert_eq!((found.item.priority, found.item.title.as_str()), (0, ""));
        assert_eq!(found.item.created_at, "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn errors_are_recognised() {
        let told = |value: Value| error_message(&value);
        assert_eq!(told(json!({ "error": "no", "schema_version": 1 })), Some("no".to_owned()));
        assert_eq!(told(json!({ "data": { "error": "no" } })), Some("no".to_owned()));
        assert_eq!(told(json!({ "error": { "message": "no" } })), Some("no".to_owned()));
        for value in [json!([]), json!({ "error": null }), json!({ "error": "" }), json!({})] {
            assert_eq!(told(value), None);
        }
    }
}
