//! All contents: listed, and compared with their names.

use std::io;

use windlass_kernel::Digest;

use super::error::BlobError;
use super::folder::{Blobs, digest_at, names};

/// What checking all contents has found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// How many contents hold.
    pub intact: u64,
    /// How many bytes they have, unpacked.
    pub bytes: u64,
    /// What does not hold, or is no content at all.
    pub faults: Vec<BlobError>,
}

/// The names of all contents in ascending order, read folder by folder.
pub struct Contents<'a> {
    blobs: &'a Blobs,
    folders: std::vec::IntoIter<String>,
    digests: std::vec::IntoIter<Digest>,
}

impl Blobs {
    /// Lists the contents. What is put or removed meanwhile may be listed or not.
    ///
    /// # Errors
    /// [`BlobError`] when the folder cannot be read.
    pub fn list(&self) -> Result<Contents<'_>, BlobError> {
        let folders = self.folders()?.into_iter().filter(|name| is_folder(name));
        let folders = folders.collect::<Vec<_>>().into_iter();
        Ok(Contents { blobs: self, folders, digests: Vec::new().into_iter() })
    }

    /// Reads every content and compares it with its name; names each that does not hold, and goes on.
    ///
    /// # Errors
    /// [`BlobError`] when the folder itself cannot be read.
    pub fn check(&self) -> Result<CheckReport, BlobError> {
        let mut report = CheckReport::default();
        for folder in self.folders()? {
            if folder.starts_with('.') {
                // The lock, and what is being put.
                continue;
            }
            if !is_folder(&folder) {
                report.faults.push(BlobError::Stray { path: self.path().join(&folder) });
                continue;
            }
            match self.names_in(&folder) {
                Ok(files) => files.iter().for_each(|file| report.add(self, &folder, file)),
                Err(error) => {
                    let path = self.path().join(&folder);
                    report.faults.push(BlobError::unreadable(&path, error));
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
    /// Whether everything holds.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.faults.is_empty()
    }

    fn add(&mut self, blobs: &Blobs, folder: &str, file: &str) {
        let Some(digest) = digest_at(folder, file) else {
            self.faults.push(BlobError::Stray { path: blobs.path().join(folder).join(file) });
            return;
        };
        match blobs.copy_to(&digest, &mut io::sink()) {
            Ok(bytes) => {
                self.intact += 1;
                self.bytes = self.bytes.saturating_add(bytes);
            }
            // It was removed between the listing and now.
            Err(BlobError::Missing { .. }) => {}
            Err(error) => self.faults.push(error),
        }
    }
}

/// Whether a name is that of a folder of contents.
fn is_folder(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Iterator for Contents<'_> {
    type Item = Result<Digest, BlobError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(digest) = self.digests.next() {
                return Some(Ok(digest));
            }
            let folder = self.folders.next()?;
            match self.blobs.names_in(&folder) {
                Ok(files) => {
                    let digests = files.iter().filter_map(|file| digest_at(&folder, file));
                    self.digests = digests.collect::<Vec<_>>().into_iter();
                }
                Err(error) => {
                    let path = self.blobs.path().join(&folder);
                    return Some(Err(BlobError::unreadable(&path, error)));
                }
            }
        }
    }
}
