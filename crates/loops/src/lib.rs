//! Loop files and agent files as data: Markdown with YAML frontmatter in, a checked plan or agent
//! out, or an error that names file, line and column.
//!
//! Takes bytes and never reads a file. Nothing is guessed: an unknown key, another type, a key that
//! is there twice and every YAML feature that makes a file read differently than it looks is refused.

mod agent;
pub mod draw;
mod error;
mod file;
mod graph;
mod hint;
mod near;
mod parts;
mod select;
mod source;
mod yaml;

pub use agent::AgentFile;
pub use error::LoopError;
pub use file::{Kind, Known, LoopFile};
pub use parts::variant::Variant;
pub use select::SelectError;
pub use source::FILE_BYTES_MAX;
