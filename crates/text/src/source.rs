//! A TOML file and errors at positions in it.

use std::ops::Range;

use serde::de::DeserializeOwned;
use thiserror::Error;
use windlass_kernel::Code;

use crate::decode::{DecodeProblem, decode};
use crate::{Location, Position};

/// A file that cannot be used: where, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{location}: {message}")]
pub struct FileError {
    /// Where.
    pub location: Location,
    /// Why, in one line.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The stable code.
    pub code: Code,
}

impl FileError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The same error with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The path and the text of a file.
#[derive(Clone, Copy, Debug)]
pub struct SourceFile<'a> {
    /// The path, as errors show it.
    pub path: &'a str,
    /// The text.
    pub text: &'a str,
    /// The code of an error in this file.
    code: Code,
}

impl<'a> SourceFile<'a> {
    /// Decodes the bytes of a file in which errors have the code `code`.
    ///
    /// # Errors
    /// [`FileError`] when the file is too large, not UTF-8, or contains a NUL character.
    pub fn new(
        path: &'a str,
        bytes: &'a [u8],
        bytes_max: usize,
        code: Code,
    ) -> Result<Self, FileError> {
        match decode(bytes, bytes_max) {
            Ok(text) => Ok(Self { path, text, code }),
            Err(error) => {
                let code = match error.problem {
                    DecodeProblem::TooLarge { .. } => Code::DocSizeExceeded,
                    DecodeProblem::NotUtf8 | DecodeProblem::Nul => code,
                };
                Err(FileError {
                    location: Location::new(path, error.position),
                    message: error.problem.to_string(),
                    hint: Some(error.problem.hint().to_owned()),
                    code,
                })
            }
        }
    }

    /// A file without text, for an error that concerns no position in it.
    #[must_use]
    pub const fn empty(path: &'a str, code: Code) -> Self {
        Self { path, text: "", code }
    }

    /// Parses the text as TOML; an error gets the hint.
    ///
    /// # Errors
    /// [`FileError`] at the first key or value that does not fit.
    pub fn parse_toml<T: DeserializeOwned>(&self, hint: Option<&str>) -> Result<T, FileError> {
        toml::from_str(self.text).map_err(|error| {
            let message = error.message().trim().replace('\n', "; ");
            let error = self.error(error.span().unwrap_or(0..0), message);
            FileError { hint: hint.map(str::to_owned), ..error }
        })
    }

    /// The location of the byte at `offset`.
    #[must_use]
    pub fn location(&self, offset: usize) -> Location {
        Location::new(self.path, Position::of(self.text, offset))
    }

    /// An error at the start of `span`.
    #[must_use]
    pub fn error(&self, span: Range<usize>, message: impl Into<String>) -> FileError {
        FileError {
            location: self.location(span.start),
            message: message.into(),
            hint: None,
            code: self.code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "é = 1\nöö = 2";
        let source = SourceFile::new("a.toml", text.as_bytes(), 99, Code::PolicyInvalid).unwrap();
        let offset = text.find("= 2").unwrap();
        let error = source.error(offset..offset, "no");
        assert_eq!((error.location.line, error.location.column), (2, 4));
        assert_eq!(error.to_string(), "a.toml:2:4: no");
    }

    #[test]
    fn a_file_that_is_not_text_is_refused_at_the_first_bad_byte() {
        let new = |bytes| SourceFile::new("a.toml", bytes, 9, Code::PolicyInvalid);
        let error = new(b"a = 1\nb\xff").unwrap_err();
        assert_eq!((error.location.line, error.location.column), (2, 2));
        assert_eq!(error.code(), Code::PolicyInvalid);
        assert_eq!(new(b"0123456789").unwrap_err().code(), Code::DocSizeExceeded);
    }
}
