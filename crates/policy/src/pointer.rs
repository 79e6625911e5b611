//! JSON pointers (RFC 6901) in which `*` stands for each element of an array or object.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest pointer.
const POINTER_BYTES_MAX: usize = 1024;

/// A pointer to one or more values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pointer {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Each,
    Key(String),
}

impl TryFrom<String> for Pointer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text)
    }
}

impl From<Pointer> for String {
    fn from(pointer: Pointer) -> Self {
        pointer.text
    }
}

impl Pointer {
    /// Parses a pointer such as `/path` or `/paths/*`.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.len() > POINTER_BYTES_MAX {
            return Err(format!(
                "a pointer of {} bytes is longer than {POINTER_BYTES_MAX}",
                text.len()
            ));
        }
        let mut parts = text.split('/');
        if parts.next() != Some("") {
            return Err(format!("the pointer `{text}` must start with `/`"));
        }
        let segments = parts
            .map(|part| match part {
                "*" => Ok(Segment::Each),
                other => unescape(other)
                    .map(Segment::Key)
                    .ok_or_else(|| format!("the pointer `{text}` has a `~` without `0` or `1`")),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), segments })
    }

    /// The pointer as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it can point to more than one value.
    pub(crate) fn is_many(&self) -> bool {
        self.segments.contains(&Segment::Each)
    }

    /// All values it points to, in their order.
    #[must_use]
    pub fn select<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut values = vec![value];
        for segment in &self.segments {
            values = values.into_iter().flat_map(|value| take(value, segment)).collect();
        }
        values
    }

    /// The one value it points to.
    #[must_use]
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.select(value).into_iter().next()
    }
}

fn take<'a>(value: &'a Value, segment: &Segment) -> Vec<&'a Value> {
    match (value, segment) {
        (Value::Array(list), Segment::Each) => list.iter().collect(),
        (Value::Object(map), Segment::Each) => map.values().collect(),
        (Value::Object(map), Segment::Key(key)) => map.get(key).into_iter().collect(),
        (Value::Array(list), Segment::Key(key)) => {
            let plain = key == "0" || !key.starts_with('0') && !key.starts_with('+');
            let index = if plain { key.parse::<usize>().ok() } else { None };
            index.and_then(|index| list.get(index)).into_iter().collect()
        }
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => Vec::new(),
    }
}

fn unescape(part: &str) -> Option<String> {
    let mut text = String::with_capacity(part.len());
    let mut chars = part.chars();
    while let Some(char) = chars.next() {
        match char {
            '~' => match chars.next() {
                Some('0') => text.push('~'),
                Some('1') => text.push('/'),
                Some(_) | None => return None,
            },
            other => text.push(other),
        }
    }
    Some(text)
}

/// The text of a string, number or boolean.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_select_values() {
        let value = json!({ "a": [ { "b": 1 }, { "b": 2 } ], "x/y": 3, "~": 4 });
        for (pointer, expected) in [
            ("/a/*/b", vec![json!(1), json!(2)]),
            ("/a/1/b", vec![json!(2)]),
            ("/a/01/b", vec![]),
            ("/x~1y", vec![json!(3)]),
            ("/~0", vec![json!(4)]),
            ("/none/*", vec![]),
        ] {
            let found: Vec<Value> =
                Pointer::new(pointer).unwrap().select(&value).into_iter().cloned().collect();
            assert_eq!(found, expected, "{pointer}");
        }
        assert_eq!(Pointer::new("").unwrap().first(&value), Some(&value));
        assert!(Pointer::new("a").is_err());
        assert!(Pointer::new("/~2").is_err());
    }
}
