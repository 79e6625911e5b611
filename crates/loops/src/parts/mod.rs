//! The parts of a file's frontmatter, each read from its node.

pub mod consensus;
pub mod doer;
pub mod effect;
pub mod fields;
pub mod governance;
pub mod number;
pub mod phase;
pub mod settings;
pub mod text;
pub mod variant;
