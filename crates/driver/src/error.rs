//! Why a configuration is refused, and where in which file.

use thiserror::Error;
use windlass_kernel::Code;

/// A configuration that cannot be used: one fault, where it stands, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ConfigError {
    /// The file's path, as it was given.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// The stable code of this error.
    pub code: Code,
}

impl ConfigError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }
}
