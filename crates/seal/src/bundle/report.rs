//! The result of verifying a bundle.

use std::fmt;

use serde::Serialize;
use thiserror::Error;
use windlass_kernel::{ChainError, Code, Digest, TraceId};

use crate::key::KeyId;

/// A fault in a bundle.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BundleFault {
    /// The file is not a valid archive.
    #[error("the file is not a valid bundle: {reason}")]
    NotAnArchive {
        /// The offset and the reason.
        reason: String,
    },
    /// A member is missing.
    #[error("`{name}` is missing")]
    MissingMember {
        /// The member.
        name: String,
    },
    /// The manifest does not list a member of the archive.
    #[error("`{name}` is not listed in the manifest")]
    UnexpectedMember {
        /// The member.
        name: String,
    },
    /// A member has another size or digest than the manifest lists.
    #[error("`{name}` is not the one that was signed")]
    ChangedMember {
        /// The member.
        name: String,
    },
    /// The contents of a member are not valid.
    #[error("`{name}` is not valid: {reason}")]
    InvalidMember {
        /// The member.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A signature is missing or not valid.
    #[error("`{name}` is not signed by the key `{key}`")]
    BadSignature {
        /// The signed document.
        name: String,
        /// The key that must have signed it.
        key: KeyId,
    },
    /// A trace is corrupt.
    #[error("trace `{trace_id}` is corrupt: {error}")]
    CorruptTrace {
        /// The trace.
        trace_id: TraceId,
        /// The first error.
        error: ChainError,
    },
    /// A trace does not end with its signed head, or one of the two is missing.
    #[error("trace `{trace_id}` does not match its signed head")]
    HeadMismatch {
        /// The trace.
        trace_id: TraceId,
    },
    /// A call that the run references is missing.
    #[error("the call `{trace_id}`, which the run references, is missing")]
    MissingCall {
        /// The call's trace.
        trace_id: TraceId,
    },
    /// A call differs from the reference to it.
    #[error("the call `{trace_id}` does not match the run's reference to it")]
    CallMismatch {
        /// The call's trace.
        trace_id: TraceId,
    },
    /// A trace is neither the run nor one of its calls.
    #[error("trace `{trace_id}` does not belong to the run")]
    UnrelatedTrace {
        /// The trace.
        trace_id: TraceId,
    },
    /// A blob does not match its digest.
    #[error("the blob `{digest}` is corrupt: {reason}")]
    CorruptBlob {
        /// Its digest.
        digest: Digest,
        /// The reason.
        reason: String,
    },
    /// A document contradicts the journal of the run.
    #[error("`{name}` does not say what the journal says")]
    JournalMismatch {
        /// The document.
        name: String,
    },
    /// The bundle exceeds a limit.
    #[error("the bundle has more than {limit}")]
    LimitExceeded {
        /// The limit.
        limit: String,
    },
}

/// The verdict on a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BundleVerdict {
    /// The bundle has no fault and a trusted key has signed it.
    Intact,
    /// The bundle has a fault.
    Damaged,
    /// The bundle has no fault, but no trusted key has signed it.
    Unchecked,
}

impl fmt::Display for BundleVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Intact => "intact",
            Self::Damaged => "damaged",
            Self::Unchecked => "not checked",
        })
    }
}

/// The report of verifying a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleReport {
    /// All faults.
    pub faults: Vec<BundleFault>,
    /// The key that has signed the bundle, if the signature is valid.
    pub signer: Option<KeyId>,
    /// Whether that key is trusted, directly or through rotations.
    pub trusted: bool,
    /// The run's name.
    pub run_id: String,
    /// The run's trace.
    pub trace_id: Option<TraceId>,
    /// The number of traces.
    pub traces: u64,
    /// The number of entries of all traces.
    pub entries: u64,
    /// The number of artifacts that were purged before the bundle was written.
    pub purged: u64,
    /// The number of checkpoints.
    pub checkpoints: u64,
    /// The number of blobs.
    pub blobs: u64,
    /// The number of different workspaces of checkpoints whose files are there.
    pub workspaces: u64,
    /// The outcome of the run; `None` if it had not ended or the event was purged.
    pub outcome: Option<&'static str>,
    /// The commit that the run created, if any.
    pub commit: Option<String>,
}

impl BundleReport {
    /// The verdict on the bundle.
    #[must_use]
    pub const fn verdict(&self) -> BundleVerdict {
        match (self.faults.is_empty(), self.trusted) {
            (false, _) => BundleVerdict::Damaged,
            (true, true) => BundleVerdict::Intact,
            (true, false) => BundleVerdict::Unchecked,
        }
    }

    /// The stable error code; `None` if the bundle is intact.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self.verdict() {
            BundleVerdict::Intact => None,
            BundleVerdict::Damaged => Some(Code::BundleInvalid),
            BundleVerdict::Unchecked => Some(Code::BundleUntrusted),
        }
    }
}
