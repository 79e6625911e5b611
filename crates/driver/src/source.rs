//! One TOML file and the places in it.

use std::ops::Range;

use serde::de::DeserializeOwned;
use windlass_kernel::Code;

use crate::ConfigError;

/// The largest configuration file.
pub(crate) const FILE_BYTES_MAX: usize = 1024 * 1024;

/// The text of one file, which knows where its bytes stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// Reads the bytes of a file as text.
    pub fn new(file: &'a str, bytes: &'a [u8]) -> Result<Self, ConfigError> {
        let empty = Self { file, text: "" };
        if bytes.len() > FILE_BYTES_MAX {
            let message = format!("the file is {} bytes long, over {FILE_BYTES_MAX}", bytes.len());
            let error = empty.error(0..0, message, "make the file smaller");
            return Err(ConfigError { code: Code::DocSizeExceeded, ..error });
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self { file, text }),
            Err(error) => {
                let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let here = Self { file, text: std::str::from_utf8(good).unwrap_or_default() };
                Err(here.error(
                    good.len()..good.len(),
                    "the file is not UTF-8 text",
                    "save the file as UTF-8",
                ))
            }
        }
    }

    /// Reads the text as TOML of a known shape.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(self.text).map_err(|error| {
            let message = error.message().trim().replace('\n', "; ");
            self.error(
                error.span().unwrap_or(0..0),
                message,
                "use the keys of the shipped file of this name, each with its type",
            )
        })
    }

    /// An error at a place of this file.
    pub fn error(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigError {
        let mut end = span.start.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = self.text.get(..end).unwrap_or_default();
        ConfigError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
            message: message.into(),
            hint: hint.into(),
            code: Code::DriverConfigInvalid,
        }
    }
}
