//! A word of a shell line, as the shell would hand it to a command.

/// Replaces an expansion in a word's text.
pub(crate) const UNKNOWN: char = '\u{FFFC}';
/// Replaces an expansion that is certainly a number.
pub(crate) const NUMBER: char = '\u{FFFB}';

/// An expansion in a word; each stands for one [`UNKNOWN`] of the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expansion {
    /// The variable whose value it is, if it is exactly that.
    pub name: Option<String>,
    /// Whether it stands in double quotes.
    pub quoted: bool,
    /// Whether the line has certainly set the variable before.
    pub is_set: bool,
}

/// One word, unquoted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Word {
    /// Its text, with [`UNKNOWN`] for each expansion.
    pub text: String,
    /// Whether it contains an expansion.
    pub dynamic: bool,
    /// Whether any part of it was quoted or escaped.
    pub quoted: bool,
    /// Whether the shell could replace it by names of files, or it contains a number.
    pub pattern: bool,
    /// Its expansions, in their order.
    pub expansions: Vec<Expansion>,
    /// Whether its command uses it as text only, never as a name of a file.
    pub inert: bool,
}

impl Word {
    /// A word that is exactly this text.
    pub fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), quoted: true, ..Self::default() }
    }

    /// A word whose text is unknown.
    pub fn unknown() -> Self {
        let mut word = Self::default();
        word.push_unknown(None, false, false);
        word
    }

    /// Adds an expansion.
    pub fn push_unknown(&mut self, name: Option<String>, quoted: bool, is_set: bool) {
        self.text.push(UNKNOWN);
        self.dynamic = true;
        self.expansions.push(Expansion { name, quoted, is_set });
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
