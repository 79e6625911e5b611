//! Writes a JSON value as block-style YAML whose bytes depend on the value alone.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};
use thiserror::Error;
use windlass_kernel::canon::INTEGER_MAX;

use super::DEPTH_MAX;

/// YAML limits a key on one line to 1024 characters.
const KEY_CHARS_MAX: usize = 1000;

/// Why a value cannot be written as YAML.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EmitError {
    /// Lists and objects are nested too deep.
    #[error("the value is nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// A key is too long for some readers.
    #[error("the key that starts with `{0}` is too long")]
    KeyTooLong(String),
    /// Other readers would round the number.
    #[error("the number `{0}` is beyond ±(2^53−1)")]
    UnsafeNumber(String),
}

/// Writes `value` as one YAML document that ends with a line feed.
///
/// Keys are sorted by their characters, lists have the indent of their key, and every string that
/// some reader might take for another type is quoted.
///
/// # Errors
/// [`EmitError`] when the value is too deep, or has a key or number that readers would not preserve.
pub fn emit(value: &Value) -> Result<String, EmitError> {
    let mut out = String::new();
    match block(value) {
        Some(Block::Object(map)) => object(&mut out, map, 0, 0)?,
        Some(Block::Array(items)) => array(&mut out, items, 0, 0)?,
        None => {
            inline(&mut out, value)?;
            out.push('\n');
        }
    }
    Ok(out)
}

/// A list or object with content, which takes lines of its own.
enum Block<'a> {
    Object(&'a Map<String, Value>),
    Array(&'a [Value]),
}

fn block(value: &Value) -> Option<Block<'_>> {
    match value {
        Value::Object(map) if !map.is_empty() => Some(Block::Object(map)),
        Value::Array(items) if !items.is_empty() => Some(Block::Array(items)),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => None,
    }
}

/// Writes the pairs of an object; the first one continues the current line.
fn object(
    out: &mut String,
    map: &Map<String, Value>,
    indent: usize,
    depth: usize,
) -> Result<(), EmitError> {
    // Not left to the map: another crate can enable the feature that preserves insertion order.
    let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
    pairs.sort_by_key(|(key, _)| *key);
    for (position, (key, value)) in pairs.into_iter().enumerate() {
        if position > 0 {
            pad(out, indent);
        }
        let written = scalar(key);
        if written.chars().count() > KEY_CHARS_MAX {
            return Err(EmitError::KeyTooLong(key.chars().take(40).collect()));
        }
        out.push_str(&written);
        out.push(':');
        match block(value) {
            Some(Block::Object(map)) => {
                out.push('\n');
                pad(out, indent + 2);
                object(out, map, indent + 2, deeper(depth)?)?;
            }
            Some(Block::Array(items)) => {
                out.push('\n');
                pad(out, indent);
                array(out, items, indent, deeper(depth)?)?;
            }
            None => {
                out.push(' ');
                inline(out, value)?;
                out.push('\n');
            }
        }
    }
    Ok(())
}

/// Writes the items of a list; the first one continues the current line.
fn array(out: &mut String, items: &[Value], indent: usize, depth: usize) -> Result<(), EmitError> {
    for (position, value) in items.iter().enumerate() {
        if position > 0 {
            pad(out, indent);
        }
        out.push_str("- ");
        match block(value) {
            Some(Block::Object(map)) => {
                object(out, map, indent + 2, deeper(depth)?)?;
            }
            Some(Block::Array(items)) => {
                array(out, items, indent + 2, deeper(depth)?)?;
            }
            None => {
                inline(out, value)?;
                out.push('\n');
            }
        }
    }
    Ok(())
}

/// The next depth, if it is allowed. The outermost value is level one.
const fn deeper(depth: usize) -> Result<usize, EmitError> {
    if depth + 2 > DEPTH_MAX { Err(EmitError::TooDeep) } else { Ok(depth + 1) }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Writes scalars and empty lists and objects.
fn inline(out: &mut String, value: &Value) -> Result<(), EmitError> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&plain_number(number)?),
        Value::String(text) => out.push_str(&scalar(text)),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
    Ok(())
}

/// Writes a number so that YAML 1.1 and 1.2 readers agree: a float has a point, and its exponent
/// a sign.
fn plain_number(number: &Number) -> Result<String, EmitError> {
    let text = number.to_string();
    if let Some(integer) = number.as_i64() {
        let safe = (-INTEGER_MAX..=INTEGER_MAX).contains(&integer);
        return if safe { Ok(text) } else { Err(EmitError::UnsafeNumber(text)) };
    }
    if number.is_u64() {
        return Err(EmitError::UnsafeNumber(text));
    }
    let (digits, exponent) =
        text.split_once(['e', 'E']).map_or((text.as_str(), None), |(d, e)| (d, Some(e)));
    let point = if digits.contains('.') { "" } else { ".0" };
    Ok(match exponent {
        None => format!("{digits}{point}"),
        Some(exponent) if exponent.starts_with(['-', '+']) => format!("{digits}{point}e{exponent}"),
        Some(exponent) => format!("{digits}{point}e+{exponent}"),
    })
}

/// Writes a string: plain if every reader takes it for a string, in single quotes if all characters
/// are visible, otherwise in double quotes with escapes.
fn scalar(text: &str) -> String {
    if is_plain(text) {
        text.to_owned()
    } else if text.chars().all(is_visible) {
        format!("'{}'", text.replace('\'', "''"))
    } else {
        escaped(text)
    }
}

/// Words that some readers take for null, a boolean or a number.
const RESERVED: [&str; 13] =
    ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity", "none"];

fn is_plain(text: &str) -> bool {
    let first = text.bytes().next();
    if !first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'/') {
        return false;
    }
    if text.ends_with([' ', ':']) || text.contains(": ") {
        return false;
    }
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b" _-./+@=(),;:".contains(&byte);
    text.bytes().all(inside) && !RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a character is visible: not a control character, a line end, of zero width, or one that
/// changes the direction of text. People decide by what they read here.
const fn is_visible(char: char) -> bool {
    !matches!(char,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn escaped(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        let point = u32::from(char);
        // Writing to a string cannot fail.
        let _ = match char {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\0' => out.write_str("\\0"),
            _ if is_visible(char) => out.write_char(char),
            _ if point <= 0xff => write!(out, "\\x{point:02x}"),
            _ if point <= 0xffff => write!(out, "\\u{point:04x}"),
            _ => write!(out, "\\U{point:08x}"),
        };
    }
    out.push('"');
    out
}
