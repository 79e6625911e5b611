//! Reads blobs and checks their digests.

use std::fs::File;
use std::io::{self, Read, Write};

use windlass_kernel::Digest;

use super::error::BlobError;
use super::format::{BlobDecoder, BlobHeader, FormatError};
use super::store::BlobStore;

/// A blob that is being read. Its bytes are verified only when the end was reached without an error.
pub struct BlobReader {
    digest: Digest,
    decoder: BlobDecoder<File>,
}

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

    /// Starts to read a blob.
    ///
    /// # Errors
    /// [`BlobError`] when there is no such blob, or its header is malformed.
    pub fn get(&self, digest: &Digest) -> Result<BlobReader, BlobError> {
        let file = self.open_stored(digest)?;
        let decoder =
            BlobDecoder::new(file, *digest).map_err(|error| self.error_of(digest, error))?;
        Ok(BlobReader { digest: *digest, decoder })
    }

    /// Writes a blob to `target` and returns its length. After an error, the bytes written so far must
    /// be discarded.
    ///
    /// # Errors
    /// [`BlobError`] when there is no such blob or it is damaged, or `target` cannot be written.
    pub fn copy_to(&self, digest: &Digest, target: &mut dyn Write) -> Result<u64, BlobError> {
        let mut reader = self.get(digest)?;
        let mut chunk = vec![0; 64 << 10];
        loop {
            let next = reader.decoder.next(&mut chunk);
            match next.map_err(|error| self.error_of(digest, error))? {
                0 => return Ok(reader.length()),
                count => target
                    .write_all(chunk.get(..count).unwrap_or_default())
                    .map_err(|error| BlobError::unwritable("the blob's target".as_ref(), error))?,
            }
        }
    }

    /// Reads a blob of at most `bytes_max` bytes into memory.
    ///
    /// # Errors
    /// As [`BlobStore::copy_to`]; [`BlobError::TooLarge`] when it is longer.
    pub fn read(&self, digest: &Digest, bytes_max: u64) -> Result<Vec<u8>, BlobError> {
        if self.len(digest)? > bytes_max {
            return Err(BlobError::TooLarge { bytes_max });
        }
        // Grows with the bytes that are read: a forged length in the header costs no memory.
        let mut bytes = Vec::new();
        self.copy_to(digest, &mut bytes)?;
        Ok(bytes)
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

impl BlobReader {
    /// The blob's digest.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The length of the plain bytes, as its header says.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.decoder.length()
    }
}

impl Read for BlobReader {
    /// Reads the next bytes. An error of the kind `InvalidData` means that the blob is damaged.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(buffer).map_err(|error| {
            let what = format!("the blob `{}` is damaged: {error}", self.digest);
            io::Error::new(error.kind(), what)
        })
    }
}
