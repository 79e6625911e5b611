//! Why a settings file is not edited.

use std::fmt;

/// The most bytes that a settings file may have.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of bytes before it.
    pub offset: usize,
    /// Its line, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
}

impl Position {
    /// The place of a byte in a text; of the text's end, if there is no such byte.
    pub(crate) fn at(text: &str, offset: usize) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            offset,
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or("").chars().count() + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why hooks are not installed into a file, or not removed from it. The file stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The program's path cannot stand in a client's settings.
    #[error("the program's path `{path}` cannot be used: {reason}")]
    Binary {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The file is too large.
    #[error("the file has {bytes} bytes, more than {FILE_BYTES_MAX}")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
    },
    /// The file is not text.
    #[error("the file is not UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// The number of good bytes before it.
        offset: usize,
    },
    /// The file begins with a byte order mark, which not every client reads.
    #[error("the file begins with a byte order mark: save it without")]
    ByteOrderMark,
    /// The file is not what its name says.
    #[error("{at}: {message}")]
    Syntax {
        /// Where.
        at: Position,
        /// What is wrong.
        message: String,
    },
    /// The file has a comment, although the client reads plain JSON.
    #[error("{at}: a comment, which the client does not read")]
    Comment {
        /// Where it begins.
        at: Position,
    },
    /// An object has a key twice, so that it is unclear which one counts.
    #[error("{at}: the key `{key}` is there twice")]
    DuplicateKey {
        /// The key.
        key: String,
        /// Where it is for the second time.
        at: Position,
    },
    /// A value is of another type than the client expects.
    #[error("{at}: `{name}` is not {expected}")]
    WrongType {
        /// The value's name.
        name: String,
        /// What it should be.
        expected: &'static str,
        /// Where it is.
        at: Position,
    },
    /// The file switches hooks off, so that they would not run.
    #[error("{at}: {reason}, so hooks would not run")]
    Disabled {
        /// What switches them off.
        reason: String,
        /// Where.
        at: Position,
    },
    /// A file of another origin has the name that ours would have.
    #[error("the file is not one of ours, and is not overwritten")]
    Foreign,
    /// The edited text would not say what it should. This is a defect of ours.
    #[error("the edited file would not be right")]
    Unsound,
}
