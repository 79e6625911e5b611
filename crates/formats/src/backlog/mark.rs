//! Ticks the box of one item and changes nothing else.

use thiserror::Error;
use windlass_kernel::{Code, Digest};

use super::item::items;
use crate::Moment;

/// The longest evidence.
pub const EVIDENCE_CHARS_MAX: usize = 500;

/// An item that was not marked done.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MarkError {
    /// No line is as it was.
    #[error("the item of line {line} was changed or removed since it was taken")]
    Changed {
        /// Where it was.
        line: usize,
    },
    /// More than one line is as it was.
    #[error("the item of line {line} stands in the backlog {times} times now")]
    Duplicated {
        /// Where it was.
        line: usize,
        /// How often it is there.
        times: usize,
    },
    /// The item is marked done already.
    #[error("the item of line {line} is marked done already")]
    Done {
        /// Where it was.
        line: usize,
    },
    /// The evidence does not fit on the line.
    #[error("the evidence must be one line of 1 to {EVIDENCE_CHARS_MAX} characters without `<!--`")]
    Evidence,
}

impl MarkError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Changed { .. } | Self::Duplicated { .. } | Self::Done { .. } => {
                Code::BacklogLineChanged
            }
            Self::Evidence => Code::RequestInvalid,
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Changed { .. } => "compare the line with what was done, then mark it by hand",
            Self::Duplicated { .. } => "remove all but one of them, then mark it again",
            Self::Done { .. } => "nothing is left to do for it",
            Self::Evidence => "name a commit or a run",
        }
    }
}

/// Marks the item done whose line has this digest: its box is ticked, and
/// ` — Done: <evidence> (<date>)` is added to its line. All other bytes stay as they are.
///
/// `line` is where the item was when it was taken; it is looked for everywhere, since other lines
/// may have come or gone, and only an item that is there exactly once is marked.
///
/// # Errors
/// [`MarkError`] when the line was changed, is there twice, or the evidence does not fit.
pub fn mark_done(
    text: &str,
    line: usize,
    digest: Digest,
    evidence: &str,
    done_at: Moment,
) -> Result<String, MarkError> {
    let evidence = evidence.trim();
    let count = evidence.chars().count();
    let fits = (1..=EVIDENCE_CHARS_MAX).contains(&count)
        && !evidence
            .chars()
            .any(|char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}'))
        && !evidence.contains("<!--");
    if !fits {
        return Err(MarkError::Evidence);
    }
    let (found, _) = items(text);
    let mut same = found.iter().filter(|found| found.item.digest == digest);
    let found = same.next().ok_or(MarkError::Changed { line })?;
    let more = same.count();
    if more > 0 {
        return Err(MarkError::Duplicated { line, times: more + 1 });
    }
    if found.item.done {
        return Err(MarkError::Done { line });
    }
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let (before, between) = (part(0, found.box_at), part(found.box_at + 1, found.bytes.end));
    let after = part(found.bytes.end, text.len());
    Ok(format!("{before}x{between} — Done: {evidence} ({}){after}", done_at.date()))
}
