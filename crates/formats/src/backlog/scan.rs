//! Splits a Markdown text into lines and blanks code fences and comments.

use super::{Problem, ProblemKind};

/// One line of the text.
pub(super) struct Line<'a> {
    /// Its number, from 1.
    pub(super) number: usize,
    /// Where it starts in the text, in bytes.
    pub(super) start: usize,
    /// The line itself, without its end.
    pub(super) raw: &'a str,
    /// The line with everything inside fences and comments blanked; as long as `raw` in bytes.
    pub(super) visible: String,
}

impl Line<'_> {
    /// The column of a byte of this line, in characters from 1.
    pub(super) fn column(&self, byte: usize) -> usize {
        self.raw.get(..byte).map_or(1, |before| before.chars().count() + 1)
    }
}

/// What the scanner is inside of.
enum Inside {
    Text,
    Fence { marker: char, length: usize, line: usize },
    Comment { line: usize, byte: usize },
}

/// Splits the text into lines.
pub(super) fn lines(text: &str) -> (Vec<Line<'_>>, Option<Problem>) {
    let mut inside = Inside::Text;
    let mut lines = Vec::new();
    let mut start = 0;
    for (number, whole) in (1..).zip(text.split_inclusive('\n')) {
        let raw = whole.strip_suffix('\n').unwrap_or(whole);
        let raw = raw.strip_suffix('\r').unwrap_or(raw);
        let visible = visible(raw, number, &mut inside);
        lines.push(Line { number, start, raw, visible });
        start += whole.len();
    }
    let open = match inside {
        Inside::Text => None,
        Inside::Fence { line, .. } => Some((line, None, ProblemKind::OpenFence)),
        Inside::Comment { line, byte } => Some((line, Some(byte), ProblemKind::OpenComment)),
    };
    let problem = open.map(|(number, byte, kind)| {
        // Computed only once, since a line can open many comments.
        let column = lines.get(number - 1).map_or(1, |line: &Line<'_>| {
            line.column(byte.unwrap_or(line.raw.len() - line.raw.trim_start().len()))
        });
        Problem { line: number, column, kind }
    });
    (lines, problem)
}

fn blank(bytes: usize) -> String {
    " ".repeat(bytes)
}

fn visible(raw: &str, number: usize, inside: &mut Inside) -> String {
    match inside {
        Inside::Fence { marker, length, .. } => {
            let is_end = fence(raw).is_some_and(|(found, count, rest)| {
                found == *marker && count >= *length && rest.trim().is_empty()
            });
            if is_end {
                *inside = Inside::Text;
            }
            return blank(raw.len());
        }
        Inside::Text => {
            if let Some((marker, length, rest)) = fence(raw)
                // Else it is code inside a line, such as ```a```.
                && !(marker == '`' && rest.contains('`'))
            {
                *inside = Inside::Fence { marker, length, line: number };
                return blank(raw.len());
            }
        }
        Inside::Comment { .. } => {}
    }
    without_comments(raw, number, inside)
}

/// The marker of a code fence, its length, and the text after it.
fn fence(raw: &str) -> Option<(char, usize, &str)> {
    let text = raw.trim_start();
    let marker = text.chars().next().filter(|char| matches!(char, '`' | '~'))?;
    let rest = text.trim_start_matches(marker);
    let length = text.len() - rest.len();
    (length >= 3).then_some((marker, length, rest))
}

fn without_comments(raw: &str, number: usize, inside: &mut Inside) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    // A byte order mark is not part of the first line.
    if number == 1
        && let Some(after) = rest.strip_prefix('\u{feff}')
    {
        out.push_str(&blank(rest.len() - after.len()));
        rest = after;
    }
    while let Some(char) = rest.chars().next() {
        let taken = if let Inside::Comment { .. } = inside {
            let end = rest.find("-->").map(|at| at + 3);
            if end.is_some() {
                *inside = Inside::Text;
            }
            let taken = end.unwrap_or(rest.len());
            out.push_str(&blank(taken));
            taken
        } else if rest.starts_with("<!--") {
            *inside = Inside::Comment { line: number, byte: raw.len() - rest.len() };
            out.push_str(&blank(4));
            4
        } else {
            // A comment marker inside code does not count.
            let taken = if char == '`' { code_span(rest) } else { char.len_utf8() };
            out.push_str(rest.get(..taken).unwrap_or_default());
            taken
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// The longest run of backticks that starts code inside a line. Each length is searched in vain at
/// most once, so the time for a line is proportional to its length.
const TICKS_MAX: usize = 8;

/// The length of the code that starts here, or of its backticks when it does not end in the line.
fn code_span(text: &str) -> usize {
    let after = text.trim_start_matches('`');
    let ticks = text.len() - after.len();
    let mut rest = if ticks > TICKS_MAX { "" } else { after };
    while let Some(at) = rest.find('`') {
        let run = rest.get(at..).unwrap_or_default();
        let behind = run.trim_start_matches('`');
        if run.len() - behind.len() == ticks {
            return text.len() - behind.len();
        }
        rest = behind;
    }
    ticks
}
