//! The one glob dialect: policy rules, governance rules, outputs and scopes all use it.
//!
//! `*` matches any run of characters, `?` one character, `[a-z]` and `[!a-z]` one of a set, `{a,b}`
//! either alternative; `\` takes the next character literally. In a path glob `*` and `?` stop at
//! `/`, and `**` between slashes matches any number of folders: `a/**` matches `a` and everything
//! below it, `**/b` matches `b` anywhere.
//!
//! Matching works on tokens rather than a regular expression, because policy also asks whether one
//! glob covers another and whether a glob and a shell pattern can match the same path.

mod parse;

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use parse::tokenize;
use parse::{expand_braces, expand_folders};

use crate::printable;

/// The longest pattern: that of the longest path.
const PATTERN_BYTES_MAX: usize = 4096;
/// The most patterns that one pattern with braces and `**` may expand to.
const ALTERNATIVES_MAX: usize = 64;

/// What a glob is matched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GlobKind {
    /// Any text: `*` matches across slashes.
    Text,
    /// A path: `*` stays between two slashes.
    Path,
}

/// A pattern that cannot be used as a glob.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GlobError {
    /// It is empty.
    #[error("a glob must not be empty")]
    Empty,
    /// It is too long.
    #[error("a glob of {0} bytes is longer than {PATTERN_BYTES_MAX}")]
    TooLong(usize),
    /// It is malformed, or expands to too many patterns.
    #[error("the glob `{0}` is malformed: {1}")]
    Malformed(String, String),
    /// It could match a path outside the workspace.
    #[error("the pattern `{0}` does not stay inside the workspace")]
    Outside(String),
}

/// One element of a pattern. `slash` says whether it matches `/` too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobToken {
    /// This character.
    Char(char),
    /// Any one character.
    Any {
        /// Whether `/` is included.
        slash: bool,
    },
    /// Any run of characters.
    Star {
        /// Whether `/` is included.
        slash: bool,
    },
    /// One character of a set, or one outside it.
    Set {
        /// Whether the character must be outside the ranges.
        negated: bool,
        /// The set.
        ranges: Vec<RangeInclusive<char>>,
        /// Whether `/` can be included.
        slash: bool,
    },
}

impl GlobToken {
    fn matches(&self, text: char) -> bool {
        match self {
            Self::Char(char) => *char == text,
            Self::Any { slash } | Self::Star { slash } => *slash || text != '/',
            Self::Set { negated, ranges, slash } => {
                (*slash || text != '/')
                    && ranges.iter().any(|range| range.contains(&text)) != *negated
            }
        }
    }

    /// Whether some character may match both; two sets are assumed to overlap.
    fn may_overlap(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Char(char), other) | (other, Self::Char(char)) => other.matches(*char),
            (Self::Any { .. } | Self::Star { .. } | Self::Set { .. }, _) => true,
        }
    }

    const fn repeats(&self) -> bool {
        matches!(self, Self::Star { .. })
    }
}

/// A text that globs are matched with, prepared once for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobText {
    chars: Vec<char>,
    /// The ASCII characters that it contains.
    letters: u128,
}

impl GlobText {
    /// Prepares a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        // The iterator alone would reserve a quarter of it.
        let mut chars = Vec::with_capacity(text.len());
        chars.extend(text.chars());
        let letters = chars.iter().fold(0, |all, char| all | letter(*char));
        Self { chars, letters }
    }

    /// Its characters.
    #[must_use]
    pub fn chars(&self) -> &[char] {
        &self.chars
    }
}

/// A pattern, parsed at its first use if not before: one that was serialised was parsed by whoever made it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "(GlobKind, String)", into = "(GlobKind, String)")]
pub struct Glob {
    pattern: String,
    kind: GlobKind,
    parsed: OnceLock<Parsed>,
}

impl From<(GlobKind, String)> for Glob {
    fn from((kind, pattern): (GlobKind, String)) -> Self {
        Self { pattern, kind, parsed: OnceLock::new() }
    }
}

impl From<Glob> for (GlobKind, String) {
    fn from(glob: Glob) -> Self {
        (glob.kind, glob.pattern)
    }
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        (&self.pattern, self.kind) == (&other.pattern, other.kind)
    }
}

impl Eq for Glob {}

/// A parsed pattern.
#[derive(Clone, Debug)]
struct Parsed {
    alternatives: Vec<Vec<GlobToken>>,
    /// For each alternative, the ASCII characters without which it cannot match.
    letters: Vec<u128>,
    /// The ASCII characters without which no alternative can match.
    common: u128,
}

