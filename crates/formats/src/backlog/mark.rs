//! Marks one item as done.

use thiserror::Error;
use windlass_kernel::{Code, Digest};

use super::item::items;
use crate::Moment;

/// The longest evidence.
pub const EVIDENCE_CHARS_MAX: usize = 500;

/// Why an item was not marked as done.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MarkError {
    /// Its line was changed or removed.
    #[error("the item of line {line} was changed or removed since the run started")]
    Changed {
        /// Where it was.
        line: usize,
    },
    /// Its line appears more than once.
    #[error("the item of line {line} appears {times} times in the backlog now")]
    Duplicated {
        /// Where it was.
        line: usize,
        /// How often it appears.
        times: usize,
    },
    /// The item is already marked as done.
    #[error("the item of line {line} is already marked as done")]
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
            Self::Changed { .. } => "compare the line with the work, then mark it by hand",
            Self::Duplicated { .. } => "remove all but one of them, then mark it again",
            Self::Done { .. } => "nothing is left to do",
            Self::Evidence => "name a commit or a run",
        }
    }
}

/// Marks the item whose line has this digest as done: ticks its checkbox and appends
/// ` — Done: <evidence> (<date>)`. All other bytes stay unchanged.
///
/// `line` is where the item was when the run started. It is searched everywhere, since other lines may
/// have been added or removed; only an item that appears exactly once is marked.
///
/// # Errors
/// [`MarkError`] when the line was changed, appears twice, or the evidence does not fit.
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
    let (items, _) = items(text);
    let mut same = items.iter().filter(|located| located.item.digest == digest);
    let located = same.next().ok_or(MarkError::Changed { line })?;
    let more = same.count();
    if more > 0 {
        return Err(MarkError::Duplicated { line, times: more + 1 });
    }
    if located.item.done {
        return Err(MarkError::Done { line });
    }
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let (before, between) =
        (part(0, located.checkbox_offset), part(located.checkbox_offset + 1, located.bytes.end));
    let after = part(located.bytes.end, text.len());
    Ok(format!("{before}x{between} — Done: {evidence} ({}){after}", done_at.date()))
}
