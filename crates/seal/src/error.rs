//! Errors of keys, bundles and anchors.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use windlass_kernel::{ChainError, Code, Timestamp, TraceId};
use windlass_workspace::{BlobError, SnapshotError};

/// The error of the caller's source of entries or heads.
pub(crate) type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A key operation failed.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The folder has no signing key.
    #[error("`{}` has no signing key", path.display())]
    Missing {
        /// The folder of keys.
        path: PathBuf,
    },
    /// The folder already has a signing key.
    #[error("`{}` already has a signing key", path.display())]
    Exists {
        /// The folder of keys.
        path: PathBuf,
    },
    /// A key file or the key folder is not valid.
    #[error("`{}` is not usable: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("`{}` cannot be written", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The cause.
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

    pub(crate) fn invalid(path: &Path, reason: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    pub(crate) fn unwritable(path: &Path, source: io::Error) -> Self {
        Self::Unwritable { path: path.to_owned(), source }
    }
}

/// A bundle cannot be written, or its file cannot be read.
#[derive(Debug, Error)]
pub enum BundleError {
    /// The journal is corrupt and must not be signed.
    #[error("trace `{trace_id}` is corrupt and is not signed")]
    CorruptTrace {
        /// The trace.
        trace_id: TraceId,
        /// The first error.
        #[source]
        source: ChainError,
    },
    /// The parts of the bundle are inconsistent or not valid.
    #[error("the bundle cannot be written: {reason}")]
    InvalidInput {
        /// The reason.
        reason: String,
    },
    /// The caller's source of entries failed.
    #[error("the entries of trace `{trace_id}` cannot be read")]
    Source {
        /// The trace.
        trace_id: TraceId,
        /// The cause.
        #[source]
        source: SourceError,
    },
    /// A blob is missing or corrupt.
    #[error("a blob of the run cannot be added to the bundle")]
    Blob(#[from] BlobError),
    /// The files of a checkpoint are corrupt or cannot be read.
    #[error("the files of a checkpoint cannot be added to the bundle")]
    Snapshot(#[from] SnapshotError),
    /// A bundle that was verified is no longer as it was, or what it has cannot be used.
    #[error("the bundle cannot be used: {reason}")]
    Damaged {
        /// The reason.
        reason: String,
    },
    /// The file already exists.
    #[error("`{}` already exists", path.display())]
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
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl BundleError {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::CorruptTrace { source, .. } => source.code(),
            Self::InvalidInput { .. } | Self::Damaged { .. } => Code::BundleInvalid,
            Self::Source { .. } => Code::StoreUnavailable,
            Self::Blob(error) => error.code(),
            Self::Snapshot(error) => error.code(),
            Self::Unreadable(_) => Code::FileUnreadable,
            Self::Exists { .. } | Self::Unwritable { .. } => Code::FileUnwritable,
        }
    }
}

/// An anchor cannot be written or read.
#[derive(Debug, Error)]
pub enum AnchorError {
    /// The file is not a valid anchor.
    #[error("line {line} of the anchor is not valid: {reason}")]
    Invalid {
        /// The line, from 1.
        line: u64,
        /// The reason.
        reason: String,
    },
    /// The source does not list the traces from newest to oldest.
    #[error("trace `{trace_id}` is not older than the trace before it")]
    Order {
        /// The trace.
        trace_id: TraceId,
    },
    /// The caller's source of traces failed.
    #[error("the traces cannot be read")]
    Source(#[source] SourceError),
    /// The file already exists.
    #[error("`{}` already exists", path.display())]
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
        /// The cause.
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

/// Why a person cannot be added, found or decide.
#[derive(Debug, Error)]
pub enum PeopleError {
    /// There is no such person, or the key was revoked.
    #[error("{}", unknown(name, *revoked_at))]
    Unknown {
        /// The name.
        name: String,
        /// When the key was revoked, if it was.
        revoked_at: Option<Timestamp>,
    },
    /// There is a person of this name.
    #[error("there is a person `{name}` already")]
    Exists {
        /// The name.
        name: String,
    },
    /// The key belongs to somebody else in the list.
    #[error("the key belongs to another person in the list")]
    KeyTaken,
    /// The name is not valid.
    #[error("{0}")]
    Name(&'static str),
    /// The key cannot be used.
    #[error("the key of `{name}` cannot be used: {reason}")]
    Locked {
        /// The name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A file is not usable.
    #[error("`{}` is not usable: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl PeopleError {
    pub(crate) fn invalid(path: &Path, reason: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        Self::invalid(path, error.to_string())
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Unknown { .. } => Code::PersonUnknown,
            Self::Exists { .. } | Self::KeyTaken | Self::Name(_) => Code::RequestInvalid,
            Self::Locked { .. } => Code::PersonLocked,
            Self::Invalid { .. } => Code::KeyInvalid,
        }
    }
}

fn unknown(name: &str, revoked_at: Option<Timestamp>) -> String {
    match revoked_at {
        Some(at) => format!("the key of `{name}` was revoked at {at}"),
        None => format!("nobody here is called `{name}`"),
    }
}
