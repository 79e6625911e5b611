//! The path of our program in the settings of clients.

use super::error::InstallError;

/// The most bytes of a path.
const PATH_BYTES_MAX: usize = 4096;

/// The absolute path of the program that hooks start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary(String);

impl Binary {
    /// Takes a path that every client starts as it is.
    ///
    /// # Errors
    /// The path is not absolute, too long, or has characters that a client would replace or not pass on.
    pub fn new(path: &str) -> Result<Self, InstallError> {
        let reason = if !path.starts_with('/') {
            "it is not absolute"
        } else if path.len() > PATH_BYTES_MAX {
            "it is too long"
        } else if path.chars().any(char::is_control) {
            "it has a control character"
        } else if path.contains('$') {
            // Claude Code and Gemini CLI replace variables in their settings.
            "it has a `$`, which clients take for a variable"
        } else {
            return Ok(Self(path.to_owned()));
        };
        Err(InstallError::Binary { path: path.chars().take(200).collect(), reason })
    }

    /// The program by its name, found by the client on its `PATH`.
    pub(crate) fn by_name() -> Self {
        Self("windlass".to_owned())
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as one word of `sh`.
    pub(crate) fn shell_word(&self) -> String {
        let plain = |char: char| {
            char.is_ascii_alphanumeric() || matches!(char, '/' | '.' | '_' | '-' | '+')
        };
        if self.0.chars().all(plain) {
            self.0.clone()
        } else {
            format!("'{}'", self.0.replace('\'', r"'\''"))
        }
    }
}
