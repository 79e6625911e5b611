//! Globs, without a regular expression behind them: nothing to compile, nothing to blow up.
//!
//! `*` any run of characters, `?` one character, `[a-z]` and `[!a-z]` one of a set, `{a,b}` either,
//! `\` takes the next character as it is. In a path glob `*` and `?` stop at `/`, and `**` between
//! slashes stands for any number of folders: `a/**` matches `a` and all below it, `**/b` matches `b`
//! anywhere.

mod parse;

use std::ops::RangeInclusive;

pub(crate) use parse::tokenise;
use parse::{expand_braces, expand_folders};

/// The longest pattern.
pub(crate) const PATTERN_BYTES_MAX: usize = 1024;
/// The most patterns that one pattern with braces and `**` may stand for.
const ALTERNATIVES_MAX: usize = 64;

/// What a glob is matched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text: `*` crosses everything.
    Text,
    /// A path: `*` stays between two slashes.
    Path,
}

/// One step of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Char(char),
    Any { slash: bool },
    Star { slash: bool },
    Set { negated: bool, ranges: Vec<RangeInclusive<char>>, slash: bool },
}

impl Token {
    fn takes(&self, text: char) -> bool {
        match self {
            Self::Char(char) => *char == text,
            Self::Any { slash } | Self::Star { slash } => *slash || text != '/',
            Self::Set { negated, ranges, slash } => {
                (*slash || text != '/')
                    && ranges.iter().any(|range| range.contains(&text)) != *negated
            }
        }
    }

    /// Whether some character is taken by both; a pair of sets is taken to overlap.
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Char(char), other) | (other, Self::Char(char)) => other.takes(*char),
            (Self::Any { .. } | Self::Star { .. } | Self::Set { .. }, _) => true,
        }
    }

    const fn repeats(&self) -> bool {
        matches!(self, Self::Star { .. })
    }
}

/// A pattern, ready to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    text: String,
    alternatives: Vec<Vec<Token>>,
}

impl Glob {
    /// Reads a pattern.
    pub fn new(text: &str, kind: Kind) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a glob must not be empty".to_owned());
        }
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("a glob of {} bytes is over {PATTERN_BYTES_MAX}", text.len()));
        }
        let mut texts = Vec::new();
        expand_braces(&text.chars().collect::<Vec<_>>(), &mut texts)
            .map_err(|why| format!("the glob `{text}` is malformed: {why}"))?;
        let mut alternatives = Vec::new();
        for one in texts {
            let variants = match kind {
                Kind::Text => vec![one],
                Kind::Path => expand_folders(one)?,
            };
            for variant in variants {
                let tokens = tokenise(&variant, kind)
                    .map_err(|why| format!("the glob `{text}` is malformed: {why}"))?;
                alternatives.push(tokens);
            }
            if alternatives.len() > ALTERNATIVES_MAX {
                return Err(format!("the glob `{text}` stands for too many patterns"));
            }
        }
        Ok(Self { text: text.to_owned(), alternatives })
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &[char]) -> bool {
        self.alternatives.iter().any(|tokens| match_tokens(tokens, text))
    }

    /// Whether some text matches both this glob and a shell's file name pattern.
    pub fn meets(&self, pattern: &[Token]) -> bool {
        self.alternatives.iter().any(|tokens| tokens_meet(tokens, pattern))
    }

    /// Whether it is certain that all that matches `other` matches this one too.
    pub fn covers(&self, other: &Self) -> bool {
        other.alternatives.iter().all(|inner| {
            self.alternatives.iter().any(|outer| outer == inner || prefix_covers(outer, inner))
        })
    }
}

/// Whether `outer` is a literal followed by an all-taking star, and `inner` starts with that literal.
fn prefix_covers(outer: &[Token], inner: &[Token]) -> bool {
    let literal =
        inner.iter().map(|token| if let Token::Char(c) = token { Some(*c) } else { None });
    if let Some(text) = literal.collect::<Option<Vec<char>>>() {
        return match_tokens(outer, &text);
    }
    match outer.split_last() {
        Some((Token::Star { slash: true }, head)) => {
            head.iter().all(|token| matches!(token, Token::Char(_))) && inner.starts_with(head)
        }
        _ => false,
    }
}

