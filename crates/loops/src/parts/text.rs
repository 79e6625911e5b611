//! Names, lines and longer text.

use windlass_text::is_control;
use windlass_text::yaml::Node;

use crate::error::{Diagnostic, Problem, shown};
use crate::parts::fields::string;

/// The longest name.
pub const NAME_CHARS_MAX: usize = 64;
/// The longest title, reason or question, in characters.
pub const LINE_CHARS_MAX: usize = 500;
/// The longest prompt in a loop file, in characters.
pub const PROMPT_CHARS_MAX: usize = 100_000;

/// Whether this is a valid id.
pub fn is_id(text: &str) -> bool {
    let allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.bytes().all(allowed)
}

/// An id: of a loop, a phase, a gate, a check, an agent.
pub fn id(node: &Node, key: &str, what: &'static str) -> Result<String, Diagnostic> {
    let text = string(node, key)?;
    if !is_id(text) {
        return Err(bad_id(text, what).at(node.position));
    }
    Ok(text.to_owned())
}

pub fn bad_id(text: &str, what: &'static str) -> Problem {
    bad(text, what, "`a` to `z`, `0` to `9`, `_` and `-`")
}

/// Whether this is a valid name of a verdict or a fact.
pub fn is_word(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.bytes().all(allowed)
}

pub fn bad_word(text: &str, what: &'static str) -> Problem {
    bad(text, what, "letters, digits, `_`, `-` and `.`")
}

fn bad(text: &str, what: &'static str, allowed: &'static str) -> Problem {
    Problem::BadName { what, found: shown(text), allowed, max: NAME_CHARS_MAX }
}

/// A name such as that of a fact.
pub fn word(node: &Node, key: &str, what: &'static str) -> Result<String, Diagnostic> {
    let text = string(node, key)?;
    if !is_word(text) {
        return Err(bad_word(text, what).at(node.position));
    }
    Ok(text.to_owned())
}

/// One line without control characters.
pub fn line(node: &Node, key: &str) -> Result<String, Diagnostic> {
    checked(node, key, LINE_CHARS_MAX, is_control)
}

/// Text of any number of lines.
pub fn prose(node: &Node, key: &str, max: usize) -> Result<String, Diagnostic> {
    checked(node, key, max, |character| is_control(character) && !"\n\t".contains(character))
}

fn checked(
    node: &Node,
    key: &str,
    max: usize,
    refused: impl Fn(char) -> bool,
) -> Result<String, Diagnostic> {
    let text = string(node, key)?;
    if text.trim().is_empty() {
        return Err(Problem::Empty(shown(key)).at(node.position));
    }
    if text.chars().nth(max).is_some() {
        return Err(Problem::TooLong { key: shown(key), max }.at(node.position));
    }
    if text.chars().any(refused) {
        return Err(Problem::Control(shown(key)).at(node.position));
    }
    Ok(text.to_owned())
}
