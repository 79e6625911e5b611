//! JSON read level by level, with memory for one level only. Keys that a service might take for one
//! another are an error.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The most keys of an object that is looked into.
const KEYS_MAX: usize = 500;
const AMBIGUOUS: &str = "ambiguous key ";

/// Why a text could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// It is not JSON, or not what must be there.
    Invalid(String),
    /// Two keys that could be taken for one another.
    Ambiguous(String),
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        let message = error.to_string();
        match message.strip_prefix(AMBIGUOUS) {
            Some(rest) => Self::Ambiguous(rest.to_owned()),
            None => Self::Invalid(message),
        }
    }
}

/// A key as lenient services read it: some ignore case, some write names in two ways.
pub(super) fn folded(key: &str) -> String {
    let plain = key.chars().filter(|character| !matches!(character, '_' | '-'));
    plain.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The fields of an object.
pub(super) struct Fields<'a>(Vec<(String, String, &'a str)>);

impl<'a> Fields<'a> {
    /// Reads an object.
    pub(super) fn read(text: &'a str) -> Result<Self, Problem> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let fields = deserializer.deserialize_map(FieldsVisitor)?;
        deserializer.end()?;
        Ok(fields)
    }

    /// The value of a field, in whatever spelling; `None` if it is missing or null.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let name = folded(name);
        let found = self.0.iter().find(|(_, folded, _)| *folded == name);
        found.map(|(.., value)| *value).filter(|value| *value != "null")
    }

    /// The text of a field; an error if it is not a text.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        Ok(self.get(name).map(serde_json::from_str).transpose()?)
    }

    /// All fields that are not null, as they are written.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        let fields = self.0.iter().map(|(key, _, value)| (key.as_str(), *value));
        fields.filter(|(_, value)| *value != "null")
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields: Vec<(String, String, &str)> = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            let plain = folded(&key);
            if fields.iter().any(|(_, known, _)| *known == plain) {
                return Err(A::Error::custom(format!("{AMBIGUOUS}`{key}`")));
            }
            if fields.len() == KEYS_MAX {
                return Err(A::Error::custom("an object has too many keys"));
            }
            fields.push((key, plain, value.get()));
        }
        Ok(Fields(fields))
    }
}

/// Calls `act` with each item of an array, one by one.
pub(super) fn each<E: From<Problem>>(
    text: &str,
    act: &mut dyn FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let mut failed = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Items { act, failed: &mut failed }.deserialize(&mut deserializer);
    match failed {
        Some(error) => Err(error),
        None => read.and_then(|()| deserializer.end()).map_err(|error| Problem::from(error).into()),
    }
}

struct Items<'f, E> {
    act: &'f mut dyn FnMut(&str) -> Result<(), E>,
    failed: &'f mut Option<E>,
}

impl<'de, E> DeserializeSeed<'de> for Items<'_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, E> Visitor<'de> for Items<'_, E> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            if let Err(error) = (self.act)(item.get()) {
                *self.failed = Some(error);
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

/// Whether a value offers nothing: false, or an empty text, array or object.
pub(super) fn is_nothing(text: &str) -> bool {
    let inside = |open, close| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let inside: Option<&str> = inside('[', ']').or_else(|| inside('{', '}')).or(inside('"', '"'));
    matches!(text, "null" | "false") || inside.is_some_and(|inside| inside.trim().is_empty())
}
