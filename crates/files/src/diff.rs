//! The unified diff of an edit, made from the parts that it kept: linear in the size of the texts.

use std::fmt::Write as _;
use std::ops::Range;

use crate::limits::DIFF_LINE_CHARS_MAX;
use crate::output::{first_chars, json_bytes};
use crate::segments::Segments;

/// How many unchanged lines are shown around a change.
const CONTEXT_LINES: usize = 3;

/// Lines that were replaced by others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    old: Range<usize>,
    new: Range<usize>,
}

/// The diff of two texts, and whether it is whole; it takes at most `bytes_max` bytes as JSON.
pub(crate) fn diff(
    old: &[u8],
    new: &[u8],
    segments: &Segments,
    bytes_max: usize,
) -> (String, bool) {
    let mut blocks = blocks(old, new, segments);
    blocks.retain(|block| old.get(block.old.clone()) != new.get(block.new.clone()));
    let mut out = String::new();
    let mut bytes = 0;
    let (mut old_line, mut new_line) = (1, 1);
    // How far lines are counted.
    let (mut old_counted, mut new_counted) = (0, 0);
    let mut rest = blocks.as_slice();
    while let Some(first) = rest.first() {
        let together = (1..rest.len())
            .find(|next| {
                let between = rest.get(next - 1).zip(rest.get(*next));
                between.is_none_or(|(one, other)| is_far(old, one.old.end, other.old.start))
            })
            .unwrap_or(rest.len());
        let (hunk, others) = rest.split_at_checked(together).unwrap_or((rest, &[]));
        rest = others;
        let start = back(old, old_counted, first.old.start);
        let new_start = first.new.start - (first.old.start - start);
        old_line += lines_in(part(old, old_counted..start));
        new_line += lines_in(part(new, new_counted..new_start));
        let last = hunk.last().unwrap_or(first);
        let end = forward(old, last.old.end);
        let new_end = last.new.end + (end - last.old.end);
        let mut text = String::new();
        let (old_count, new_count) =
            (lines_in(part(old, start..end)), lines_in(part(new, new_start..new_end)));
        let header = |line: usize, count: usize| {
            // An empty side is named by the line before it.
            if count == 0 { format!("{},0", line - 1) } else { format!("{line},{count}") }
        };
        let (from, to) = (header(old_line, old_count), header(new_line, new_count));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "@@ -{from} +{to} @@");
        let mut shown = start;
        for block in hunk {
            add_lines(&mut text, ' ', part(old, shown..block.old.start));
            add_lines(&mut text, '-', part(old, block.old.clone()));
            add_lines(&mut text, '+', part(new, block.new.clone()));
            shown = block.old.end;
            if bytes + text.len() > bytes_max {
                break;
            }
        }
        add_lines(&mut text, ' ', part(old, shown..end.max(shown)));
        for line in text.split_inclusive('\n') {
            bytes += json_bytes(line);
            if bytes > bytes_max {
                return (out, false);
            }
            out.push_str(line);
        }
        // The lines of this hunk are counted; what follows is unchanged up to the next one.
        old_line += old_count;
        new_line += new_count;
        (old_counted, new_counted) = (end, new_end);
    }
    (out, true)
}

fn part(text: &[u8], range: Range<usize>) -> &[u8] {
    text.get(range).unwrap_or_default()
}

/// The number of lines, the last one included if it has no newline.
fn lines_in(text: &[u8]) -> usize {
    let ended = text.iter().filter(|byte| **byte == b'\n').count();
    ended + usize::from(text.last().is_some_and(|last| *last != b'\n'))
}

/// Whether the context of two changes does not meet.
fn is_far(text: &[u8], from: usize, to: usize) -> bool {
    let between = part(text, from..to).iter().filter(|byte| **byte == b'\n');
    between.take(2 * CONTEXT_LINES + 1).count() > 2 * CONTEXT_LINES
}

/// Where the context before `at` begins; both are starts of lines, as is `from`.
fn back(text: &[u8], from: usize, at: usize) -> usize {
    let before = part(text, from..at);
    let newlines = before.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    newlines.map(|(newline, _)| from + newline + 1).nth(CONTEXT_LINES).unwrap_or(from)
}

/// Where the context after `at` ends.
fn forward(text: &[u8], at: usize) -> usize {
    let after = part(text, at..text.len());
    let mut newlines = after.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    newlines.nth(CONTEXT_LINES - 1).map_or(text.len(), |(newline, _)| at + newline + 1)
}

fn add_lines(out: &mut String, mark: char, text: &[u8]) {
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let content = line.strip_suffix('\n').unwrap_or(&line);
        let shown = first_chars(content, DIFF_LINE_CHARS_MAX);
        let cut = if shown.len() < content.len() { " […cut]" } else { "" };
        let _ = writeln!(out, "{mark}{shown}{cut}");
        if content.len() == line.len() {
            out.push_str("\\ No newline at end of file\n");
        }
    }
}

/// The changes between the kept parts, extended to whole lines.
fn blocks(old: &[u8], new: &[u8], segments: &Segments) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // Where the change begins that was not closed yet.
    let mut open = Some((0, 0));
    let is_start = |text: &[u8], at: usize| {
        at.checked_sub(1).is_none_or(|before| text.get(before) == Some(&b'\n'))
    };
    for kept in segments.kept() {
        let (old_end, new_end) = (kept.old + kept.length, kept.new + kept.length);
        let is_last = old_end == old.len() && new_end == new.len();
        let text = part(old, kept.old..old_end);
        // The first start of a line in this part: the newline is in both texts.
        let first = if is_start(old, kept.old) && is_start(new, kept.new) {
            Some(0)
        } else {
            let newline = text.iter().position(|byte| *byte == b'\n').map(|newline| newline + 1);
            newline.or_else(|| is_last.then_some(kept.length))
        };
        let Some(first) = first else { continue };
        if let Some((old_start, new_start)) = open.take() {
            let (old, new) = (old_start..kept.old + first, new_start..kept.new + first);
            blocks.push(Block { old, new });
        }
        if is_last {
            return blocks;
        }
        let last =
            text.iter().rposition(|byte| *byte == b'\n').map_or(first, |newline| newline + 1);
        let last = last.max(first);
        open = Some((kept.old + last, kept.new + last));
    }
    if let Some((old_start, new_start)) = open {
        blocks.push(Block { old: old_start..old.len(), new: new_start..new.len() });
    }
    blocks
}
