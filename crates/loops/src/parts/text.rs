//! Names, lines and longer text.

use crate::error::{Fault, Problem, shown};
use crate::near::is_control;
use crate::parts::shape::string;
use crate::yaml::Node;

/// The longest name.
pub const NAME_CHARS_MAX: usize = 64;
/// The longest title, reason or question, in characters.
pub const LINE_CHARS_MAX: usize = 500;
/// The longest prompt in a loop file, in characters.
pub const PROMPT_CHARS_MAX: usize = 100_000;

/// Whether a name of the file format may be this.
pub fn is_id(text: &str) -> bool {
    let allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.bytes().all(allowed)
}

/// A name: of a loop, a phase, a gate, a check, an agent.
pub fn id(node: &Node, key: &str, what: &'static str) -> Result<String, Fault> {
    let text = string(node, key)?;
    if !is_id(text) {
        return Err(bad_id(text, what).at(node.at));
    }
    Ok(text.to_owned())
}

pub fn bad_id(text: &str, what: &'static str) -> Problem {
    bad(text, what, "`a` to `z`, `0` to `9`, `_` and `-`")
}

/// Whether a verdict or a fact may be named so.
pub fn is_word(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.bytes().all(allowed)
}

pub fn bad_word(text: &str, what: &'static str) -> Problem {
    bad(text, what, "letters, digits, `_`, `-` and `.`")
}

fn bad(text: &str, what: &'static str, allowed: &'static str) -> Problem {
    Problem::BadName { what, found: shown(text), allowed, most: NAME_CHARS_MAX }
}

/// The name of a fact.
pub fn word(node: &Node, key: &str, what: &'static str) -> Result<String, Fault> {
    let text = string(node, key)?;
    if !is_word(text) {
        return Err(bad_word(text, what).at(node.at));
    }
    Ok(text.to_owned())
}

/// One line that a terminal may show.
pub fn line(node: &Node, key: &str) -> Result<String, Fault> {
    checked(node, key, LINE_CHARS_MAX, is_control)
}

/// Text of any number of lines.
pub fn prose(node: &Node, key: &str, most: usize) -> Result<String, Fault> {
    checked(node, key, most, |character| is_control(character) && !"\n\t".contains(character))
}

fn checked(
    node: &Node,
    key: &str,
    most: usize,
    refused: impl Fn(char) -> bool,
) -> Result<String, Fault> {
    let text = string(node, key)?;
    if text.trim().is_empty() {
        return Err(Problem::Empty(shown(key)).at(node.at));
    }
    if text.chars().nth(most).is_some() {
        return Err(Problem::TooLong { key: shown(key), most }.at(node.at));
    }
    if text.chars().any(refused) {
        return Err(Problem::Control(shown(key)).at(node.at));
    }
    Ok(text.to_owned())
}
