//! The interface of a memory.

use serde::{Deserialize, Serialize};

use crate::MemoryError;

/// The longest text that is stored.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// How many tags a memory may have.
pub const TAGS_MAX: usize = 16;
/// The longest tag.
pub const TAG_BYTES_MAX: usize = 64;
/// The longest name of a source.
const SOURCE_BYTES_MAX: usize = 200;

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The text.
    pub text: String,
    /// Where it comes from: `memory:ID`, what was named when it was stored, or a file with its heading.
    pub source: String,
    /// How well it fits, where more is better; 0 if that is not known.
    pub score: f64,
    /// Its tags.
    pub tags: Vec<String>,
    /// When it was stored or its file was changed, in RFC 3339 and UTC; empty if that is not known.
    pub stored_at: String,
}

/// Something to store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMemory {
    /// The text.
    pub text: String,
    /// Where it comes from, such as a session.
    pub source: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
}

impl NewMemory {
    /// A text without tags.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Checks it before it is stored.
    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        let bytes = self.text.len();
        if self.text.trim().is_empty() {
            return Err(MemoryError::invalid("the text is empty"));
        }
        if bytes > TEXT_BYTES_MAX {
            let reason = format!("the text has {bytes} bytes, more than {TEXT_BYTES_MAX}");
            return Err(MemoryError::invalid(reason));
        }
        if self.text.contains('\0') {
            return Err(MemoryError::invalid("the text has a zero byte"));
        }
        let source = self.source.as_deref().unwrap_or("x");
        if source.is_empty() || source.len() > SOURCE_BYTES_MAX || source.contains(char::is_control)
        {
            return Err(MemoryError::invalid("the source is not one short line"));
        }
        if self.tags.len() > TAGS_MAX {
            return Err(MemoryError::invalid(format!("a memory has at most {TAGS_MAX} tags")));
        }
        let plain = |tag: &String| {
            (1..=TAG_BYTES_MAX).contains(&tag.len())
                && !tag.contains(|char: char| {
                    char.is_control() || char.is_whitespace() || matches!(char, ',' | '"')
                })
        };
        if !self.tags.iter().all(plain) {
            let reason =
                format!("a tag has 1 to {TAG_BYTES_MAX} bytes without spaces, commas and quotes");
            return Err(MemoryError::invalid(reason));
        }
        Ok(())
    }
}

/// A memory. Every request has a deadline of its own.
pub trait Memory: Send + Sync {
    /// Finds what fits a query best, the best first. An empty query finds the most recent.
    ///
    /// # Errors
    /// [`MemoryError`].
    fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<Hit>, MemoryError>;

    /// Stores a text and returns its id, which is empty if the memory names none. The same text, apart
    /// from case, spaces and punctuation, is stored once.
    ///
    /// # Errors
    /// [`MemoryError`].
    fn store(&self, new: &NewMemory) -> Result<String, MemoryError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_for_every_text() {
        let tagged = |tag: &str| NewMemory { tags: vec![tag.to_owned()], ..NewMemory::text("x") };
        for new in [
            NewMemory::text("x".repeat(TEXT_BYTES_MAX)),
            NewMemory::text("\" OR 1=1 -- \n \u{1f600}"),
            tagged("area:cli"),
            NewMemory { source: Some("session 4".to_owned()), ..NewMemory::text("x") },
        ] {
            assert_eq!(new.check(), Ok(()));
        }
        for new in [
            NewMemory::text(" \n"),
            NewMemory::text("a\0"),
            NewMemory::text("x".repeat(TEXT_BYTES_MAX + 1)),
            tagged(""),
            tagged("a b"),
            tagged("a,b"),
            tagged(&"x".repeat(TAG_BYTES_MAX + 1)),
            NewMemory { tags: vec!["t".to_owned(); TAGS_MAX + 1], ..NewMemory::text("x") },
            NewMemory { source: Some("a\nb".to_owned()), ..NewMemory::text("x") },
            NewMemory { source: Some(String::new()), ..NewMemory::text("x") },
        ] {
            assert!(new.check().is_err(), "{new:?}");
        }
    }
}
