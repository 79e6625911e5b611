//! Outputs of commands that are too long to be recorded, kept whole: without secrets, by digest.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_connect::Outputs;
use windlass_kernel::Digest;
use windlass_redact::Redactor;
use windlass_workspace::BlobStore;

/// The largest output that is kept; connectors keep less.
const BYTES_MAX: u64 = 256 << 20;

/// How much a project keeps in all.
const ALL_BYTES_MAX: u64 = 4 << 30;

/// The kept outputs of a project.
pub struct KeptOutputs {
    folder: PathBuf,
    redactor: Arc<Redactor>,
    all_bytes_max: u64,
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
        Self { folder, redactor, all_bytes_max: ALL_BYTES_MAX }
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
        if size_of(&self.folder) > self.all_bytes_max {
            let folder = self.folder.display();
            return Err(format!("{folder} has {} bytes already, the most", self.all_bytes_max));
        }
        let kept = self.stored()?.put(&mut text.as_bytes(), BYTES_MAX);
        kept.map(|blob| blob.digest).map_err(|error| error.to_string())
    }
}

/// The bytes of all files in a folder, which may be missing.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => size_of(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_is_kept_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let mut outputs = KeptOutputs::new(folder.path().join("outputs"), Arc::default());
        outputs.all_bytes_max = 300;
        let texts: Vec<String> =
            (0..5).map(|number| Digest::of(&[number]).to_string().repeat(10)).collect();
        let kept: Vec<_> = texts.iter().map(|text| outputs.keep(text)).collect();
        assert!(kept[0].is_ok(), "{kept:?}");
        let last = kept[4].clone().unwrap_err();
        assert!(last.contains("300 bytes already"), "{last}");
    }
}