impl Parsed {
    fn new(pattern: &str, kind: GlobKind) -> Result<Self, GlobError> {
        if pattern.is_empty() {
            return Err(GlobError::Empty);
        }
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(GlobError::TooLong(pattern.len()));
        }
        let malformed = |why| GlobError::Malformed(printable(pattern, 80), why);
        let mut expanded = Vec::new();
        expand_braces(&pattern.chars().collect::<Vec<_>>(), &mut expanded).map_err(malformed)?;
        let mut alternatives = Vec::new();
        for alternative in expanded {
            let variants = match kind {
                GlobKind::Text => vec![alternative],
                GlobKind::Path => expand_folders(alternative).map_err(malformed)?,
            };
            for variant in variants {
                alternatives.push(tokenize(&variant, kind).map_err(malformed)?);
            }
            if alternatives.len() > ALTERNATIVES_MAX {
                return Err(malformed("it expands to too many patterns".to_owned()));
            }
        }
        let needed = |tokens: &Vec<GlobToken>| {
            let chars = tokens.iter().map(|token| match token {
                GlobToken::Char(char) => letter(*char),
                GlobToken::Any { .. } | GlobToken::Star { .. } | GlobToken::Set { .. } => 0,
            });
            chars.fold(0, |all, one| all | one)
        };
        let letters: Vec<u128> = alternatives.iter().map(needed).collect();
        let common = letters.iter().fold(u128::MAX, |all, one| all & one);
        Ok(Self { alternatives, letters, common })
    }
}

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`GlobError`] when it is empty, too long or malformed.
    pub fn new(pattern: &str, kind: GlobKind) -> Result<Self, GlobError> {
        let parsed = OnceLock::from(Parsed::new(pattern, kind)?);
        Ok(Self { pattern: pattern.to_owned(), kind, parsed })
    }

    fn parsed(&self) -> &Parsed {
        self.parsed.get_or_init(|| {
            // A pattern that cannot be parsed, which was ruled out before, matches nothing.
            let nothing = |_| Parsed { alternatives: Vec::new(), letters: Vec::new(), common: 0 };
            Parsed::new(&self.pattern, self.kind).unwrap_or_else(nothing)
        })
    }

    /// Whether a text cannot match, as far as the pattern shows without being parsed.
    fn surely_differs(&self, text: &GlobText) -> bool {
        let mut chars = text.chars.iter();
        for char in self.pattern.chars() {
            match char {
                // In a path, `a/**` also matches `a`.
                '*' | '?' | '[' | ']' | '{' | '}' | ',' | '\\' | '/' => break,
                char if chars.next() != Some(&char) => return true,
                _ => {}
            }
        }
        // What these two mean depends on where they stand.
        !self.pattern.contains(['[', '\\'])
            && !has_letters(&mut self.pattern.chars(), text.letters, true)
    }

    /// Parses a pattern for the files of a workspace, which must be relative and portable: without
    /// `..`, `~`, drive letters and backslashes.
    ///
    /// # Errors
    /// [`GlobError::Outside`], and as [`Glob::new`].
    pub fn in_workspace(pattern: &str) -> Result<Self, GlobError> {
        let outside = pattern.starts_with('~')
            || pattern.contains(['\\', ':', '\0', '\n'])
            || pattern.split('/').any(|part| matches!(part, "" | "." | ".."));
        if outside {
            return Err(GlobError::Outside(printable(pattern, 80)));
        }
        Self::new(pattern, GlobKind::Path)
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether the whole of `text` matches.
    #[must_use]
    pub fn matches(&self, text: &GlobText) -> bool {
        if self.parsed.get().is_none() && self.surely_differs(text) {
            return false;
        }
        let (missing, parsed) = (!text.letters, self.parsed());
        if parsed.common & missing != 0 {
            return false;
        }
        let mut alternatives = parsed.alternatives.iter().zip(&parsed.letters);
        alternatives
            .any(|(tokens, needed)| needed & missing == 0 && match_tokens(tokens, &text.chars))
    }

    /// Whether the whole of `text` matches.
    #[must_use]
    pub fn matches_str(&self, text: &str) -> bool {
        self.matches(&GlobText::new(text))
    }

    /// Whether some text may match both this glob and another pattern.
    #[must_use]
    pub fn intersects(&self, pattern: &[GlobToken]) -> bool {
        self.parsed().alternatives.iter().any(|tokens| tokens_intersect(tokens, pattern))
    }

    /// Whether everything that matches `other` certainly matches this glob too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.parsed().alternatives.iter().all(|inner| {
            self.parsed()
                .alternatives
                .iter()
                .any(|outer| outer == inner || prefix_covers(outer, inner))
        })
    }
}

