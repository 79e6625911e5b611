//! YAML of the plainest kind: JSON's values, one document, sorted keys, nothing clever.

mod emit;
mod read;

pub use emit::{EmitError, emit};
pub use read::{Place, YamlError, read};

/// The deepest nesting that is written or read; a reader in a thread with a small stack takes it.
pub const DEPTH_MAX: usize = 32;
