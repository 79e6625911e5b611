//! Takes an object apart field by field, naming what is wrong with the first one that is.

use serde_json::{Map, Value};
use thiserror::Error;

/// A field that is not as it must be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FieldError {
    /// The value is no object at all.
    #[error("it is {found}, not an object with fields")]
    NoObject {
        /// What it is.
        found: &'static str,
    },
    /// No such field is known.
    #[error("the field `{field}` is not known{}", nearest.as_ref().map(|near| format!("; the nearest is `{near}`")).unwrap_or_default())]
    Unknown {
        /// The field.
        field: String,
        /// The known field that is most like it, if one is at all.
        nearest: Option<String>,
    },
    /// A field must be there and is not.
    #[error("the field `{field}` is missing")]
    Missing {
        /// The field.
        field: String,
    },
    /// A field has the wrong type.
    #[error("the field `{field}` must be {expected}, not {found}")]
    Type {
        /// The field.
        field: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A field has the right type and a value that cannot be.
    #[error("the field `{field}` cannot be so: {why}")]
    Value {
        /// The field.
        field: String,
        /// What is wrong with it.
        why: String,
    },
}

/// What a value is, in words.
pub(crate) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// An object all of whose fields are known.
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// Stands before the name of each field in messages.
    prefix: String,
}

impl<'a> Fields<'a> {
    /// Opens an object that may have these fields only.
    pub(crate) fn open(value: &'a Value, prefix: &str, known: &[&str]) -> Result<Self, FieldError> {
        let Value::Object(map) = value else {
            if prefix.is_empty() {
                return Err(FieldError::NoObject { found: kind(value) });
            }
            let field = prefix.trim_end_matches('.').to_owned();
            return Err(FieldError::Type { field, expected: "an object", found: kind(value) });
        };
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(Self { map, prefix: prefix.to_owned() }),
            Some(key) => Err(FieldError::Unknown {
                field: format!("{prefix}{}", key.chars().take(80).collect::<String>()),
                nearest: nearest(key, known).map(|near| format!("{prefix}{near}")),
            }),
        }
    }

    /// A field's value, unless it is missing or null.
    pub(crate) fn optional(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    /// A field's value, null included.
    pub(crate) fn required(&self, field: &str) -> Result<&'a Value, FieldError> {
        self.map.get(field).ok_or_else(|| FieldError::Missing { field: self.name(field) })
    }

    /// A field that is read from text, and may be null but not missing.
    pub(crate) fn nullable<T>(
        &self,
        field: &str,
        read: impl FnOnce(&Self, &str, &'a Value) -> Result<T, FieldError>,
    ) -> Result<Option<T>, FieldError> {
        let value = self.required(field)?;
        if value.is_null() { Ok(None) } else { read(self, field, value).map(Some) }
    }

    /// A field that may be missing or null.
    pub(crate) fn maybe<T>(
        &self,
        field: &str,
        read: impl FnOnce(&Self, &str, &'a Value) -> Result<T, FieldError>,
    ) -> Result<Option<T>, FieldError> {
        self.optional(field).map(|value| read(self, field, value)).transpose()
    }

    /// A field that must be there.
    pub(crate) fn must<T>(
        &self,
        field: &str,
        read: impl FnOnce(&Self, &str, &'a Value) -> Result<T, FieldError>,
    ) -> Result<T, FieldError> {
        read(self, field, self.required(field)?)
    }

    /// Reads a string.
    pub(crate) fn text(&self, field: &str, value: &'a Value) -> Result<&'a str, FieldError> {
        value.as_str().ok_or_else(|| self.wrong(field, "a string", value))
    }

    /// Reads a string into a type of its own.
    pub(crate) fn parsed<T>(&self, field: &str, value: &'a Value) -> Result<T, FieldError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        self.text(field, value)?
            .parse()
            .map_err(|error: T::Err| self.refused(field, error.to_string()))
    }

    /// Reads true or false.
    pub(crate) fn flag(&self, field: &str, value: &'a Value) -> Result<bool, FieldError> {
        value.as_bool().ok_or_else(|| self.wrong(field, "true or false", value))
    }

    /// Reads a whole number from 0 on.
    pub(crate) fn count<T: TryFrom<u64>>(
        &self,
        field: &str,
        value: &'a Value,
    ) -> Result<T, FieldError> {
        let number = value.as_u64().ok_or_else(|| self.wrong(field, "a whole number", value))?;
        T::try_from(number).map_err(|_| self.refused(field, format!("{number} is too large")))
    }

    /// Reads a list.
    pub(crate) fn list(&self, field: &str, value: &'a Value) -> Result<&'a [Value], FieldError> {
        match value {
            Value::Array(items) => Ok(items),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => Err(self.wrong(field, "a list", value)),
        }
    }

    /// Reads a list of strings.
    pub(crate) fn texts(&self, field: &str, value: &'a Value) -> Result<Vec<String>, FieldError> {
        let items = self.list(field, value)?.iter().enumerate();
        items.map(|(at, item)| Ok(self.text(&format!("{field}[{at}]"), item)?.to_owned())).collect()
    }

    /// Reads an object as it is.
    pub(crate) fn object(
        &self,
        field: &str,
        value: &'a Value,
    ) -> Result<Map<String, Value>, FieldError> {
        value.as_object().cloned().ok_or_else(|| self.wrong(field, "an object", value))
    }

    /// The name of a field as messages give it.
    pub(crate) fn name(&self, field: &str) -> String {
        format!("{}{field}", self.prefix)
    }

    /// A field of the wrong type.
    fn wrong(&self, field: &str, expected: &'static str, value: &Value) -> FieldError {
        FieldError::Type { field: self.name(field), expected, found: kind(value) }
    }

    /// A field whose value cannot be.
    pub(crate) fn refused(&self, field: &str, why: impl Into<String>) -> FieldError {
        FieldError::Value { field: self.name(field), why: why.into() }
    }
}

/// The known name that differs least, if it differs in at most a third of its characters.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // Longer ones are no slips of the pen, and comparing takes time by the product of lengths.
    if name.len() > 64 {
        return None;
    }
    let (distance, near) = known.iter().map(|other| (distance(name, other), *other)).min()?;
    (distance <= near.len().div_ceil(3)).then_some(near)
}

/// How many characters must be added, removed or changed to get from one to the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (position, char) in one.to_lowercase().chars().enumerate() {
        let mut next = vec![position + 1];
        for ((against, diagonal), above) in other.iter().zip(&row).zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or_default();
            let change = diagonal + usize::from(*against != char);
            next.push(change.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_known() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("task", "Task", 0),
            ("a", "b", 1),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn the_nearest_name_is_near() {
        let known = ["task", "task_ref", "context_refs", "constraints"];
        assert_eq!(nearest("context_ref", &known), Some("context_refs"));
        assert_eq!(nearest("Tsak", &known), Some("task"));
        assert_eq!(nearest("zebra", &known), None);
        assert_eq!(nearest(&"t".repeat(65), &known), None);
    }
}
