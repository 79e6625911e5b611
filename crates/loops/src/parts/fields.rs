//! Typed access to YAML values: mappings with known keys, lists, words of a closed set.

use serde_json::{Number, Value as Json};
use windlass_text::yaml::{Key, Node, Value};
use windlass_text::{Position, nearest};

use crate::error::{Diagnostic, Problem, shown};
use crate::parts::number;

/// A mapping whose keys are all known.
pub struct Fields<'a> {
    what: &'static str,
    position: Position,
    entries: &'a [(Key, Node)],
}

impl<'a> Fields<'a> {
    /// Reads a mapping that messages call `what`, such as `a phase`.
    pub fn new(
        node: &'a Node,
        key: &str,
        what: &'static str,
        known: &[&str],
    ) -> Result<Self, Diagnostic> {
        let entries = map(node, key)?;
        for (key, _) in entries {
            if !known.contains(&key.name.as_str()) {
                let suggestion = nearest(&key.name, known.iter().copied()).map(str::to_owned);
                let (name, known) = (shown(&key.name), listed(known.iter().copied()));
                let problem = Problem::UnknownKey { what, key: name, suggestion, known };
                return Err(problem.at(key.position));
            }
        }
        Ok(Self { what, position: node.position, entries })
    }

    pub fn get(&self, key: &str) -> Option<&'a Node> {
        self.entries.iter().find(|(other, _)| other.name == key).map(|(_, node)| node)
    }

    pub fn required(&self, key: &'static str) -> Result<&'a Node, Diagnostic> {
        self.get(key).ok_or_else(|| Problem::MissingKey { what: self.what, key }.at(self.position))
    }

    /// The `keys` that the mapping has.
    pub fn present(&self, keys: &[&'static str]) -> Vec<&'static str> {
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

/// The diagnostic of a value of the wrong type.
pub fn wrong(node: &Node, key: &str, expected: &'static str) -> Diagnostic {
    Problem::WrongType { key: shown(key), expected, found: node.value.type_name() }
        .at(node.position)
}

pub fn map<'a>(node: &'a Node, key: &str) -> Result<&'a [(Key, Node)], Diagnostic> {
    let Value::Map(entries) = &node.value else { return Err(wrong(node, key, "a mapping")) };
    Ok(entries)
}

pub fn list<'a>(node: &'a Node, key: &str) -> Result<&'a [Node], Diagnostic> {
    let Value::List(items) = &node.value else { return Err(wrong(node, key, "a list")) };
    Ok(items)
}

pub fn string<'a>(node: &'a Node, key: &str) -> Result<&'a str, Diagnostic> {
    let Value::Text(text) = &node.value else { return Err(wrong(node, key, "text")) };
    Ok(text)
}

pub fn boolean(node: &Node, key: &str) -> Result<bool, Diagnostic> {
    let Value::Bool(value) = &node.value else { return Err(wrong(node, key, "true or false")) };
    Ok(*value)
}

/// One word of a closed set.
pub fn choice<T: Copy>(node: &Node, key: &'static str, of: &[(&str, T)]) -> Result<T, Diagnostic> {
    let found = string(node, key)?;
    if let Some((_, value)) = of.iter().find(|(name, _)| *name == found) {
        return Ok(*value);
    }
    let names = || of.iter().map(|(name, _)| *name);
    let suggestion = nearest(found, names()).map(str::to_owned);
    Err(Problem::NotOneOf { key, allowed: listed(names()), found: shown(found), suggestion }
        .at(node.position))
}

/// Any value, as JSON that canonical form represents exactly.
pub fn json(node: &Node) -> Result<Json, Diagnostic> {
    node.to_json(&exact)
}

/// A number that canonical form represents exactly.
pub fn exact(text: &str, position: Position) -> Result<Number, Diagnostic> {
    let unsafe_number = || Problem::UnsafeNumber(shown(text)).at(position);
    if text.contains('.') {
        // A double represents any decimal number of 15 digits.
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
