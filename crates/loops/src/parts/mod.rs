//! The parts of a file's frontmatter, each read from its node.

pub mod doer;
pub mod effect;
pub mod number;
pub mod phase;
pub mod settings;
pub mod shape;
pub mod text;
