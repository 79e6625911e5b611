//! Arguments of a call, checked against the tool's parameters.

use serde_json::{Map, Value, json};

use crate::error::FilesError;
use crate::limits::{EDITS_MAX, PATTERN_BYTES_MAX};
use crate::tool::FileTool;

/// One parameter of a tool.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) description: &'static str,
}

/// What an argument may be.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A path; resolving it checks the rest.
    Path,
    /// Any text.
    Text,
    /// A regular expression or a glob.
    Pattern,
    /// The first 16 hex digits of a digest.
    Version,
    /// A whole number between these two.
    Count(u64, u64),
    Flag,
    /// The word `base64`.
    Base64,
    Edits,
}

/// One replacement of an edit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edit<'a> {
    pub(crate) old: &'a str,
    pub(crate) new: &'a str,
    pub(crate) all: bool,
}

/// The parameters of one edit.
const EDIT: &[Parameter] = &[
    Parameter {
        name: "old",
        kind: Kind::Text,
        required: true,
        description: "Text to replace, exactly as in the file.",
    },
    Parameter {
        name: "new",
        kind: Kind::Text,
        required: true,
        description: "Text to put in its place.",
    },
    Parameter {
        name: "all",
        kind: Kind::Flag,
        required: false,
        description: "Replace every occurrence.",
    },
];

/// The JSON Schema of an object with these parameters.
pub(crate) fn schema(parameters: &[Parameter]) -> Value {
    let properties: Map<String, Value> = parameters
        .iter()
        .map(|parameter| {
            let mut property = parameter.kind.schema();
            if let Value::Object(property) = &mut property {
                property.insert("description".to_owned(), json!(parameter.description));
            }
            (parameter.name.to_owned(), property)
        })
        .collect();
    let required: Vec<&str> =
        parameters.iter().filter(|parameter| parameter.required).map(|known| known.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

impl Kind {
    fn schema(self) -> Value {
        match self {
            Self::Path | Self::Pattern => json!({ "type": "string", "minLength": 1 }),
            Self::Text => json!({ "type": "string" }),
            Self::Version => json!({ "type": "string", "pattern": "^[0-9a-f]{16}$" }),
            Self::Count(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::Base64 => json!({ "type": "string", "enum": ["base64"] }),
            Self::Edits => json!({
                "type": "array", "minItems": 1, "maxItems": EDITS_MAX, "items": schema(EDIT),
            }),
        }
    }

    /// What is expected, in words.
    fn expected(self) -> String {
        match self {
            Self::Path => "a path".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Pattern => format!("text of 1 to {PATTERN_BYTES_MAX} bytes"),
            Self::Version => "the 16 hex digits that `read` returned as `version`".to_owned(),
            Self::Count(min, max) => format!("a whole number from {min} to {max}"),
            Self::Flag => "true or false".to_owned(),
            Self::Base64 => "`base64`".to_owned(),
            Self::Edits => {
                format!("a list of 1 to {EDITS_MAX} objects with `old` and `new`")
            }
        }
    }

    fn accepts(self, value: &Value) -> bool {
        let text = value.as_str();
        match self {
            Self::Path => text.is_some_and(|text| !text.is_empty()),
            Self::Text => text.is_some(),
            Self::Pattern => {
                text.is_some_and(|text| !text.is_empty() && text.len() <= PATTERN_BYTES_MAX)
            }
            Self::Version => text.is_some_and(is_version),
            Self::Count(min, max) => {
                whole_number(value).is_some_and(|number| (min..=max).contains(&number))
            }
            Self::Flag => value.is_boolean(),
            Self::Base64 => text == Some("base64"),
            Self::Edits => {
                value.as_array().is_some_and(|edits| (1..=EDITS_MAX).contains(&edits.len()))
            }
        }
    }
}

fn is_version(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A whole number, which JSON may also write as `3.0`.
fn whole_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
        format!("{number:.0}").parse().ok()
    })
}

/// The kind of a value, in words.
const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "that number",
        Value::String(_) => "that text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The checked arguments of a call.
pub(crate) struct Arguments<'a>(&'a Map<String, Value>);

impl<'a> Arguments<'a> {
    /// Checks names and kinds of the arguments of `tool`.
    pub(crate) fn new(tool: FileTool, value: &'a Value) -> Result<Self, FilesError> {
        Self::check(&format!("`{}`", tool.name()), tool.parameters(), value)
    }

    fn check(of: &str, parameters: &[Parameter], value: &'a Value) -> Result<Self, FilesError> {
        let invalid = |message: String| Err(FilesError::Invalid(message));
        let Some(map) = value.as_object() else {
            return invalid(format!(
                "the arguments of {of} must be an object, not {}",
                kind_of(value)
            ));
        };
        for (name, value) in map {
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
                let known: Vec<String> =
                    parameters.iter().map(|known| format!("`{}`", known.name)).collect();
                let name: String = name.chars().take(100).collect();
                return invalid(format!(
                    "{of} has no argument `{name}`; it takes {}",
                    known.join(", ")
                ));
            };
            if !parameter.kind.accepts(value) {
                let (expected, found) = (parameter.kind.expected(), kind_of(value));
                return invalid(format!("`{name}` of {of} must be {expected}, not {found}"));
            }
        }
        let mut needed = parameters.iter().filter(|parameter| parameter.required);
        if let Some(missing) = needed.find(|parameter| !map.contains_key(parameter.name)) {
            let expected = missing.kind.expected();
            return invalid(format!("{of} needs the argument `{}`: {expected}", missing.name));
        }
        Ok(Self(map))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name)?.as_str()
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(whole_number)
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }

    /// The path, or the workspace itself.
    pub(crate) fn path(&self) -> &'a str {
        self.text("path").unwrap_or(".")
    }

    /// The replacements of an edit.
    pub(crate) fn edits(&self) -> Result<Vec<Edit<'a>>, FilesError> {
        let edits = self.0.get("edits").and_then(Value::as_array);
        (1..)
            .zip(edits.into_iter().flatten())
            .map(|(number, edit)| {
                let edit = Self::check(&format!("edit {number}"), EDIT, edit)?;
                Ok(Edit {
                    old: edit.text("old").unwrap_or_default(),
                    new: edit.text("new").unwrap_or_default(),
                    all: edit.flag("all").unwrap_or_default(),
                })
            })
            .collect()
    }
}
