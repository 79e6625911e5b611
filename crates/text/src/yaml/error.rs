//! Why YAML is refused.

use thiserror::Error;

use crate::{DecodeProblem, Position};

/// The deepest nesting of lists and mappings.
pub const DEPTH_MAX: usize = 32;

/// YAML that is refused, and where.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {}, column {}: {problem}", position.line, position.column)]
pub struct YamlError {
    /// Where.
    pub position: Position,
    /// Why.
    pub problem: YamlProblem,
}

/// Why YAML is refused. User input in it has gone through [`crate::printable`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum YamlProblem {
    /// The bytes are not text.
    #[error(transparent)]
    NotText(DecodeProblem),
    /// The parser reports an error.
    #[error("invalid YAML: {0}")]
    Syntax(String),
    /// A tab is used as indentation.
    #[error("a tab is used as indentation")]
    Tab,
    /// A value has an anchor.
    #[error("YAML anchors and aliases are not allowed: this is an anchor")]
    Anchor,
    /// A value is an alias.
    #[error("YAML anchors and aliases are not allowed: this is an alias")]
    Alias,
    /// A value has a tag.
    #[error("YAML tags are not allowed")]
    Tag,
    /// A mapping takes over the entries of another one.
    #[error("the YAML merge key `<<` is not allowed")]
    MergeKey,
    /// There is more than one document.
    #[error("a second document starts here")]
    SecondDocument,
    /// Values are nested too deep.
    #[error("values are nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// A key is not text.
    #[error("a key must be text")]
    KeyNotText,
    /// YAML readers disagree about an unquoted scalar.
    #[error("`{text}` is ambiguous: some YAML readers take it for text, others for {other_type}")]
    Ambiguous {
        /// The scalar.
        text: String,
        /// What others take it for.
        other_type: &'static str,
    },
    /// A mapping has a key twice.
    #[error("the key `{key}` appears twice, first in line {first_line}")]
    DuplicateKey {
        /// The key.
        key: String,
        /// The line where it appears first.
        first_line: usize,
    },
    /// A number is too large for 64 bits.
    #[error("the number `{0}` is out of range")]
    NumberOutOfRange(String),
}

impl YamlProblem {
    /// This problem at a position.
    #[must_use]
    pub const fn at(self, position: Position) -> YamlError {
        YamlError { position, problem: self }
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NotText(problem) => problem.hint(),
            Self::Syntax(_) => "quote text that contains `: `, ` #` or brackets",
            Self::Tab => "indent with spaces",
            Self::Anchor | Self::Alias | Self::MergeKey => {
                "repeat the value where it is needed; quote it if it is text"
            }
            Self::Tag => "remove the tag; quote the value if it is text",
            Self::SecondDocument => "keep only one document",
            Self::TooDeep => "use fewer levels",
            Self::KeyNotText => "quote the key",
            Self::Ambiguous { .. } => {
                "quote it if it is text; otherwise write `true`, `false` or plain digits"
            }
            Self::DuplicateKey { .. } => "remove one of the two",
            Self::NumberOutOfRange(_) => "write it as text, in quotes",
        }
    }
}
