//! Keeps contents in a folder by the SHA-256 of their plain bytes: compressed, each once.
//!
//! A content is there as a whole or not at all, whatever dies while it is put, and whoever else puts
//! the same at the same time. What is read is compared with its name while it is read. The folder
//! decides nothing: which contents are still needed is for others to know.

mod check;
mod error;
mod folder;
pub mod format;
mod put;
mod read;

pub use check::{CheckReport, Contents};
pub use error::BlobError;
pub use folder::Blobs;
pub use put::Stored;
pub use read::BlobReader;
