//! JSON as RFC 8785 writes it, behind a reader that refuses what that form would silently change.
//!
//! RFC 8785 numbers are doubles: two different large integers can give the same bytes and so the
//! same digest. They are refused on input, as are duplicate keys and lone surrogates.

pub(crate) mod scalar;
mod write;

use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use thiserror::Error;

pub(crate) use self::write::{Canonical, canonical, canonical_names, write_object, write_plain};
use crate::{Code, Digest};

/// The largest integer that every JSON reader keeps exact: 2^53 − 1.
pub const INTEGER_MAX: i64 = (1 << 53) - 1;
/// Integral doubles from here on are written with an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// JSON that cannot be read, or has no canonical form.
#[derive(Debug, Error)]
pub enum CanonError {
    /// The text is longer than the reader takes.
    #[error("the JSON is {bytes} bytes long, more than the {bytes_max} allowed")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The text is not JSON.
    #[error("the text is not valid JSON: {0}")]
    Invalid(String),
    /// An object has a key twice.
    #[error("the JSON has an object with a duplicate key: {0}")]
    DuplicateKey(String),
    /// A number would not survive.
    #[error("the number `{number}` is beyond ±(2^53−1) and would not survive canonical JSON")]
    UnsafeNumber {
        /// The number as it stands in the text.
        number: String,
    },
}

impl CanonError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::TooLarge { .. } => Code::DocSizeExceeded,
            Self::Invalid(_) => Code::JsonInvalid,
            Self::DuplicateKey(_) => Code::JsonDuplicateKey,
            Self::UnsafeNumber { .. } => Code::JsonNumberUnsafe,
        }
    }
}

/// Reads one JSON text of at most `bytes_max` bytes strictly.
///
/// # Errors
/// [`CanonError`] when the text is too long, not JSON (UTF-8, at most 127 levels deep), has a
/// duplicate key, or has a number that canonical JSON would change.
pub fn parse(text: &[u8], bytes_max: usize) -> Result<Value, CanonError> {
    if text.len() > bytes_max {
        return Err(CanonError::TooLarge { bytes: text.len(), bytes_max });
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Strict.deserialize(&mut deserializer).map_err(|error| read_error(&error))?;
    deserializer.end().map_err(|error| read_error(&error))?;
    check_integer_literals(text)?;
    check(&value)?;
    Ok(value)
}

/// Marks the message of a duplicate key on its way through the reader.
const DUPLICATE: &str = "duplicate key ";

fn read_error(error: &serde_json::Error) -> CanonError {
    let message = error.to_string();
    match message.strip_prefix(DUPLICATE) {
        Some(rest) => CanonError::DuplicateKey(rest.to_owned()),
        None => CanonError::Invalid(message),
    }
}

/// Returns the canonical bytes of a value, which may hold only what [`parse`] would accept.
///
/// # Errors
/// [`CanonError`] when the value cannot be written, or holds an unsafe number.
pub fn to_bytes(value: &impl Serialize) -> Result<Vec<u8>, CanonError> {
    let value =
        serde_json::to_value(value).map_err(|error| CanonError::Invalid(error.to_string()))?;
    value_to_bytes(&value)
}

/// Returns the canonical bytes of a JSON value, as [`to_bytes`] does, without copying it.
///
/// # Errors
/// As [`to_bytes`].
pub fn value_to_bytes(value: &Value) -> Result<Vec<u8>, CanonError> {
    check(value)?;
    Ok(written(value))
}

/// Returns the canonical bytes of what needs no check.
pub(crate) fn written(value: &impl Canonical) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    value.write(&mut out);
    out
}

/// Compares as UTF-16 does; only characters beyond the basic plane make that differ from bytes.
fn utf16_order(a: &str, b: &str) -> std::cmp::Ordering {
    if a.bytes().chain(b.bytes()).any(|byte| byte >= 0xee) {
        a.encode_utf16().cmp(b.encode_utf16())
    } else {
        a.cmp(b)
    }
}

/// Returns how many bytes [`value_to_bytes`] would return, without making them.
///
/// # Errors
/// As [`to_bytes`].
pub fn measure(value: &Value) -> Result<usize, CanonError> {
    check(value)?;
    Ok(length(value))
}

fn length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => {
            let mut out = Vec::with_capacity(32);
            number.write(&mut out);
            out.len()
        }
        Value::String(text) => scalar::string_length(text),
        // With two brackets and a comma after all but the last.
        Value::Array(items) => items.iter().map(|item| length(item) + 1).sum::<usize>().max(1) + 1,
        Value::Object(map) => {
            let member = |(key, value): (&String, &Value)| {
                scalar::string_length(key) + 1 + length(value) + 1
            };
            map.iter().map(member).sum::<usize>().max(1) + 1
        }
    }
}

/// Returns the digest of a value's canonical bytes.
///
/// # Errors
/// As [`to_bytes`].
pub fn digest(value: &impl Serialize) -> Result<Digest, CanonError> {
    Ok(Digest::of(&to_bytes(value)?))
}

/// Checks that no number in `value` would be changed by its canonical form.
///
/// # Errors
/// [`CanonError::UnsafeNumber`] for the first that would.
pub fn check(value: &Value) -> Result<(), CanonError> {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        Value::Number(number) if safe(number) => Ok(()),
        Value::Number(number) => Err(CanonError::UnsafeNumber { number: number.to_string() }),
        Value::Array(items) => items.iter().try_for_each(check),
        Value::Object(map) => map.values().try_for_each(check),
    }
}

fn safe(number: &serde_json::Number) -> bool {
    if let Some(integer) = number.as_i64() {
        return (-INTEGER_MAX..=INTEGER_MAX).contains(&integer);
    }
    match number.as_f64() {
        Some(_) if number.is_u64() => false,
        // Written without an exponent these would read back as unsafe integers.
        Some(double) => {
            double.fract() != 0.0
                || double.abs() < 9_007_199_254_740_992.0
                || double.abs() >= EXPONENT_FROM
        }
        None => false,
    }
}

/// Refuses integer literals beyond the safe range, however long: the reader turns those that do
/// not fit 64 bits into doubles, where they can no longer be told from `1e30`.
fn check_integer_literals(text: &[u8]) -> Result<(), CanonError> {
    let mut rest = text;
    while let Some((byte, tail)) = rest.split_first() {
        match byte {
            b'"' => rest = skip_string(tail),
            b'-' | b'0'..=b'9' => {
                let end = rest
                    .iter()
                    .position(|b| !matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
                    .unwrap_or(rest.len());
                let (number, after) = rest.split_at(end);
                check_literal(number)?;
                rest = after;
            }
            _ => rest = tail,
        }
    }
    Ok(())
}

fn skip_string(text: &[u8]) -> &[u8] {
    let mut rest = text;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'"' => return rest,
            b'\\' => rest = rest.get(1..).unwrap_or_default(),
            _ => {}
        }
    }
    rest
}

fn check_literal(number: &[u8]) -> Result<(), CanonError> {
    if number.iter().any(|b| matches!(b, b'.' | b'e' | b'E')) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(number);
    match text.parse::<i64>() {
        Ok(integer) if (-INTEGER_MAX..=INTEGER_MAX).contains(&integer) => Ok(()),
        _ => Err(CanonError::UnsafeNumber { number: text.chars().take(40).collect() }),
    }
}

/// Builds a [`Value`], refusing duplicate keys.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(serde::de::Error::custom(format!("{DUPLICATE}`{key}`")));
            }
            let value = access.next_value_seed(Self)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests;
