//! Reads blobs and checks their digests.

use std::fs::File;
use std::io::{self, Write};

use windlass_kernel::Digest;

use super::error::BlobError;
use super::format::{BlobDecoder, BlobHeader, FormatError};
use super::store::BlobStore;

impl BlobStore {
    /// Whether the store has the blob; whether it is intact is found when it is read.
    ///
    /// # Errors
    /// [`BlobError`] when the folder cannot be read.
    pub fn exists(&self, digest: &Digest) -> Result<bool, BlobError> {
        match self.open_stored(digest) {
            Ok(_) => Ok(true),
            Err(BlobError::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The length of the plain bytes, as its header says.
    ///
    /// # Errors
    /// [`BlobError`] when there is no such blob, or its header is malformed.
    pub fn len(&self, digest: &Digest) -> Result<u64, BlobError> {
        let mut file = self.open_stored(digest)?;
        let header = BlobHeader::read(&mut file).map_err(|error| self.error_of(digest, error))?;
        Ok(header.bytes)
    }

    /// Writes a blob to `target` and returns its length. After an error, the bytes written so far must
    /// be discarded.
    ///
    /// # Errors
    /// [`BlobError`] when there is no such blob or it is damaged, or `target` cannot be written.
    pub fn copy_to(&self, digest: &Digest, target: &mut dyn Write) -> Result<u64, BlobError> {
        let mut decoder = BlobDecoder::new(self.open_stored(digest)?, *digest)
            .map_err(|error| self.error_of(digest, error))?;
        let mut chunk = vec![0; 64 << 10];
        loop {
            match decoder.next(&mut chunk).map_err(|error| self.error_of(digest, error))? {
                0 => return Ok(decoder.length()),
                count => target
                    .write_all(chunk.get(..count).unwrap_or_default())
                    .map_err(|error| BlobError::unwritable("the blob's target".as_ref(), error))?,
            }
        }
    }

    /// Opens the file of a blob, for copying it in its stored form.
    ///
    /// # Errors
    /// [`BlobError`] when there is no such blob, or something else has its name.
    pub fn open_stored(&self, digest: &Digest) -> Result<File, BlobError> {
        let corrupt = |what: &str| BlobError::Corrupt { digest: *digest, what: what.to_owned() };
        let file = match self.open_file(digest) {
            Ok(Some(file)) => file,
            Ok(None) => return Err(BlobError::Missing { digest: *digest }),
            Err(error) if is_link(&error) => return Err(corrupt("it is a symbolic link")),
            Err(error) => return Err(BlobError::unreadable(&self.path_of(digest), error)),
        };
        match file.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(file),
            Ok(_) => Err(corrupt("it is not a regular file")),
            Err(error) => Err(BlobError::unreadable(&self.path_of(digest), error)),
        }
    }

    fn error_of(&self, digest: &Digest, error: FormatError) -> BlobError {
        if let FormatError::Io(error) = error {
            return BlobError::unreadable(&self.path_of(digest), error);
        }
        BlobError::Corrupt { digest: *digest, what: error.to_string() }
    }
}

/// Whether an error of opening a path says that the file, or its folder, is a symbolic link.
fn is_link(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    [rustix::io::Errno::LOOP, rustix::io::Errno::NOTDIR]
        .into_iter()
        .any(|errno| number == Some(errno.raw_os_error()))
}
