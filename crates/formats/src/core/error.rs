//! Why a document cannot be read or written.

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;
use windlass_kernel::{Code, canon};

use crate::fields::FieldError;

/// Why a document of the core loop cannot be read or written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DocumentError {
    /// It is not JSON that canonical form keeps unchanged.
    #[error("{document} cannot be used: {why}")]
    Json {
        /// The document.
        document: &'static str,
        /// The stable code.
        code: Code,
        /// Why.
        why: String,
    },
    /// A field is unknown, missing or invalid.
    #[error("{document} cannot be used: {source}")]
    Field {
        /// The document.
        document: &'static str,
        /// The field, and what is wrong with it.
        source: FieldError,
    },
    /// It would be too large.
    #[error("{document} would have {bytes} bytes, more than {bytes_max}")]
    TooLarge {
        /// The document.
        document: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
}

impl DocumentError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Json { code, .. } => *code,
            Self::Field { .. } => Code::RequestInvalid,
            Self::TooLarge { .. } => Code::DocSizeExceeded,
        }
    }
}

/// Parses the JSON of a document.
pub(super) fn parse(
    document: &'static str,
    bytes: &[u8],
    bytes_max: usize,
) -> Result<Value, DocumentError> {
    canon::parse(bytes, bytes_max).map_err(|error| DocumentError::Json {
        document,
        code: error.code(),
        why: error.to_string(),
    })
}

/// A document as indented JSON with sorted keys.
pub(super) fn write(
    document: &'static str,
    value: &impl Serialize,
    bytes_max: usize,
) -> Result<Vec<u8>, DocumentError> {
    let invalid = |error: serde_json::Error| DocumentError::Json {
        document,
        code: Code::JsonInvalid,
        why: error.to_string(),
    };
    // A `Value` has sorted keys, and canonical form refuses numbers that JSON readers would change.
    let value = serde_json::to_value(value).map_err(invalid)?;
    canon::check(&value).map_err(|error| DocumentError::Json {
        document,
        code: error.code(),
        why: error.to_string(),
    })?;
    let mut bytes = serde_json::to_vec_pretty(&value).map_err(invalid)?;
    bytes.push(b'\n');
    if bytes.len() > bytes_max {
        return Err(DocumentError::TooLarge { document, bytes: bytes.len(), bytes_max });
    }
    Ok(bytes)
}
