//! What can go wrong with a content.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_kernel::{Code, Digest};

/// A content that cannot be kept or given.
#[derive(Debug, Error)]
pub enum BlobError {
    /// Nobody put it, or it was purged.
    #[error("there is no content `{digest}`")]
    Missing {
        /// Its name.
        digest: Digest,
    },
    /// What lies under its name is something else.
    #[error("the content `{digest}` is damaged: {what}")]
    Corrupt {
        /// Its name.
        digest: Digest,
        /// What is wrong with it.
        what: String,
    },
    /// Something lies in the folder that is no content.
    #[error("`{}` is not the name of a content", path.display())]
    Stray {
        /// Where it lies.
        path: PathBuf,
    },
    /// The content is larger than it may be.
    #[error("the content has more than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// The source of a content cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Unreadable {
        /// Where it lies.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder cannot be written.
    #[error("`{}` cannot be written", path.display())]
    Unwritable {
        /// Where it lies.
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
