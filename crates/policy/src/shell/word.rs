//! A word of a shell line, as the shell would hand it to a command.

/// Replaces an expansion in a word's text.
pub(crate) const UNKNOWN: char = '\u{FFFC}';

/// One word, unquoted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Word {
    /// Its text, with [`UNKNOWN`] for each expansion.
    pub text: String,
    /// Whether it contains an expansion.
    pub dynamic: bool,
    /// Whether any part of it was quoted or escaped.
    pub quoted: bool,
    /// Whether the shell could replace it by names of files.
    pub pattern: bool,
}

impl Word {
    /// A word that is exactly this text.
    pub fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), quoted: true, ..Self::default() }
    }

    /// A word whose text is unknown.
    pub fn unknown() -> Self {
        Self { text: UNKNOWN.to_string(), dynamic: true, ..Self::default() }
    }

    /// Whether it is this text, without any quoting: only then it can be a reserved word.
    pub fn is_bare(&self, text: &str) -> bool {
        !self.quoted && !self.dynamic && self.text == text
    }

    /// Whether the shell could replace it by names of files.
    pub const fn is_pattern(&self) -> bool {
        self.pattern
    }
}

/// Joins words by one space.
pub(crate) fn join(words: &[Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}
