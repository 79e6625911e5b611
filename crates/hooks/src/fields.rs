//! The fields of an event, with their limits.

use serde_json::{Map, Value};

use crate::event_error::EventError;
use crate::strict_json;

/// The longest event that is read.
pub const EVENT_BYTES_MAX: usize = 10 << 20;

/// The longest id, tool name or other short text.
pub(crate) const NAME_BYTES_MAX: usize = 256;

/// The longest path.
pub(crate) const PATH_BYTES_MAX: usize = 4096;

/// The fields of an event. A field that is `null` counts as missing.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads an event.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, EventError> {
        if bytes.len() > EVENT_BYTES_MAX {
            return Err(EventError::TooLong { bytes_max: EVENT_BYTES_MAX });
        }
        let value = strict_json::read(bytes)
            .map_err(|error| EventError::Malformed { reason: error.to_string() })?;
        match value {
            Value::Object(map) => Ok(Self(map)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(EventError::NotAnObject),
        }
    }

    /// The field's value.
    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    /// Whether the field has a value.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    /// Whether the field is there and `null`.
    pub(crate) fn is_null(&self, field: &str) -> bool {
        self.0.get(field).is_some_and(Value::is_null)
    }

    /// Any text.
    pub(crate) fn text(&self, field: &'static str) -> Result<Option<String>, EventError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(invalid(field, "text")),
        }
    }

    /// Short text in one line: an id, a name or the like.
    pub(crate) fn name(&self, field: &'static str) -> Result<Option<String>, EventError> {
        self.limited(field, NAME_BYTES_MAX)
    }

    /// A name that the client leaves empty where there is none.
    pub(crate) fn name_or_empty(&self, field: &'static str) -> Result<Option<String>, EventError> {
        if self.get(field) == Some(&Value::String(String::new())) {
            Ok(None)
        } else {
            self.name(field)
        }
    }

    /// A path.
    pub(crate) fn path(&self, field: &'static str) -> Result<Option<String>, EventError> {
        self.limited(field, PATH_BYTES_MAX)
    }

    fn limited(&self, field: &'static str, bytes_max: usize) -> Result<Option<String>, EventError> {
        let text = self.text(field)?;
        match text {
            Some(text) if !is_limited(&text, bytes_max) => Err(invalid(
                field,
                &format!("text of 1 to {bytes_max} bytes without control characters"),
            )),
            text => Ok(text),
        }
    }

    /// True or false; false if it is missing.
    pub(crate) fn flag(&self, field: &'static str) -> Result<bool, EventError> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(invalid(field, "true or false")),
        }
    }

    /// A duration in milliseconds, which clients may send with a fraction.
    pub(crate) fn milliseconds(&self, field: &'static str) -> Result<Option<u64>, EventError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let whole = value.as_u64().or_else(|| {
            let number = value.as_f64().filter(|number| *number >= 0.0)?;
            format!("{:.0}", number.trunc()).parse().ok()
        });
        whole.map(Some).ok_or_else(|| invalid(field, "a number of milliseconds"))
    }

    /// An object.
    pub(crate) fn object(&self, field: &'static str) -> Result<Option<Value>, EventError> {
        match self.get(field) {
            None => Ok(None),
            Some(value) if value.is_object() => Ok(Some(value.clone())),
            Some(_) => Err(invalid(field, "an object")),
        }
    }
}

/// The field's value, or an error if it has none.
pub(crate) fn needed<T>(
    field: &'static str,
    value: Result<Option<T>, EventError>,
) -> Result<T, EventError> {
    value?.ok_or(EventError::Missing { field })
}

/// The error of a field that must be something else.
pub(crate) fn invalid(field: &'static str, expected: &str) -> EventError {
    EventError::Invalid { field, expected: expected.to_owned() }
}

/// Whether a text is not empty, not too long, and in one line.
pub(crate) fn is_limited(text: &str, bytes_max: usize) -> bool {
    !text.is_empty() && text.len() <= bytes_max && !text.chars().any(char::is_control)
}
