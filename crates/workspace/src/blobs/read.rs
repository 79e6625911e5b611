//! Reading: compared with its name while it is read.

use std::fs::File;
use std::io::{self, Read, Write};

use windlass_kernel::Digest;

use super::error::BlobError;
use super::folder::Blobs;
use super::format::{Fault, Header, Unpacked};

/// A content that is being read. Nothing of it holds before the end was reached without an error.
pub struct BlobReader {
    digest: Digest,
    unpacked: Unpacked<File>,
}

impl Blobs {
    /// Whether something lies under the name; whether it holds is found when it is read.
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

    /// The length of the plain content, as it was recorded.
    ///
    /// # Errors
    /// [`BlobError`] when there is no such content, or it does not start as one.
    pub fn len(&self, digest: &Digest) -> Result<u64, BlobError> {
        let mut file = self.open_stored(digest)?;
        let header = Header::read(&mut file).map_err(|fault| self.error_of(digest, fault))?;
        Ok(header.bytes)
    }

    /// Starts to read a content.
    ///
    /// # Errors
    /// [`BlobError`] when there is no such content, or it does not start as one.
    pub fn get(&self, digest: &Digest) -> Result<BlobReader, BlobError> {
        let file = self.open_stored(digest)?;
        let unpacked =
            Unpacked::new(file, *digest).map_err(|fault| self.error_of(digest, fault))?;
        Ok(BlobReader { digest: *digest, unpacked })
    }

    /// Writes a content to `target` and returns its length. After an error, what was written so far
    /// must be thrown away.
    ///
    /// # Errors
    /// [`BlobError`] when there is no such content or it is damaged, or `target` does not take it.
    pub fn copy_to(&self, digest: &Digest, target: &mut dyn Write) -> Result<u64, BlobError> {
        let mut reader = self.get(digest)?;
        let mut chunk = vec![0; 64 << 10];
        loop {
            let next = reader.unpacked.next(&mut chunk);
            match next.map_err(|fault| self.error_of(digest, fault))? {
                0 => return Ok(reader.length()),
                count => {
                    target.write_all(chunk.get(..count).unwrap_or_default()).map_err(|error| {
                        BlobError::unwritable("the content's target".as_ref(), error)
                    })?
                }
            }
        }
    }

    /// Reads a content of at most `bytes_max` bytes into memory.
    ///
    /// # Errors
    /// As [`Blobs::copy_to`]; [`BlobError::TooLarge`] when it is longer.
    pub fn read(&self, digest: &Digest, bytes_max: u64) -> Result<Vec<u8>, BlobError> {
        if self.len(digest)? > bytes_max {
            return Err(BlobError::TooLarge { bytes_max });
        }
        // Grows with what is really there: a length that somebody made up costs nothing.
        let mut bytes = Vec::new();
        self.copy_to(digest, &mut bytes)?;
        Ok(bytes)
    }

    /// Opens the file of a content as it is stored, for copying it elsewhere in that form.
    ///
    /// # Errors
    /// [`BlobError`] when there is no such content, or something else lies under its name.
    pub fn open_stored(&self, digest: &Digest) -> Result<File, BlobError> {
        let corrupt = |what: &str| BlobError::Corrupt { digest: *digest, what: what.to_owned() };
        let file = match self.open_file(digest) {
            Ok(Some(file)) => file,
            Ok(None) => return Err(BlobError::Missing { digest: *digest }),
            Err(error) if is_link(&error) => return Err(corrupt("a symbolic link lies there")),
            Err(error) => return Err(BlobError::unreadable(&self.path_of(digest), error)),
        };
        match file.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(file),
            Ok(_) => Err(corrupt("it is not a regular file")),
            Err(error) => Err(BlobError::unreadable(&self.path_of(digest), error)),
        }
    }

    fn error_of(&self, digest: &Digest, fault: Fault) -> BlobError {
        if let Fault::Io(error) = fault {
            return BlobError::unreadable(&self.path_of(digest), error);
        }
        BlobError::Corrupt { digest: *digest, what: fault.to_string() }
    }
}

/// What opening without following links says of one: in the place of a file, or of a folder.
fn is_link(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    [rustix::io::Errno::LOOP, rustix::io::Errno::NOTDIR]
        .into_iter()
        .any(|errno| number == Some(errno.raw_os_error()))
}

impl BlobReader {
    /// The content's name.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The length of the plain content, as it was recorded.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.unpacked.length()
    }
}

impl Read for BlobReader {
    /// Reads on. An error of the kind `InvalidData` means that the content is damaged.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.unpacked.read(buffer).map_err(|error| {
            let what = format!("the content `{}` is damaged: {error}", self.digest);
            io::Error::new(error.kind(), what)
        })
    }
}
