//! What checking a bundle has found.

use std::fmt;

use serde::Serialize;
use thiserror::Error;
use windlass_kernel::{ChainError, Code, Digest, TraceId};

use crate::key::KeyId;

/// Something in a bundle that is not as it must be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Fault {
    /// The file is not an archive of ours.
    #[error("the file is not a bundle to its end: {what}")]
    Archive {
        /// Where, and what.
        what: String,
    },
    /// A member is not there.
    #[error("`{name}` is missing")]
    MemberMissing {
        /// The member.
        name: String,
    },
    /// A member is there that the manifest does not have.
    #[error("`{name}` does not belong here")]
    MemberExtra {
        /// The member.
        name: String,
    },
    /// A member has another size or digest than the manifest says.
    #[error("`{name}` is not the one that was signed")]
    MemberChanged {
        /// The member.
        name: String,
    },
    /// A member cannot be read.
    #[error("`{name}` cannot be used: {what}")]
    Member {
        /// The member.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// Something is not signed as it must be.
    #[error("`{name}` is not signed by the key `{key}`")]
    Signature {
        /// What is signed.
        name: String,
        /// Who should have signed.
        key: KeyId,
    },
    /// A trace does not hold together.
    #[error("trace `{trace_id}` does not hold together: {error}")]
    Chain {
        /// The trace.
        trace_id: TraceId,
        /// What is wrong with it.
        error: ChainError,
    },
    /// A trace does not end with its signed head, or only one of the two is there.
    #[error("trace `{trace_id}` does not end as its signed head says")]
    Head {
        /// The trace.
        trace_id: TraceId,
    },
    /// A call that the run names is not there.
    #[error("the call `{trace_id}`, which the run names, is missing")]
    CallMissing {
        /// The call's trace.
        trace_id: TraceId,
    },
    /// A call is not the one that the run names.
    #[error("the call `{trace_id}` is not as the run names it")]
    CallDiffers {
        /// The call's trace.
        trace_id: TraceId,
    },
    /// A trace has nothing to do with the run.
    #[error("trace `{trace_id}` does not belong to the run")]
    TraceForeign {
        /// The trace.
        trace_id: TraceId,
    },
    /// A content is not what its name says.
    #[error("the content `{digest}` is damaged: {what}")]
    Blob {
        /// Its name.
        digest: Digest,
        /// What is wrong with it.
        what: String,
    },
    /// What is said of the run is not what its journal says.
    #[error("`{name}` does not say what the journal says")]
    Disagrees {
        /// The member that says it.
        name: String,
    },
    /// There is more than may be.
    #[error("the bundle holds more than {what}")]
    TooMuch {
        /// The limit.
        what: String,
    },
}

/// What a bundle is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of it holds, and somebody who is trusted has signed it.
    Intact,
    /// Something in it does not hold.
    Damaged,
    /// All of it holds, but nobody who is trusted has signed it.
    Unchecked,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Intact => "intact",
            Self::Damaged => "damaged",
            Self::Unchecked => "not checked",
        })
    }
}

/// What checking a bundle has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All that is wrong.
    pub faults: Vec<Fault>,
    /// The key that has signed, if the signature is its.
    pub signer: Option<KeyId>,
    /// Whether that key is trusted, by itself or by rotations.
    pub trusted: bool,
    /// The run's name.
    pub run_id: String,
    /// The run's trace.
    pub trace_id: Option<TraceId>,
    /// How many traces there are.
    pub traces: u64,
    /// How many entries they have.
    pub entries: u64,
    /// How many artifacts of these were purged before the bundle was made.
    pub purged: u64,
    /// How many checkpoints there are.
    pub checkpoints: u64,
    /// How many contents there are.
    pub blobs: u64,
    /// How the run ended; `None` while it goes on, or where that was purged.
    pub outcome: Option<&'static str>,
    /// The commit that the run made, if any.
    pub commit: Option<String>,
}

impl Report {
    /// What the bundle is worth.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match (self.faults.is_empty(), self.trusted) {
            (false, _) => Verdict::Damaged,
            (true, true) => Verdict::Intact,
            (true, false) => Verdict::Unchecked,
        }
    }

    /// The stable code of what was found; `None` when it is intact.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self.verdict() {
            Verdict::Intact => None,
            Verdict::Damaged => Some(Code::BundleInvalid),
            Verdict::Unchecked => Some(Code::BundleUntrusted),
        }
    }
}
