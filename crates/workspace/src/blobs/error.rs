//! Errors of the blob store.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_kernel::{Code, Digest};

/// Why a blob cannot be stored or read.
#[derive(Debug, Error)]
pub enum BlobError {
    /// It was never stored, or was removed.
    #[error("there is no blob `{digest}`")]
    Missing {
        /// Its digest.
        digest: Digest,
    },
    /// The file under its name is not this blob.
    #[error("the blob `{digest}` is damaged: {what}")]
    Corrupt {
        /// Its digest.
        digest: Digest,
        /// What is wrong with it.
        what: String,
    },
    /// A file in the store is not a blob.
    #[error("`{}` is not the name of a blob", path.display())]
    Stray {
        /// Its path.
        path: PathBuf,
    },
    /// The blob is larger than it may be.
    #[error("the blob has more than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// A file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("`{}` cannot be written", path.display())]
    Unwritable {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl BlobError {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Missing { .. } => Code::BlobMissing,
            Self::Corrupt { .. } | Self::Stray { .. } => Code::BlobCorrupt,
            Self::TooLarge { .. } => Code::DocSizeExceeded,
            Self::Unreadable { .. } => Code::FileUnreadable,
            Self::Unwritable { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Code::StoreFull
            }
            Self::Unwritable { .. } => Code::FileUnwritable,
        }
    }

    pub(crate) fn unreadable(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Unreadable { path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn unwritable(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Unwritable { path: path.to_owned(), source: source.into() }
    }
}