/// The bit of an ASCII character; others have none.
const fn letter(char: char) -> u128 {
    if char.is_ascii() { 1 << (char as u32) } else { 0 }
}

/// Whether a text with these letters has all that a pattern, or one of the alternatives of a brace, consists of. Reads
/// up to the end of the brace; a pattern that was parsed before has few of them.
fn has_letters(pattern: &mut std::str::Chars<'_>, letters: u128, outermost: bool) -> bool {
    let (mut any, mut all) = (false, true);
    while let Some(char) = pattern.next() {
        match char {
            '{' => all &= has_letters(pattern, letters, false),
            ',' if !outermost => {
                any |= all;
                all = true;
            }
            '}' if !outermost => break,
            // `a/**` also matches `a`.
            '*' | '?' | '/' => {}
            char => all &= !char.is_ascii() || letter(char) & letters != 0,
        }
    }
    any || all
}

/// Whether `outer` is a literal followed by a star that matches everything, and `inner` starts with
/// that literal; or `inner` is a literal that `outer` matches.
fn prefix_covers(outer: &[GlobToken], inner: &[GlobToken]) -> bool {
    let literal =
        inner.iter().map(|token| if let GlobToken::Char(c) = token { Some(*c) } else { None });
    if let Some(text) = literal.collect::<Option<Vec<char>>>() {
        return match_tokens(outer, &text);
    }
    match outer.split_last() {
        Some((GlobToken::Star { slash: true }, head)) => {
            head.iter().all(|token| matches!(token, GlobToken::Char(_))) && inner.starts_with(head)
        }
        _ => false,
    }
}

/// Backtracks to at most two positions: the last star that stops at slashes, and the last that does
/// not.
fn match_tokens(tokens: &[GlobToken], text: &[char]) -> bool {
    let (mut at, mut here) = (0, 0);
    let mut wide: Option<(usize, usize)> = None;
    let mut narrow: Option<(usize, usize)> = None;
    loop {
        match (tokens.get(at), text.get(here)) {
            (Some(GlobToken::Star { slash: true }), _) => {
                wide = Some((at + 1, here));
                narrow = None;
                at += 1;
                continue;
            }
            (Some(GlobToken::Star { slash: false }), _) => {
                narrow = Some((at + 1, here));
                at += 1;
                continue;
            }
            (Some(token), Some(char)) if token.matches(*char) => {
                at += 1;
                here += 1;
                continue;
            }
            (None, None) => return true,
            (Some(_) | None, _) => {}
        }
        if let Some((to, from)) = narrow {
            if text.get(from).is_some_and(|char| *char != '/') {
                narrow = Some((to, from + 1));
                (at, here) = (to, from + 1);
                continue;
            }
            narrow = None;
        }
        match wide {
            Some((to, from)) if from < text.len() => {
                wide = Some((to, from + 1));
                (at, here) = (to, from + 1);
            }
            Some(_) | None => return false,
        }
    }
}

/// Walks both patterns at once and returns whether both ends can be reached together.
fn tokens_intersect(left: &[GlobToken], right: &[GlobToken]) -> bool {
    // One row per position in `left`; a row holds which positions of `right` can be reached.
    let mut row = vec![false; right.len() + 1];
    if let Some(first) = row.first_mut() {
        *first = true;
    }
    for at in 0..=left.len() {
        let token = left.get(at);
        let mut next = vec![false; right.len() + 1];
        for here in 0..=right.len() {
            if !row.get(here).copied().unwrap_or(false) {
                continue;
            }
            let other = right.get(here);
            if other.is_some_and(GlobToken::repeats) {
                mark(&mut row, here + 1);
            }
            if token.is_some_and(GlobToken::repeats) {
                mark(&mut next, here);
            }
            let (Some(token), Some(other)) = (token, other) else { continue };
            if token.may_overlap(other) {
                match (token.repeats(), other.repeats()) {
                    (true, true) => {}
                    (true, false) => mark(&mut row, here + 1),
                    (false, true) => mark(&mut next, here),
                    (false, false) => mark(&mut next, here + 1),
                }
            }
        }
        if at == left.len() {
            return row.last().copied().unwrap_or(false);
        }
        row = next;
    }
    false
}

fn mark(row: &mut [bool], at: usize) {
    if let Some(cell) = row.get_mut(at) {
        *cell = true;
    }
}

#[cfg(test)]
mod tests;
