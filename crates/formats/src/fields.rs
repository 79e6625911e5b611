//! Typed access to the fields of a JSON object.

use serde_json::{Map, Value};
use thiserror::Error;
use windlass_text::{nearest, printable};

/// Why a field cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FieldError {
    /// The value is not an object.
    #[error("it is {found}, not an object")]
    NotObject {
        /// The actual type.
        found: &'static str,
    },
    /// The field is unknown.
    #[error("the field `{field}` is unknown{}", nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// The field.
        field: String,
        /// A known field with a similar name.
        nearest: Option<String>,
    },
    /// A required field is missing.
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
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// A field has an invalid value.
    #[error("the field `{field}` is invalid: {why}")]
    Value {
        /// The field.
        field: String,
        /// Why.
        why: String,
    },
}

/// The name of a value's type.
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
    /// Precedes the name of each field in messages.
    prefix: String,
}

impl<'a> Fields<'a> {
    /// Reads an object that may have only the fields `known`.
    pub(crate) fn new(value: &'a Value, prefix: &str, known: &[&str]) -> Result<Self, FieldError> {
        let Value::Object(map) = value else {
            if prefix.is_empty() {
                return Err(FieldError::NotObject { found: kind(value) });
            }
            let field = prefix.trim_end_matches('.').to_owned();
            return Err(FieldError::Type { field, expected: "an object", found: kind(value) });
        };
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(Self { map, prefix: prefix.to_owned() }),
            Some(key) => Err(FieldError::Unknown {
                field: format!("{prefix}{}", printable(key, 80)),
                nearest: nearest(key, known.iter().copied()).map(|near| format!("{prefix}{near}")),
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

    /// A field that may be null but not missing.
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
        value.as_str().ok_or_else(|| self.wrong_type(field, "a string", value))
    }

    /// Reads a string into a type of its own.
    pub(crate) fn parsed<T>(&self, field: &str, value: &'a Value) -> Result<T, FieldError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        self.text(field, value)?
            .parse()
            .map_err(|error: T::Err| self.invalid(field, error.to_string()))
    }

    /// Reads true or false.
    pub(crate) fn flag(&self, field: &str, value: &'a Value) -> Result<bool, FieldError> {
        value.as_bool().ok_or_else(|| self.wrong_type(field, "true or false", value))
    }

    /// Reads a whole number from 0 on.
    pub(crate) fn count<T: TryFrom<u64>>(
        &self,
        field: &str,
        value: &'a Value,
    ) -> Result<T, FieldError> {
        let number =
            value.as_u64().ok_or_else(|| self.wrong_type(field, "a whole number", value))?;
        T::try_from(number).map_err(|_| self.invalid(field, format!("{number} is too large")))
    }

    /// Reads a list.
    pub(crate) fn list(&self, field: &str, value: &'a Value) -> Result<&'a [Value], FieldError> {
        match value {
            Value::Array(items) => Ok(items),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => Err(self.wrong_type(field, "a list", value)),
        }
    }

    /// Reads a list of strings.
    pub(crate) fn texts(&self, field: &str, value: &'a Value) -> Result<Vec<String>, FieldError> {
        let items = self.list(field, value)?.iter().enumerate();
        items.map(|(at, item)| Ok(self.text(&format!("{field}[{at}]"), item)?.to_owned())).collect()
    }

    /// Reads an object.
    pub(crate) fn object(
        &self,
        field: &str,
        value: &'a Value,
    ) -> Result<Map<String, Value>, FieldError> {
        value.as_object().cloned().ok_or_else(|| self.wrong_type(field, "an object", value))
    }

    /// The name of a field as messages give it.
    pub(crate) fn name(&self, field: &str) -> String {
        format!("{}{field}", self.prefix)
    }

    /// A field of the wrong type.
    fn wrong_type(&self, field: &str, expected: &'static str, value: &Value) -> FieldError {
        FieldError::Type { field: self.name(field), expected, found: kind(value) }
    }

    /// A field with an invalid value.
    pub(crate) fn invalid(&self, field: &str, why: impl Into<String>) -> FieldError {
        FieldError::Value { field: self.name(field), why: why.into() }
    }
}
