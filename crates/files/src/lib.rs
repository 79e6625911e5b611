//! The file tools of agents: `read`, `list`, `search`, `write` and `edit` below one folder.
//!
//! Every path is resolved below the workspace's folder without leaving it and opened from that folder's file descriptor without
//! following links, so that a folder swapped for a link in between leads nowhere. Hidden paths are answered like
//! paths that do not exist. Writes replace a whole file at once or not at all.
//!
//! This crate decides nothing: it knows no policy and records nothing. It never starts a program.

mod arguments;
mod collector;
mod diff;
mod edit;
mod error;
mod files;
mod ignores;
mod limits;
mod list;
mod media_type;
mod output;
mod read;
mod replacement;
mod root;
mod search;
mod segments;
mod sink;
mod target;
mod tool;
mod walk;
mod write;

pub use error::FilesError;
pub use files::{Files, LeftOut};
pub use limits::OUTPUT_BYTES_MIN;
pub use tool::{FileTool, ToolDefinition, definition};
pub use windlass_kernel::artifact::FileChange;
