//! What can go wrong with keys, bundles and anchors.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_kernel::{ChainError, Code, TraceId};
use windlass_workspace::BlobError;

/// What a caller's own source of entries or heads has failed with.
pub(crate) type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A key that cannot be made, read or used.
#[derive(Debug, Error)]
pub enum KeyError {
    /// Nothing was ever signed here.
    #[error("there is no signing key in `{}`", path.display())]
    Missing {
        /// The folder of keys.
        path: PathBuf,
    },
    /// A key is there already.
    #[error("there is a signing key in `{}` already", path.display())]
    Exists {
        /// The folder of keys.
        path: PathBuf,
    },
    /// A file is not what it must be.
    #[error("`{}` cannot be used: {what}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("`{}` cannot be written", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl KeyError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Missing { .. } => Code::KeyMissing,
            Self::Exists { .. } | Self::Invalid { .. } => Code::KeyInvalid,
            Self::Unreadable { .. } => Code::FileUnreadable,
            Self::Unwritable { .. } => Code::FileUnwritable,
        }
    }

    pub(crate) fn invalid(path: &Path, what: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    pub(crate) fn unwritable(path: &Path, source: io::Error) -> Self {
        Self::Unwritable { path: path.to_owned(), source }
    }
}

/// A bundle that cannot be made, or a file that cannot be read at all.
#[derive(Debug, Error)]
pub enum BundleError {
    /// The journal does not hold together: nobody should sign it.
    #[error("trace `{trace_id}` does not hold together and is not signed")]
    Chain {
        /// The trace.
        trace_id: TraceId,
        /// What is wrong with it.
        #[source]
        source: ChainError,
    },
    /// What is to go into the bundle does not fit together.
    #[error("no bundle can be made of this: {what}")]
    Input {
        /// What does not fit.
        what: String,
    },
    /// Entries cannot be read from where they are kept.
    #[error("the entries of trace `{trace_id}` cannot be read")]
    Source {
        /// The trace.
        trace_id: TraceId,
        /// Why.
        #[source]
        source: SourceError,
    },
    /// A content is missing or damaged.
    #[error("a content of the run cannot be put into the bundle")]
    Blob(#[from] BlobError),
    /// The file is there already.
    #[error("`{}` exists already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The bundle cannot be read.
    #[error("the bundle cannot be read")]
    Unreadable(#[source] io::Error),
    /// The file cannot be written.
    #[error("`{}` cannot be written", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl BundleError {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Chain { source, .. } => source.code(),
            Self::Input { .. } => Code::BundleInvalid,
            Self::Source { .. } => Code::StoreUnavailable,
            Self::Blob(error) => error.code(),
            Self::Unreadable(_) => Code::FileUnreadable,
            Self::Exists { .. } | Self::Unwritable { .. } => Code::FileUnwritable,
        }
    }
}

/// An anchor that cannot be made or read.
#[derive(Debug, Error)]
pub enum AnchorError {
    /// It is not an anchor, or was changed.
    #[error("line {line} of the anchor cannot be used: {what}")]
    Invalid {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The traces are not in the order that an anchor needs.
    #[error("trace `{trace_id}` is not older than the one before it")]
    Order {
        /// The trace.
        trace_id: TraceId,
    },
    /// Traces cannot be read from where they are kept.
    #[error("the traces cannot be read")]
    Source(#[source] SourceError),
    /// The file is there already.
    #[error("`{}` exists already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The anchor cannot be read.
    #[error("the anchor cannot be read")]
    Unreadable(#[source] io::Error),
    /// The file cannot be written.
    #[error("`{}` cannot be written", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl AnchorError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Invalid { .. } => Code::AnchorInvalid,
            Self::Order { .. } => Code::Internal,
            Self::Source(_) => Code::StoreUnavailable,
            Self::Unreadable(_) => Code::FileUnreadable,
            Self::Exists { .. } | Self::Unwritable { .. } => Code::FileUnwritable,
        }
    }
}
