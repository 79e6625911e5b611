//! Decodes a file's bytes as text.

use thiserror::Error;

use crate::Position;

/// Why bytes are not usable as text.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DecodeProblem {
    /// There are too many bytes.
    #[error("the file has {bytes} bytes, more than {bytes_max}")]
    TooLarge {
        /// The number of bytes.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The bytes are not UTF-8.
    #[error("the file is not UTF-8")]
    NotUtf8,
    /// There is a NUL character, at which some parsers would stop reading.
    #[error("the file contains a NUL character")]
    Nul,
}

impl DecodeProblem {
    /// What to do about it.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "split the file, or make it smaller",
            Self::NotUtf8 => "save the file as UTF-8",
            Self::Nul => "remove the character",
        }
    }
}

/// Bytes that are not usable as text, and the position of the first problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Where.
    pub position: Position,
    /// Why.
    pub problem: DecodeProblem,
}

/// Decodes at most `bytes_max` bytes of UTF-8 without NUL characters.
///
/// # Errors
/// [`DecodeError`] with the first problem.
pub fn decode(bytes: &[u8], bytes_max: usize) -> Result<&str, DecodeError> {
    if bytes.len() > bytes_max {
        let problem = DecodeProblem::TooLarge { bytes: bytes.len(), bytes_max };
        return Err(DecodeError { position: Position::START, problem });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let valid = String::from_utf8_lossy(valid);
        let position = Position::of(&valid, valid.len());
        DecodeError { position, problem: DecodeProblem::NotUtf8 }
    })?;
    match text.find('\0') {
        None => Ok(text),
        Some(offset) => {
            let position = Position::of(text, offset);
            Err(DecodeError { position, problem: DecodeProblem::Nul })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_problem_is_reported_at_its_position() {
        let at = |line, column| Position { line, column };
        for (bytes, position, problem) in [
            (&b"12345"[..], at(1, 1), DecodeProblem::TooLarge { bytes: 5, bytes_max: 4 }),
            (b"a\n\xff", at(2, 1), DecodeProblem::NotUtf8),
            (b"ab\0c", at(1, 3), DecodeProblem::Nul),
        ] {
            assert_eq!(decode(bytes, 4), Err(DecodeError { position, problem }));
        }
        assert_eq!(decode("é\n".as_bytes(), 4), Ok("é\n"));
    }
}
