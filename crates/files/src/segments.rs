//! Which parts of a text survive a series of replacements, and where they are afterwards.

use std::ops::Range;

/// A part of the first text that is in the last one, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Where it begins in the first text.
    pub(crate) old: usize,
    /// Where it begins in the last text.
    pub(crate) new: usize,
    pub(crate) length: usize,
}

/// The parts that are left, in their order.
#[derive(Debug)]
pub(crate) struct Segments(Vec<Kept>);

/// One replacement in the present text.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) range: Range<usize>,
    /// How long the text in its place is.
    pub(crate) length: usize,
}

impl Segments {
    /// A text of this length that nothing was replaced in.
    pub(crate) fn new(length: usize) -> Self {
        Self(vec![Kept { old: 0, new: 0, length }])
    }

    pub(crate) fn kept(&self) -> &[Kept] {
        &self.0
    }

    /// Records replacements that were made at once; they are ordered and do not overlap.
    pub(crate) fn replace(&mut self, replaced: &[Replaced]) {
        let mut left = Vec::with_capacity(self.0.len() + replaced.len());
        let mut replaced = replaced.iter().peekable();
        // How much longer and shorter the text before the present position has become.
        let (mut longer, mut shorter) = (0, 0);
        // Where the last replacement ended; it can reach over several parts.
        let mut replaced_until = 0;
        for kept in &self.0 {
            let end = kept.new + kept.length;
            let mut start = kept.new.max(replaced_until);
            let mut keep = |from: usize, to: usize, longer: usize, shorter: usize| {
                if from < to {
                    let old = kept.old + (from - kept.new);
                    left.push(Kept { old, new: from + longer - shorter, length: to - from });
                }
            };
            let touches =
                |next: &&Replaced, start: usize| next.range.start < end || next.range.end <= start;
            while let Some(next) = replaced.next_if(|next| touches(next, start)) {
                keep(start, next.range.start.min(end), longer, shorter);
                start = start.max(next.range.end);
                replaced_until = start;
                longer += next.length;
                shorter += next.range.len();
            }
            keep(start, end, longer, shorter);
        }
        self.0 = left;
    }
}
