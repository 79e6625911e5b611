//! The matches of one file.

use std::io;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use crate::limits::{FILE_MATCHES_MAX, MATCH_CHARS_MAX};

/// How much is shown before the match in a line that is cut.
const CHARS_BEFORE: usize = MATCH_CHARS_MAX / 4;

/// A line that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) text: String,
    pub(crate) is_match: bool,
    /// Whether only a part of it is shown.
    pub(crate) is_cut: bool,
}

/// Collects the matches of one file.
pub(crate) struct Matches<'a> {
    matcher: &'a RegexMatcher,
    /// Whether lines are wanted, or only whether there are any.
    keep_lines: bool,
    pub(crate) lines: Vec<Line>,
    pub(crate) count: usize,
    pub(crate) has_more: bool,
    pub(crate) is_binary: bool,
}

impl<'a> Matches<'a> {
    pub(crate) fn new(matcher: &'a RegexMatcher, keep_lines: bool) -> Self {
        let lines = Vec::new();
        Self { matcher, keep_lines, lines, count: 0, has_more: false, is_binary: false }
    }

    fn add(&mut self, bytes: &[u8], number: Option<u64>, is_match: bool) {
        if self.keep_lines {
            let number = number.unwrap_or_default();
            let (text, is_cut) = shown(self.matcher, bytes);
            self.lines.push(Line { number, text, is_match, is_cut });
        }
    }
}

impl Sink for Matches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.count == FILE_MATCHES_MAX {
            self.has_more = true;
            return Ok(false);
        }
        self.count += 1;
        self.add(found.bytes(), found.line_number(), true);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.add(found.bytes(), found.line_number(), false);
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }
}

/// Keeps the first `matches_max` matches and at most `context` lines after the last one.
pub(crate) fn truncate(lines: &mut Vec<Line>, matches_max: usize, context: u64) {
    let mut matches = 0;
    let mut last = 0;
    let end = lines.iter().position(|line| {
        if line.is_match {
            matches += 1;
            last = line.number;
        }
        matches > matches_max || matches == matches_max && line.number > last + context
    });
    lines.truncate(end.unwrap_or(lines.len()));
    // Lines before a match that was cut off.
    let last = lines.iter().rev().find(|line| line.is_match).map_or(0, |line| line.number);
    while lines.last().is_some_and(|line| !line.is_match && line.number > last + context) {
        lines.pop();
    }
}

/// The line as text; of a long one, what is around the first match. Also whether it was cut.
fn shown(matcher: &RegexMatcher, line: &[u8]) -> (String, bool) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // No character is longer than four bytes; what is not UTF-8 counts as characters of one byte.
    if line.len() <= MATCH_CHARS_MAX {
        return (String::from_utf8_lossy(line).into_owned(), false);
    }
    // Without a match, as in a line of context, its beginning is shown.
    let start = matcher.find(line).ok().flatten().map_or(0, |found| found.start());
    let before = line.get(start.saturating_sub(4 * CHARS_BEFORE)..start).unwrap_or_default();
    let is_continuation = |byte: &&u8| **byte & 0xc0 == 0x80;
    let skipped = before.iter().take(3).take_while(is_continuation).count();
    let before = String::from_utf8_lossy(before.get(skipped..).unwrap_or_default());
    let left_out = before.chars().count().saturating_sub(CHARS_BEFORE);
    let before: String = before.chars().skip(left_out).collect();
    let chars = MATCH_CHARS_MAX - before.chars().count();
    // One character more than shown, so that one that was cut in two is not among them.
    let rest = line.get(start..).unwrap_or_default();
    let rest = String::from_utf8_lossy(rest.get(..4 * (chars + 1)).unwrap_or(rest));
    let after: String = rest.chars().take(chars).collect();
    let cut_before = if start > before.len() { "…" } else { "" };
    let cut_after = if start + after.len() < line.len() { "…" } else { "" };
    let is_cut = !cut_before.is_empty() || !cut_after.is_empty();
    (format!("{cut_before}{before}{after}{cut_after}"), is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_the_match() {
        let matcher = RegexMatcher::new("needle").unwrap();
        for (before, after) in [(0, 0), (0, 1_000), (50, 1_000), (1_000, 1_000), (1_000, 0)] {
            for fill in ["x", "ä", "\u{1f600}"] {
                let line = format!("{}needle{}\r\n", fill.repeat(before), fill.repeat(after));
                let (text, is_cut) = shown(&matcher, line.as_bytes());
                assert_eq!(is_cut, text.contains('…'));
                assert!(text.contains("needle"), "{text}");
                assert!(!text.contains('\u{fffd}'), "{text}");
                assert!(text.chars().count() <= MATCH_CHARS_MAX + 2);
                assert_eq!(text.starts_with('…'), before > CHARS_BEFORE, "{before} {after} {text}");
                assert_eq!(text.ends_with('…'), after == 1_000, "{before} {after} {text}");
            }
        }
        assert_eq!(shown(&matcher, b"a\xff needle\n"), ("a\u{fffd} needle".to_owned(), false));
    }

    #[test]
    fn only_the_context_of_the_matches_is_kept() {
        let line = |number, is_match| Line { number, text: String::new(), is_match, is_cut: false };
        let all = [(1, false), (2, true), (3, false), (5, false), (6, true), (7, false)];
        let kept = |matches_max| {
            let mut lines: Vec<Line> = all.iter().map(|(number, is)| line(*number, *is)).collect();
            truncate(&mut lines, matches_max, 1);
            lines.iter().map(|line| line.number).collect::<Vec<u64>>()
        };
        assert_eq!(kept(2), [1, 2, 3, 5, 6, 7]);
        assert_eq!(kept(1), [1, 2, 3]);
    }
}
