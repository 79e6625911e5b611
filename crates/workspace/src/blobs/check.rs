//! Lists and checks all blobs.

use std::io;

use windlass_kernel::Digest;

use super::error::BlobError;
use super::store::{BlobStore, digest_at, names};

/// The result of checking all blobs.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// The number of intact blobs.
    pub intact: u64,
    /// Their size in bytes, uncompressed.
    pub bytes: u64,
    /// The damaged blobs, and files that are not blobs.
    pub errors: Vec<BlobError>,
}

/// The digests of all blobs in ascending order, read folder by folder.
pub struct BlobList<'a> {
    store: &'a BlobStore,
    folders: std::vec::IntoIter<String>,
    digests: std::vec::IntoIter<Digest>,
}

impl BlobStore {
    /// Lists the blobs. One that is stored or removed meanwhile may be listed or not.
    ///
    /// # Errors
    /// [`BlobError`] when the folder cannot be read.
    pub fn list(&self) -> Result<BlobList<'_>, BlobError> {
        let folders = self.folders()?.into_iter().filter(|name| is_blob_folder(name));
        let folders = folders.collect::<Vec<_>>().into_iter();
        Ok(BlobList { store: self, folders, digests: Vec::new().into_iter() })
    }

    /// Reads every blob and checks its digest; reports each that is damaged, and goes on.
    ///
    /// # Errors
    /// [`BlobError`] when the folder itself cannot be read.
    pub fn check(&self) -> Result<CheckReport, BlobError> {
        let mut report = CheckReport::default();
        for folder in self.folders()? {
            if folder.starts_with('.') {
                // The lock file, and temporary files.
                continue;
            }
            if !is_blob_folder(&folder) {
                report.errors.push(BlobError::Stray { path: self.path().join(&folder) });
                continue;
            }
            match self.names_in(&folder) {
                Ok(files) => files.iter().for_each(|file| report.add(self, &folder, file)),
                Err(error) => {
                    let path = self.path().join(&folder);
                    report.errors.push(BlobError::unreadable(&path, error));
                }
            }
        }
        Ok(report)
    }

    fn folders(&self) -> Result<Vec<String>, BlobError> {
        names(self.root()).map_err(|error| BlobError::unreadable(self.path(), error))
    }

    fn names_in(&self, folder: &str) -> io::Result<Vec<String>> {
        self.folder(folder)?.map_or(Ok(Vec::new()), |folder| names(&folder))
    }
}

impl CheckReport {
    fn add(&mut self, store: &BlobStore, folder: &str, file: &str) {
        let Some(digest) = digest_at(folder, file) else {
            self.errors.push(BlobError::Stray { path: store.path().join(folder).join(file) });
            return;
        };
        match store.copy_to(&digest, &mut io::sink()) {
            Ok(bytes) => {
                self.intact += 1;
                self.bytes = self.bytes.saturating_add(bytes);
            }
            // It was removed after it was listed.
            Err(BlobError::Missing { .. }) => {}
            Err(error) => self.errors.push(error),
        }
    }
}

/// Whether a name is that of a folder of blobs.
fn is_blob_folder(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Iterator for BlobList<'_> {
    type Item = Result<Digest, BlobError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(digest) = self.digests.next() {
                return Some(Ok(digest));
            }
            let folder = self.folders.next()?;
            match self.store.names_in(&folder) {
                Ok(files) => {
                    let digests = files.iter().filter_map(|file| digest_at(&folder, file));
                    self.digests = digests.collect::<Vec<_>>().into_iter();
                }
                Err(error) => {
                    let path = self.store.path().join(&folder);
                    return Some(Err(BlobError::unreadable(&path, error)));
                }
            }
        }
    }
}
