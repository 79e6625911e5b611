//! Parses governance rules, composes those of all levels, and judges the work of a phase by them.
//!
//! A later level may only make a rule stricter: universal, organisation, project, loop. A rule that
//! cannot be observed is not met; nothing passes by default.
//!
//! Takes bytes and observations, and does no IO.

mod compose;

mod judge;
mod limits;
mod load;
mod rule;
mod validate;

pub use compose::{Composed, compose};
pub use judge::{Observation, governed, judge_compliance, judge_gate};
pub use limits::{
    ARGUMENTS_MAX, FILES_MAX, POINTER_BYTES_MAX, REGEX_CHARS_MAX, RuleError, RuleField, TIMEOUT_MS,
    TIMEOUT_MS_MAX, check_evidence, exact_number,
};
pub use load::{FILE_BYTES_MAX, GovernanceFile};
pub use rule::{LocatedRule, RuleKind, level_name, on_failure_name};
pub use validate::{Content, FileFindings, FileValidator};
pub use windlass_text::FileError;
