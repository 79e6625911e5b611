//! YAML with the values of JSON: one document, sorted keys, and no other features.

mod emit;

pub use emit::{EmitError, emit};
pub use windlass_text::yaml::{DEPTH_MAX, YamlError, YamlProblem, read_json as read};