/// Matches with two points to come back to: the last star that stops at slashes, and the last that does not.
fn match_tokens(tokens: &[Token], text: &[char]) -> bool {
    let (mut at, mut here) = (0, 0);
    let mut wide: Option<(usize, usize)> = None;
    let mut narrow: Option<(usize, usize)> = None;
    loop {
        match (tokens.get(at), text.get(here)) {
            (Some(Token::Star { slash: true }), _) => {
                wide = Some((at + 1, here));
                narrow = None;
                at += 1;
                continue;
            }
            (Some(Token::Star { slash: false }), _) => {
                narrow = Some((at + 1, here));
                at += 1;
                continue;
            }
            (Some(token), Some(char)) if token.takes(*char) => {
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

/// Walks both patterns at once and says whether both ends can be reached together.
fn tokens_meet(left: &[Token], right: &[Token]) -> bool {
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
            if other.is_some_and(Token::repeats) {
                mark(&mut row, here + 1);
            }
            if token.is_some_and(Token::repeats) {
                mark(&mut next, here);
            }
            let (Some(token), Some(other)) = (token, other) else { continue };
            if token.meets(other) {
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
mod tests {
    use super::*;

    fn matches(kind: Kind, pattern: &str, text: &str) -> bool {
        Glob::new(pattern, kind).unwrap().matches(&text.chars().collect::<Vec<_>>())
    }

    #[test]
    fn text_globs() {
        for (pattern, text, expected) in [
            ("git push -f*", "git push -fu origin", true),
            ("git push -f*", "git push origin -f", false),
            ("git push * -f*", "git push origin main -f", true),
            ("*", "", true),
            ("*/*", "shell/run", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "bx", false),
            ("{ls,cat} *", "cat x", true),
            ("{ls,cat} *", "rm x", false),
            ("{a,b{c,d}}e", "bde", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("*a*a*b", "aaaaaaaaab", true),
            ("*a*a*b", "aaaaaaaaac", false),
        ] {
            assert_eq!(matches(Kind::Text, pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn path_globs() {
        for (pattern, text, expected) in [
            (".git/hooks/**", ".git/hooks", true),
            (".git/hooks/**", ".git/hooks/a/b", true),
            (".git/hooks/**", ".git/hooksx", false),
            ("**/.env*", ".env", true),
            ("**/.env*", "a/b/.env.local", true),
            ("**/.env*", "a/b.env", false),
            ("**/.env*", ".env/deep", false),
            ("*", "a/b", false),
            ("**", "a/b", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/b", "a/x/y/bc", false),
            ("**/a*c/d", "x/abbc/abc/d", true),
            ("**/a*c/d", "x/ab/c/d", false),
        ] {
            assert_eq!(matches(Kind::Path, pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn malformed_globs_are_refused() {
        for (kind, text) in [
            (Kind::Text, ""),
            (Kind::Text, "[a"),
            (Kind::Text, "{a"),
            (Kind::Text, "a}"),
            (Kind::Text, "a\\"),
            (Kind::Path, "/etc"),
            (Kind::Path, "../x"),
            (Kind::Path, "a**/b"),
            (Kind::Path, "a//b"),
        ] {
            assert!(Glob::new(text, kind).is_err(), "{text}");
        }
        assert!(Glob::new(&"a".repeat(PATTERN_BYTES_MAX + 1), Kind::Text).is_err());
        assert!(Glob::new(&"{a,b}".repeat(7), Kind::Text).is_err());
    }

    #[test]
    fn patterns_meet_when_some_text_matches_both() {
        for (pattern, word, expected) in [
            ("**/.env*", ".e*", true),
            ("**/.env*", "*/.en?", true),
            ("**/*.pem", "*.rs", false),
            ("**/*.pem", "*", true),
            ("**/*.pem", "*.p[a-e]m", true),
            (".windlass/**", ".w*/x", true),
            (".windlass/**", "src/*", false),
        ] {
            let glob = Glob::new(pattern, Kind::Path).unwrap();
            let word = tokenise(&word.chars().collect::<Vec<_>>(), Kind::Path).unwrap();
            assert_eq!(glob.meets(&word), expected, "{pattern} with {word:?}");
        }
    }

    #[test]
    fn covering_is_only_claimed_when_certain() {
        for (outer, inner, expected) in [
            ("git *", "git push *", true),
            ("git push *", "git *", false),
            ("*", "anything", true),
            ("{ls,cat}", "ls", true),
            ("ls", "{ls,cat}", false),
            ("a?", "a[bc]", false),
        ] {
            let glob = |text| Glob::new(text, Kind::Text).unwrap();
            assert_eq!(glob(outer).covers(&glob(inner)), expected, "{outer} over {inner}");
        }
    }
}
