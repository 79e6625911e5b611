//! Why rules are refused, and where in which file.

use thiserror::Error;
use windlass_kernel::Code;

use crate::stated::Place;

/// Rules that cannot be used: one fault, where it stands, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {message}")]
pub struct GovernanceError {
    /// Where.
    pub place: Place,
    /// What is wrong, in one line.
    pub message: String,
    /// What would be right.
    pub hint: String,
    pub(crate) code: Code,
}

impl GovernanceError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }
}
