//! Reads the rules that the work of phases is measured by, composes those of all levels, and judges
//! what was found.
//!
//! A level may only make a rule stricter than those before it: universal, organisation, project,
//! loop. Whatever cannot be looked at is not met; nothing here passes by default.
//!
//! Takes bytes and what was found, and never looks at anything itself.

mod compose;
mod error;
mod inspect;
mod judge;
mod limits;
mod load;
mod stated;

pub use compose::{Composed, compose};
pub use error::GovernanceError;
pub use inspect::{Content, Inspector, Looked};
pub use judge::{Found, compliance, gate, governed};
pub use limits::{
    ARGUMENTS_MAX, FILES_MAX, Flaw, PATTERN_CHARS_MAX, POINTER_BYTES_MAX, Part, TIMEOUT_MS,
    TIMEOUT_MS_MAX, check, number,
};
pub use load::{FILE_BYTES_MAX, GovernanceFile};
pub use stated::{Kind, Place, Stated, level_name, on_failure_name};
