//! Outputs of commands that are too long to be recorded, kept whole: without secrets, by digest.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_connect::Outputs;
use windlass_kernel::Digest;
use windlass_redact::Redactor;
use windlass_workspace::BlobStore;

/// The largest output that is kept; connectors keep less.
const BYTES_MAX: u64 = 256 << 20;

/// The kept outputs of a project.
pub struct KeptOutputs {
    folder: PathBuf,
    redactor: Arc<Redactor>,
}

impl fmt::Debug for KeptOutputs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeptOutputs").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl KeptOutputs {
    /// Those in a folder, which is made when the first one is kept.
    #[must_use]
    pub const fn new(folder: PathBuf, redactor: Arc<Redactor>) -> Self {
        Self { folder, redactor }
    }

    /// The store of the outputs.
    ///
    /// # Errors
    /// A message if it cannot be opened.
    pub fn stored(&self) -> Result<BlobStore, String> {
        BlobStore::open(&self.folder).map_err(|error| error.to_string())
    }
}

impl Outputs for KeptOutputs {
    fn redact(&self, text: &mut String) {
        self.redactor.redact_text(text);
    }

    fn keep(&self, text: &str) -> Result<Digest, String> {
        let kept = self.stored()?.put(&mut text.as_bytes(), BYTES_MAX);
        kept.map(|blob| blob.digest).map_err(|error| error.to_string())
    }
}
