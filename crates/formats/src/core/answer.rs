//! The text of an agent's structured answer: one JSON object, alone or in one code block.

use serde_json::Value;
use thiserror::Error;
use windlass_kernel::{Code, canon};
use windlass_text::{is_control, printable};

use crate::fields::{FieldError, Fields};

/// The largest answer.
pub const ANSWER_BYTES_MAX: usize = 256 << 10;
/// The longest text in an answer, in characters.
pub const ANSWER_TEXT_CHARS_MAX: usize = 20_000;
/// The longest list in an answer.
pub const ANSWER_ITEMS_MAX: usize = 200;

/// Why an answer cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AnswerError {
    /// There is no answer.
    #[error("the answer is empty")]
    Empty,
    /// It is too long.
    #[error("the answer has {bytes} bytes, more than {ANSWER_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It begins with something else than an object.
    #[error("the answer must be one JSON object and nothing else; it begins with `{start}`")]
    NotObject {
        /// Its first characters.
        start: String,
    },
    /// It begins with a code block of another kind, or one that does not end with the answer.
    #[error("an answer in a code block must begin with the line ```json and end with the line ```")]
    Fence,
    /// It is not valid JSON, or has a key twice, or text after the object.
    #[error("the answer must be one JSON object and nothing else: {0}")]
    Json(String),
    /// A field is unknown, missing or invalid.
    #[error("the answer cannot be used: {0}")]
    Field(#[from] FieldError),
}

impl AnswerError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::TooLong { .. } => Code::DocSizeExceeded,
            Self::Empty | Self::NotObject { .. } | Self::Fence | Self::Json(_) => Code::JsonInvalid,
            Self::Field(_) => Code::RequestInvalid,
        }
    }
}

/// Reads the object.
pub(super) fn object(text: &str) -> Result<Value, AnswerError> {
    if text.len() > ANSWER_BYTES_MAX {
        return Err(AnswerError::TooLong { bytes: text.len() });
    }
    let text = text.trim();
    if text.is_empty() {
        return Err(AnswerError::Empty);
    }
    let json = if text.starts_with("```") { unfenced(text)? } else { text };
    if !json.trim_start().starts_with('{') {
        return Err(AnswerError::NotObject { start: printable(json.trim_start(), 40) });
    }
    canon::parse(json.as_bytes(), ANSWER_BYTES_MAX)
        .map_err(|error| AnswerError::Json(error.to_string()))
}

/// The content of the code block that is the whole text. Another fence inside is no valid JSON.
fn unfenced(text: &str) -> Result<&str, AnswerError> {
    let (first, rest) = text.split_once('\n').ok_or(AnswerError::Fence)?;
    let (json, last) = rest.rsplit_once('\n').ok_or(AnswerError::Fence)?;
    let is_block = first.trim_end() == "```json" && last.trim() == "```";
    if is_block { Ok(json) } else { Err(AnswerError::Fence) }
}

/// Reads text that is not empty, within the limit.
pub(super) fn text(fields: &Fields<'_>, field: &str) -> Result<String, FieldError> {
    let text = fields.must(field, Fields::text)?;
    checked(fields, field, text)
}

/// Reads text that may be missing.
pub(super) fn optional(fields: &Fields<'_>, field: &str) -> Result<Option<String>, FieldError> {
    let text = fields.maybe(field, Fields::text)?;
    text.map(|text| checked(fields, field, text)).transpose()
}

fn checked(fields: &Fields<'_>, field: &str, text: &str) -> Result<String, FieldError> {
    if text.trim().is_empty() {
        return Err(fields.invalid(field, "it is empty"));
    }
    if text.chars().nth(ANSWER_TEXT_CHARS_MAX).is_some() {
        let why = format!("it has more than {ANSWER_TEXT_CHARS_MAX} characters");
        return Err(fields.invalid(field, why));
    }
    if text.chars().any(|character| is_control(character) && !"\n\r\t".contains(character)) {
        return Err(fields.invalid(field, "it contains a control character"));
    }
    Ok(text.to_owned())
}

/// Reads a list with `read`; a missing list is empty.
pub(super) fn items<'a, T>(
    fields: &Fields<'a>,
    field: &str,
    read: impl Fn(&'a Value, &str) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let items = fields.maybe(field, Fields::list)?.unwrap_or_default();
    if items.len() > ANSWER_ITEMS_MAX {
        return Err(fields.invalid(field, format!("it has more than {ANSWER_ITEMS_MAX} entries")));
    }
    let place = |at: usize| format!("{}[{at}].", fields.name(field));
    items.iter().enumerate().map(|(at, item)| read(item, &place(at))).collect()
}

/// Reads a list of texts; a missing list is empty.
pub(super) fn texts(fields: &Fields<'_>, field: &str) -> Result<Vec<String>, FieldError> {
    let items = fields.maybe(field, Fields::list)?.unwrap_or_default();
    if items.len() > ANSWER_ITEMS_MAX {
        return Err(fields.invalid(field, format!("it has more than {ANSWER_ITEMS_MAX} entries")));
    }
    let read = |(at, item)| {
        let field = format!("{field}[{at}]");
        checked(fields, &field, fields.text(&field, item)?)
    };
    items.iter().enumerate().map(read).collect()
}

/// Refuses a list without entries.
pub(super) fn some<T>(
    fields: &Fields<'_>,
    field: &str,
    items: Vec<T>,
    why: &str,
) -> Result<Vec<T>, FieldError> {
    if items.is_empty() {
        return Err(fields.invalid(field, why));
    }
    Ok(items)
}
