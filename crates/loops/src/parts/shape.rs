//! Mappings with known keys, lists, and words of a closed set.

use serde_json::{Map, Number, Value as Json};

use crate::error::{Fault, Place, Problem, shown};
use crate::near;
use crate::parts::number;
use crate::yaml::{Key, Node, Value};

/// A mapping whose keys are all known.
pub struct Fields<'a> {
    what: &'static str,
    pub at: Place,
    entries: &'a [(Key, Node)],
}

impl<'a> Fields<'a> {
    /// Takes a mapping; `what` is what messages call it, such as `a phase`.
    pub fn of(
        node: &'a Node,
        key: &str,
        what: &'static str,
        known: &[&str],
    ) -> Result<Self, Fault> {
        let entries = map(node, key)?;
        for (key, _) in entries {
            if !known.contains(&key.name.as_str()) {
                let near = near::nearest(&key.name, known.iter().copied());
                let listed = listed(known.iter().copied());
                let problem =
                    Problem::UnknownKey { what, key: shown(&key.name), near, known: listed };
                return Err(problem.at(key.at));
            }
        }
        Ok(Self { what, at: node.at, entries })
    }

    pub fn get(&self, key: &str) -> Option<&'a Node> {
        self.entries.iter().find(|(other, _)| other.name == key).map(|(_, node)| node)
    }

    pub fn need(&self, key: &'static str) -> Result<&'a Node, Fault> {
        self.get(key).ok_or_else(|| Problem::MissingKey { what: self.what, key }.at(self.at))
    }

    /// Those of `keys` that are there.
    pub fn among(&self, keys: &[&'static str]) -> Vec<&'static str> {
        keys.iter().copied().filter(|key| self.get(key).is_some()).collect()
    }
}

/// `` `a`, `b` ``
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut quoted: Vec<String> = names.by_ref().take(20).map(|name| format!("`{name}`")).collect();
    if names.next().is_some() {
        quoted.push("…".to_owned());
    }
    quoted.join(", ")
}

/// The fault of a value that has another type.
pub fn wrong(node: &Node, key: &str, expected: &'static str) -> Fault {
    Problem::WrongType { key: shown(key), expected, found: node.value.named() }.at(node.at)
}

pub fn map<'a>(node: &'a Node, key: &str) -> Result<&'a [(Key, Node)], Fault> {
    let Value::Map(entries) = &node.value else { return Err(wrong(node, key, "a mapping")) };
    Ok(entries)
}

pub fn list<'a>(node: &'a Node, key: &str) -> Result<&'a [Node], Fault> {
    let Value::List(items) = &node.value else { return Err(wrong(node, key, "a list")) };
    Ok(items)
}

pub fn string<'a>(node: &'a Node, key: &str) -> Result<&'a str, Fault> {
    let Value::Text(text) = &node.value else { return Err(wrong(node, key, "text")) };
    Ok(text)
}

pub fn boolean(node: &Node, key: &str) -> Result<bool, Fault> {
    let Value::Bool(value) = &node.value else { return Err(wrong(node, key, "true or false")) };
    Ok(*value)
}

/// One word of a closed set.
pub fn choice<T: Copy>(node: &Node, key: &'static str, of: &[(&str, T)]) -> Result<T, Fault> {
    let found = string(node, key)?;
    if let Some((_, value)) = of.iter().find(|(name, _)| *name == found) {
        return Ok(*value);
    }
    let names = || of.iter().map(|(name, _)| *name);
    let near = near::nearest(found, names());
    Err(Problem::NotOneOf { key, allowed: listed(names()), found: shown(found), near }.at(node.at))
}

/// Any value, as JSON that canonical form keeps exactly.
pub fn json(node: &Node) -> Result<Json, Fault> {
    Ok(match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Text(text) => Json::String(text.clone()),
        Value::Number(text) => Json::Number(exact(text, node.at)?),
        Value::List(items) => Json::Array(items.iter().map(json).collect::<Result<_, _>>()?),
        Value::Map(entries) => {
            let mut object = Map::new();
            for (key, value) in entries {
                object.insert(key.name.clone(), json(value)?);
            }
            Json::Object(object)
        }
    })
}

/// A number that canonical form keeps exactly.
pub fn exact(text: &str, at: Place) -> Result<Number, Fault> {
    let unsafe_number = || Problem::UnsafeNumber(shown(text)).at(at);
    if text.contains('.') {
        // A double keeps 15 digits of any decimal number.
        if text.bytes().filter(u8::is_ascii_digit).count() > 15 {
            return Err(unsafe_number());
        }
        return text.parse().ok().and_then(Number::from_f64).ok_or_else(unsafe_number);
    }
    let whole: i64 = text.parse().map_err(|_| unsafe_number())?;
    if whole.unsigned_abs() > number::SAFE_MAX {
        return Err(unsafe_number());
    }
    Ok(Number::from(whole))
}
