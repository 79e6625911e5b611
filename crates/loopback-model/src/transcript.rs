//! What a request shows of its conversation, in one form for all protocols.

use serde::Serialize;
use serde_json::Value;

/// The result of a tool call, as the client tells it to the model.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The texts of the result, one per line; other contents as JSON.
    pub text: String,
}

/// One part of a conversation.
#[derive(Debug, Eq, PartialEq)]
pub enum Item {
    System(String),
    User(String),
    /// Anything that the model wrote.
    Model(Turn),
    Result(ToolResult),
}

/// One answer of the model, or a part of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Turn {
    pub text: String,
    /// The ids of its calls.
    pub calls: Vec<String>,
}

impl Turn {
    pub fn text(text: String) -> Item {
        Item::Model(Self { text, calls: Vec::new() })
    }

    pub fn call(id: &str) -> Item {
        Item::Model(Self { text: String::new(), calls: vec![id.to_owned()] })
    }
}

/// A conversation up to now.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Transcript {
    pub system: String,
    /// What the user wrote, in order.
    pub user: Vec<String>,
    /// How many of these came before the model's first answer.
    pub opening: usize,
    pub results: Vec<ToolResult>,
    /// The answers of the model: parts that follow each other are one answer.
    pub turns: Vec<Turn>,
}

impl Transcript {
    pub fn new(items: Vec<Item>) -> Self {
        let mut transcript = Self::default();
        let mut system = Vec::new();
        let mut after_model = false;
        for item in items {
            let by_model = matches!(item, Item::Model(_));
            match item {
                Item::System(text) => system.push(text),
                Item::User(text) => {
                    transcript.user.push(text);
                    if transcript.turns.is_empty() {
                        transcript.opening = transcript.user.len();
                    }
                }
                Item::Model(part) => match transcript.turns.last_mut().filter(|_| after_model) {
                    Some(turn) => {
                        turn.text.push_str(&part.text);
                        turn.calls.extend(part.calls);
                    }
                    None => transcript.turns.push(part),
                },
                Item::Result(result) => transcript.results.push(result),
            }
            after_model = by_model;
        }
        transcript.system = system.join("\n");
        transcript
    }

    /// Whether the system prompt, or what the user said first, contains a text.
    pub fn opens_with(&self, part: &str) -> bool {
        self.system.contains(part)
            || self.user.iter().take(self.opening).any(|text| text.contains(part))
    }
}

/// The elements of a list, of which there are none where the client sent something else.
pub fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A text, or nothing.
pub fn string<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a content in any of its forms: a text, blocks with texts, an object.
pub fn text_of(content: &Value) -> String {
    match content {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => match fields.get("text").or_else(|| fields.get("output")) {
            Some(Value::String(text)) => text.clone(),
            Some(_) | None => content.to_string(),
        },
        Value::Bool(_) | Value::Number(_) => content.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(text: &str) -> Item {
        Item::User(text.to_owned())
    }

    fn result(id: &str) -> Item {
        Item::Result(ToolResult { id: id.to_owned(), text: String::new() })
    }

    #[test]
    fn parts_that_follow_each_other_are_one_answer() {
        let items = vec![
            user("a"),
            Item::System("s".to_owned()),
            user("b"),
            Turn::text("t".to_owned()),
            Turn::call("1"),
            result("1"),
            Turn::call("2"),
            user("c"),
        ];
        let transcript = Transcript::new(items);
        let turn =
            |text: &str, call: &str| Turn { text: text.to_owned(), calls: vec![call.to_owned()] };
        assert_eq!(transcript.turns, [turn("t", "1"), turn("", "2")]);
        assert_eq!(transcript.opening, 2);
        assert_eq!(transcript.user, ["a", "b", "c"]);
        for (part, found) in [("s", true), ("b", true), ("c", false)] {
            assert_eq!(transcript.opens_with(part), found, "{part}");
        }
    }

    #[test]
    fn contents_have_many_forms() {
        for (content, text) in [
            (json!("a"), "a"),
            (json!([{ "type": "text", "text": "a" }, "b"]), "a\nb"),
            (json!({ "output": "a" }), "a"),
            (json!({ "error": "a" }), r#"{"error":"a"}"#),
            (json!(null), ""),
        ] {
            assert_eq!(text_of(&content), text);
        }
    }
}
