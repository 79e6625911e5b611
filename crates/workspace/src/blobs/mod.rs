//! Files stored in a folder by the SHA-256 of their plain bytes: compressed, each once.
//!
//! A blob is stored completely or not at all, whatever process dies while it is written and whichever
//! other process stores the same blob at the same time. Its digest is checked while it is read. The
//! store decides nothing: its callers know which blobs are still needed.

mod check;
mod error;
mod format;
mod put;
mod read;
mod store;

pub use check::{BlobList, CheckReport};
pub use error::BlobError;
pub use format::{
    BlobDecoder, BlobHeader, FormatError, HEADER_BYTES, HashingStream, decoder, encoder,
};
pub use put::StoredBlob;
pub use store::BlobStore;
