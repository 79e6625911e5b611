//! Transcripts as lines of JSON.

use serde_json::Value;

use super::TRANSCRIPT_BYTES_MAX;

/// The longest line that is read.
const LINE_BYTES_MAX: usize = 32 << 20;

/// The objects in the lines of a transcript.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    /// Words of which a line must have one to be read.
    words: &'a [&'a str],
    /// Whether a line, or the beginning, was left out.
    pub(super) is_incomplete: bool,
}

impl<'a> Lines<'a> {
    /// The lines with one of these words. Most lines of a transcript are of no interest, and looking for a word costs
    /// a small part of what reading JSON does.
    pub(super) fn with(words: &'a [&'a str], bytes: &'a [u8]) -> Self {
        let cut = bytes.len().saturating_sub(TRANSCRIPT_BYTES_MAX);
        let rest = bytes.get(cut..).unwrap_or_default();
        // What remains of the line that was cut is no JSON.
        Self { rest, words, is_incomplete: cut > 0 }
    }

    /// The next object, or `None` at the end.
    pub(super) fn next(&mut self) -> Option<Value> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|byte| *byte == b'\n');
            let (line, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest.get(1..).unwrap_or_default();
            let is_skipped = std::str::from_utf8(line)
                .is_ok_and(|line| !self.words.iter().any(|word| line.contains(word)));
            if is_skipped {
                continue;
            }
            if line.len() <= LINE_BYTES_MAX
                && let Ok(value @ Value::Object(_)) = serde_json::from_slice(line)
            {
                return Some(value);
            }
            self.is_incomplete |= end.is_some();
        }
        None
    }
}
