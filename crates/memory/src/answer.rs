//! What a memory server answers, read tolerantly: servers agree on neither names nor form.

use serde_json::{Map, Value};

use crate::Hit;

/// The fields that may have the list in them.
const LISTS: [&str; 10] = [
    "memories",
    "results",
    "result",
    "hits",
    "matches",
    "items",
    "documents",
    "data",
    "entities",
    "content",
];
/// The fields that may have the text.
const TEXTS: [&str; 5] = ["content", "text", "memory", "document", "value"];
const SCORES: [&str; 6] =
    ["score", "similarity", "similarity_score", "relevance", "relevance_score", "quality_score"];
const TIMES: [&str; 5] = ["stored_at", "created_at_iso", "created_at", "timestamp", "updated_at"];
const SOURCES: [&str; 5] = ["source", "id", "memory_id", "content_hash", "hash"];
const IDS: [&str; 5] = ["id", "memory_id", "content_hash", "hash", "uuid"];
/// How deep lists and texts may be in envelopes.
const DEPTH_MAX: usize = 4;

/// What was found, in the server's order.
pub fn hits(result: &Value, server: &str) -> Vec<Hit> {
    let structured = result.get("structuredContent");
    if let Some(found) = structured.and_then(|value| hits_in(value, server, DEPTH_MAX)) {
        return found;
    }
    texts(result).flat_map(|text| hits_of_text(text, server)).collect()
}

/// The id of what was stored; empty if the server names none.
pub fn stored_id(result: &Value) -> String {
    let parsed: Vec<Value> =
        texts(result).filter_map(|text| serde_json::from_str(text).ok()).collect();
    let candidates = result.get("structuredContent").into_iter().chain(&parsed);
    candidates.filter_map(|value| find_id(value, DEPTH_MAX)).next().unwrap_or_default()
}

/// Why the server did not do it, although its call succeeded.
pub fn refusal(result: &Value) -> Option<String> {
    let parsed: Vec<Value> =
        texts(result).filter_map(|text| serde_json::from_str(text).ok()).collect();
    let mut candidates = result.get("structuredContent").into_iter().chain(&parsed);
    candidates.find_map(|value| {
        let map = value.as_object()?;
        let failed = map.get("success") == Some(&Value::Bool(false));
        let told = map.get("error").or_else(|| map.get("message")).and_then(Value::as_str);
        failed.then(|| told.unwrap_or("the server did not say why").to_owned())
    })
}

/// The texts of the content blocks.
fn texts(result: &Value) -> impl Iterator<Item = &str> {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    blocks.filter_map(|block| block.get("text").and_then(Value::as_str))
}

fn hits_of_text(text: &str, server: &str) -> Vec<Hit> {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    if let Some(found) = parsed.and_then(|value| hits_in(&value, server, DEPTH_MAX)) {
        return found;
    }
    let blocks = split_at_blank_lines(text);
    // `No matching memories found` is not a memory.
    if let [only] = blocks.as_slice() {
        let lower = only.to_lowercase();
        if lower.starts_with("no ") && lower.contains("found") && !only.contains('\n') {
            return Vec::new();
        }
    }
    blocks.into_iter().map(|text| plain(text, server)).collect()
}

fn split_at_blank_lines(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        if line.trim().is_empty() {
            blocks.push(String::new());
        } else if let Some(block) = blocks.last_mut() {
            if !block.is_empty() {
                block.push('\n');
            }
            block.push_str(line.trim_end());
        }
    }
    blocks.retain(|block| block.contains(char::is_alphanumeric));
    blocks
}

fn plain(text: String, server: &str) -> Hit {
    let source = server.to_owned();
    Hit { text, source, score: 0.0, tags: Vec::new(), stored_at: String::new() }
}

