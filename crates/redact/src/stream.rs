//! Redaction of text that comes in chunks.

use crate::matcher::{CONTEXT_BYTES, Tail};
use crate::redactor::Redactor;

/// A stretch of text to be replaced.
#[derive(Clone, Debug)]
pub(crate) struct Span<'a> {
    pub start: usize,
    /// The end of what was checked.
    pub end: usize,
    pub tail: Option<Tail>,
    pub name: &'a str,
    /// Whether it is the value of a known secret.
    pub is_value: bool,
}

/// Redacts a text that comes in chunks; the result does not depend on where they are cut.
///
/// Holds back as many bytes as decide whether a secret begins: the longest form of a known value, or
/// some 1.5 KiB for the shapes. A secret that goes on for longer is dropped as it comes.
#[derive(Debug)]
pub struct Stream<'a> {
    redactor: &'a Redactor,
    /// Bytes that were passed on, as context, and those that were not.
    buffer: Vec<u8>,
    /// How much of the buffer was passed on or dropped.
    passed: usize,
    /// Up to here the buffer belongs to a secret whose name was written.
    covered: usize,
    /// What else belongs to that secret.
    open: Option<Tail>,
    /// Whether that secret is a block.
    in_block: bool,
}

impl<'a> Stream<'a> {
    pub(crate) const fn new(redactor: &'a Redactor) -> Self {
        Self::whole(redactor, Vec::new())
    }

    /// A stream of which all bytes are there.
    pub(crate) const fn whole(redactor: &'a Redactor, buffer: Vec<u8>) -> Self {
        Self { redactor, buffer, passed: 0, covered: 0, open: None, in_block: false }
    }

    /// Takes a chunk, and returns the redacted bytes that can be passed on.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.buffer.extend_from_slice(chunk);
        let limit = self.buffer.len().saturating_sub(self.redactor.held_bytes());
        let redacted = self.advance(limit, false);
        let cut = self.passed.saturating_sub(CONTEXT_BYTES);
        self.buffer.drain(..cut);
        self.passed -= cut;
        self.covered = self.covered.saturating_sub(cut);
        redacted
    }

    /// Returns the rest, redacted.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.advance(self.buffer.len(), true)
    }

    /// Passes on the bytes before `limit`.
    fn advance(&mut self, limit: usize, complete: bool) -> Vec<u8> {
        self.follow(complete);
        if limit <= self.passed {
            return Vec::new();
        }
        let redactor = self.redactor;
        let spans = redactor.spans(&self.buffer, self.passed..limit);
        let mut redacted = Vec::with_capacity(limit - self.passed);
        let mut at = self.passed;
        for span in spans {
            if span.start < self.covered {
                if span.is_value {
                    self.covered = self.covered.max(span.end);
                } else if matches!(span.tail, Some(Tail::Block(_))) && !self.in_block {
                    // The dashes of its first line can belong to the secret before it.
                    self.covered = self.covered.max(span.end);
                    (self.open, self.in_block) = (span.tail, true);
                    self.follow(complete);
                }
                // Any other shape inside of a secret says nothing about what follows the secret.
                continue;
            }
            let plain = self.buffer.get(at.max(self.covered)..span.start);
            redacted.extend_from_slice(plain.unwrap_or_default());
            redacted.extend_from_slice(b"[redacted:");
            redacted.extend_from_slice(span.name.as_bytes());
            redacted.push(b']');
            at = span.start;
            (self.covered, self.open) = (span.end, span.tail);
            self.in_block = matches!(span.tail, Some(Tail::Block(_)));
            self.follow(complete);
        }
        let plain = self.buffer.get(at.max(self.covered)..limit);
        redacted.extend_from_slice(plain.unwrap_or_default());
        self.passed = limit;
        redacted
    }

    /// Extends the covered part by its tail.
    fn follow(&mut self, complete: bool) {
        let Some(tail) = self.open else { return };
        let reach = tail.reach(&self.buffer, self.covered, complete);
        self.covered = reach.end;
        if reach.closed {
            self.open = None;
        }
    }
}
