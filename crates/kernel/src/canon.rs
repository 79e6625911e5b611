//! Canonical JSON (RFC 8785), with a strict reader that refuses values which that form would change.
//!
//! Numbers in RFC 8785 are doubles: two different large integers can have the same bytes and therefore
//! the same digest. The reader refuses them, as well as duplicate keys and lone surrogates.

pub(crate) mod scalar;
mod write;

use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use thiserror::Error;

pub(crate) use self::write::{Canonical, canonical, canonical_names, write_object, write_plain};
use crate::{Code, Digest};

/// The largest integer that every JSON reader represents exactly: 2^53 − 1.
pub const INTEGER_MAX: i64 = (1 << 53) - 1;
/// Integral doubles of at least this size are written with an exponent.
const EXPONENT_FROM: f64 = 1e21;
/// The levels of lists and objects of a value that is recorded: a document that has it inside is deeper.
pub const VALUE_LEVELS_MAX: usize = 64;
/// The levels that the reader of JSON reads; nothing deeper is written.
const TEXT_LEVELS_MAX: usize = 127;

/// JSON that cannot be read, or has no canonical form.
#[derive(Debug, Error)]
pub enum CanonError {
    /// The text is longer than the limit.
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
    /// Lists and objects lie too deep in each other.
    #[error("the JSON is more than {levels_max} levels deep")]
    TooDeep {
        /// The limit.
        levels_max: usize,
    },
    /// An object has a duplicate key.
    #[error("the JSON has an object with a duplicate key: {0}")]
    DuplicateKey(String),
    /// Canonical JSON would change a number.
    #[error("the number `{number}` is outside ±(2^53−1) and cannot be represented exactly")]
    UnsafeNumber {
        /// The number as written in the text.
        number: String,
    },
}

impl CanonError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::TooLarge { .. } | Self::TooDeep { .. } => Code::DocSizeExceeded,
            Self::Invalid(_) => Code::JsonInvalid,
            Self::DuplicateKey(_) => Code::JsonDuplicateKey,
            Self::UnsafeNumber { .. } => Code::JsonNumberUnsafe,
        }
    }
}

/// Parses one JSON text of at most `bytes_max` bytes strictly.
///
/// # Errors
/// [`CanonError`] if the text is too long, is not JSON (UTF-8, at most 127 levels deep), or contains a
/// duplicate key or a number that canonical JSON would change.
pub fn parse(text: &[u8], bytes_max: usize) -> Result<Value, CanonError> {
    if text.len() > bytes_max {
        return Err(CanonError::TooLarge { bytes: text.len(), bytes_max });
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Strict.deserialize(&mut deserializer).map_err(|error| read_error(&error))?;
    deserializer.end().map_err(|error| read_error(&error))?;
    check_integer_literals(text)?;
    check_levels(&value, TEXT_LEVELS_MAX)?;
    Ok(value)
}

/// The prefix by which the error message of a duplicate key is recognised.
const DUPLICATE: &str = "duplicate key ";

fn read_error(error: &serde_json::Error) -> CanonError {
    let message = error.to_string();
    match message.strip_prefix(DUPLICATE) {
        Some(rest) => CanonError::DuplicateKey(rest.to_owned()),
        None => CanonError::Invalid(message),
    }
}

/// Returns the canonical bytes of a value, which must be one that [`parse`] would accept.
///
/// # Errors
/// [`CanonError`] if the value cannot be serialized or contains an unsafe number.
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
    check_levels(value, TEXT_LEVELS_MAX)?;
    Ok(written(value))
}

/// Returns the canonical bytes of a value that needs no check.
pub(crate) fn written(value: &impl Canonical) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    value.write(&mut out);
    out
}

/// Compares by UTF-16 code units. That order differs from byte order only if there are characters
/// beyond the basic multilingual plane.
fn utf16_order(a: &str, b: &str) -> std::cmp::Ordering {
    if a.bytes().chain(b.bytes()).any(|byte| byte >= 0xee) {
        a.encode_utf16().cmp(b.encode_utf16())
    } else {
        a.cmp(b)
    }
}

/// Checks a value that is to be recorded, and returns the length of the bytes that [`value_to_bytes`] would return.
///
/// # Errors
/// As [`check`].
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
        // Two brackets, and a comma after each element except the last.
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

/// Checks that a value can be recorded: canonical JSON would not change any number, and documents that have it inside can
/// be read again.
///
/// # Errors
/// [`CanonError::UnsafeNumber`] for the first number that it would change; [`CanonError::TooDeep`] for more than
/// [`VALUE_LEVELS_MAX`] levels.
pub fn check(value: &Value) -> Result<(), CanonError> {
    check_levels(value, VALUE_LEVELS_MAX)
}

/// [`check`] with another limit.
fn check_levels(value: &Value, levels_max: usize) -> Result<(), CanonError> {
    fn look(value: &Value, left: usize) -> Result<(), Option<&serde_json::Number>> {
        let below = || left.checked_sub(1).ok_or(None);
        match value {
            Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
            Value::Number(number) if safe(number) => Ok(()),
            Value::Number(number) => Err(Some(number)),
            Value::Array(items) => {
                let left = below()?;
                items.iter().try_for_each(|item| look(item, left))
            }
            Value::Object(map) => {
                let left = below()?;
                map.values().try_for_each(|item| look(item, left))
            }
        }
    }
    look(value, levels_max).map_err(|number| match number {
        Some(number) => CanonError::UnsafeNumber { number: number.to_string() },
        None => CanonError::TooDeep { levels_max },
    })
}

fn safe(number: &serde_json::Number) -> bool {
    if let Some(integer) = number.as_i64() {
        return (-INTEGER_MAX..=INTEGER_MAX).contains(&integer);
    }
    match number.as_f64() {
        Some(_) if number.is_u64() => false,
        // Without an exponent these would be read back as unsafe integers.
        Some(double) => {
            double.fract() != 0.0
                || double.abs() < 9_007_199_254_740_992.0
                || double.abs() >= EXPONENT_FROM
        }
        None => false,
    }
}

/// Refuses integer literals outside the safe range, however long: the JSON reader converts those that
/// do not fit into 64 bits to doubles, which cannot be distinguished from `1e30`.
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

/// Deserializes a [`Value`] and refuses duplicate keys.
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