/// The hits of a value; `None` if it has none that can be recognised.
fn hits_in(value: &Value, server: &str, depth: usize) -> Option<Vec<Hit>> {
    match value {
        Value::Array(values) => {
            let found: Vec<Hit> =
                values.iter().filter_map(|value| hit(value, server, DEPTH_MAX)).collect();
            (!found.is_empty() || values.is_empty()).then_some(found)
        }
        Value::Object(map) => {
            let depth = depth.checked_sub(1)?;
            let inner = LISTS.iter().filter_map(|name| map.get(*name));
            let mut lists = inner.filter(|value| value.is_array() || value.is_object());
            lists.find_map(|list| hits_in(list, server, depth)).or_else(|| {
                if let Some(Value::String(text)) = map.get("result") {
                    return Some(hits_of_text(text, server));
                }
                hit(value, server, depth).map(|hit| vec![hit])
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// One hit: a text, or an object with one in it.
fn hit(value: &Value, server: &str, depth: usize) -> Option<Hit> {
    let depth = depth.checked_sub(1)?;
    let map = match value {
        Value::String(text) => return Some(plain(text.clone(), server)),
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    let inner = TEXTS.iter().filter_map(|name| map.get(*name)).next()?;
    let mut hit = hit(inner, server, depth).filter(|hit| !hit.text.trim().is_empty())?;
    if let Some(score) = number(map, &SCORES) {
        hit.score = score;
    }
    if let Some(source) = text(map, &SOURCES) {
        hit.source = format!("{server}:{source}");
    }
    if let Some(time) = text(map, &TIMES) {
        time.clone_into(&mut hit.stored_at);
    }
    let metadata = map.get("metadata").and_then(Value::as_object);
    let tags = map.get("tags").or_else(|| metadata.and_then(|metadata| metadata.get("tags")));
    match tags {
        Some(Value::Array(tags)) => {
            hit.tags = tags.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
        Some(Value::String(tags)) => {
            let tags = tags.split(',').map(str::trim).filter(|tag| !tag.is_empty());
            hit.tags = tags.map(str::to_owned).collect();
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {}
    }
    Some(hit)
}

fn text<'a>(map: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    let texts = names.iter().filter_map(|name| map.get(*name)?.as_str());
    texts.filter(|text| !text.is_empty()).fold(None, |first, text| first.or(Some(text)))
}

fn number(map: &Map<String, Value>, names: &[&str]) -> Option<f64> {
    let mut numbers = names.iter().filter_map(|name| map.get(*name)?.as_f64());
    numbers.find(|number| number.is_finite())
}

fn find_id(value: &Value, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let map = value.as_object()?;
    let found = IDS.iter().filter_map(|name| map.get(*name)).find_map(|id| match id {
        Value::String(id) if !id.is_empty() => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    });
    let inner = ["result", "memory", "data"].iter().filter_map(|name| map.get(*name));
    found.or_else(|| inner.filter_map(|inner| find_id(inner, depth)).next())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text_result(text: &str) -> Value {
        json!({ "content": [{ "type": "text", "text": text }], "isError": false })
    }

    fn found(result: &Value) -> Vec<String> {
        hits(result, "notes").into_iter().map(|hit| hit.text).collect()
    }

    #[test]
    fn lists_of_objects_are_read_in_full() {
        let list = json!([{
            "content": "use tabs", "tags": ["style"], "similarity_score": 0.75,
            "created_at": "2025-01-01T00:00:00Z", "content_hash": "ab12", "other": [1],
        }]);
        let expected = Hit {
            text: "use tabs".to_owned(),
            source: "notes:ab12".to_owned(),
            score: 0.75,
            tags: vec!["style".to_owned()],
            stored_at: "2025-01-01T00:00:00Z".to_owned(),
        };
        for result in [
            json!({ "content": [], "structuredContent": { "memories": list } }),
            json!({ "content": [], "structuredContent": { "result": { "results": list } } }),
            text_result(&list.to_string()),
            text_result(&json!({ "memories": list, "total": 1 }).to_string()),
            text_result(
                &json!({ "results": [{
                    "memory": list[0], "relevance_score": 0.75,
                }]})
                .to_string(),
            ),
        ] {
            assert_eq!(hits(&result, "notes"), std::slice::from_ref(&expected), "{result}");
        }
        let odd = json!([{ "text": "a", "tags": "x, y" }, { "memory": "b" }, "c", 7, {}]);
        let result = text_result(&odd.to_string());
        assert_eq!(found(&result), ["a", "b", "c"]);
        assert_eq!(hits(&result, "notes")[0].tags, ["x", "y"]);
    }

    #[test]
    fn plain_text_is_split_at_blank_lines() {
        let text = "Found two:\n\n1. use tabs\n   always\n\n---\n\n2. no spaces\n";
        let expected = ["Found two:", "1. use tabs\n   always", "2. no spaces"];
        assert_eq!(found(&text_result(text)), expected);
        let wrapped = json!({ "content": [], "structuredContent": { "result": "a\n\nb" } });
        assert_eq!(found(&wrapped), ["a", "b"]);
        for text in ["No matching memories found", "", "\n\n", "[]", r#"{"memories":[]}"#] {
            assert_eq!(found(&text_result(text)), Vec::<String>::new(), "{text}");
        }
        for result in [json!({}), json!(null), json!({ "content": [{ "type": "image" }] })] {
            assert_eq!(found(&result), Vec::<String>::new());
        }
    }

    #[test]
    fn deep_answers_end() {
        let mut deep = json!("x");
        for _ in 0..50 {
            deep = json!({ "result": { "memory": deep } });
        }
        let result = json!({ "content": [], "structuredContent": deep });
        assert_eq!(found(&result), Vec::<String>::new());
        assert_eq!(stored_id(&result), "");
    }

    #[test]
    fn ids_and_refusals_are_found() {
        let structured = |value: Value| json!({ "content": [], "structuredContent": value });
        assert_eq!(stored_id(&structured(json!({ "content_hash": "ab" }))), "ab");
        assert_eq!(stored_id(&structured(json!({ "result": { "id": 7 } }))), "7");
        assert_eq!(stored_id(&text_result(r#"{"id":"x"}"#)), "x");
        assert_eq!(stored_id(&text_result("Stored.")), "");
        let refused = json!({ "success": false, "error": "full" });
        assert_eq!(refusal(&structured(refused)), Some("full".to_owned()));
        assert_eq!(refusal(&text_result(r#"{"success":true}"#)), None);
    }
}
