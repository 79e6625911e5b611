//! Stores blobs: completely or not at all, and only those that are missing.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use windlass_kernel::Digest;

use super::error::BlobError;
use super::format::{BlobHeader, HEADER_BYTES, HashingStream, encoder};
use super::store::{BlobPath, BlobStore, TEMPORARY_PREFIX};

/// The size of the read buffer.
const CHUNK_BYTES: usize = 64 << 10;
/// Counts temporary files, so that no two threads use the same name.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A blob that was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    /// Its digest.
    pub digest: Digest,
    /// The length of the plain bytes.
    pub bytes: u64,
    /// Whether it was written now; otherwise the store had it already.
    pub is_new: bool,
}

/// Why a blob could not be stored: its source, our folder, or its size.
enum PutError {
    Source(io::Error),
    Target(io::Error),
    TooLarge,
}

impl BlobStore {
    /// Stores the bytes of a reader, at most `bytes_max`.
    ///
    /// When it returns, the blob is synced to disk.
    ///
    /// # Errors
    /// [`BlobError`]; then nothing was stored.
    pub fn put(&self, source: &mut dyn Read, bytes_max: u64) -> Result<StoredBlob, BlobError> {
        self.put_from(source, bytes_max).map_err(|error| {
            let source = Path::new("the blob's source");
            self.error(source, bytes_max, error)
        })
    }

    /// Stores the bytes of a regular file, at most `bytes_max`; a symbolic link is not followed.
    ///
    /// # Errors
    /// As [`BlobStore::put`]; [`BlobError::Unreadable`] when it is not a regular file.
    pub fn put_file(&self, path: &Path, bytes_max: u64) -> Result<StoredBlob, BlobError> {
        let put = || -> Result<StoredBlob, PutError> {
            let mut file = open_regular(path).map_err(PutError::Source)?;
            if file.metadata().map_err(PutError::Source)?.len() > bytes_max {
                return Err(PutError::TooLarge);
            }
            // Most files are stored already; reading is cheaper than compressing.
            let mut hashed = HashingStream::new((&mut file).take(bytes_max.saturating_add(1)));
            io::copy(&mut hashed, &mut io::sink()).map_err(PutError::Source)?;
            let (digest, bytes) = (hashed.digest(), hashed.length());
            if bytes > bytes_max {
                return Err(PutError::TooLarge);
            }
            if self.has(&digest, bytes) {
                return Ok(StoredBlob { digest, bytes, is_new: false });
            }
            // If the file changes meanwhile, the bytes that are read now are stored.
            file.seek(SeekFrom::Start(0)).map_err(PutError::Source)?;
            self.put_from(&mut file, bytes_max)
        };
        put().map_err(|error| self.error(path, bytes_max, error))
    }

    fn error(&self, source: &Path, bytes_max: u64, error: PutError) -> BlobError {
        match error {
            PutError::Source(error) => BlobError::unreadable(source, error),
            PutError::Target(error) => BlobError::unwritable(self.path(), error),
            PutError::TooLarge => BlobError::TooLarge { bytes_max },
        }
    }

    fn put_from(&self, source: &mut dyn Read, bytes_max: u64) -> Result<StoredBlob, PutError> {
        // Held until the file has its final name, so that it is not removed as abandoned.
        let lock = self.lock_file().map_err(PutError::Target)?;
        lock.lock_shared().map_err(PutError::Target)?;
        let (name, file) = self.make_temporary().map_err(PutError::Target)?;
        let stored = write_blob(file, source, bytes_max).and_then(|(digest, bytes)| {
            let is_new = !self.has(&digest, bytes);
            if is_new {
                self.publish(&name, &digest).map_err(PutError::Target)?;
            }
            Ok(StoredBlob { digest, bytes, is_new })
        });
        if !matches!(stored, Ok(StoredBlob { is_new: true, .. })) {
            // If that fails, opening the store removes it later.
            let _ = unlinkat(self.root(), name.as_str(), AtFlags::empty());
        }
        stored
    }

    /// Renames a finished file to its final name; an equal file of another process is replaced.
    fn publish(&self, name: &str, digest: &Digest) -> io::Result<()> {
        let path = BlobPath::of(digest);
        let folder = self.durable_folder(&path.folder)?;
        renameat(self.root(), name, &folder, path.file.as_str())?;
        folder.sync_all()
    }

    /// Whether the store has a file with the right header; any other file is replaced.
    fn has(&self, digest: &Digest, bytes: u64) -> bool {
        let Ok(Some(mut file)) = self.open_file(digest) else { return false };
        let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        regular && BlobHeader::read(&mut file).is_ok_and(|header| header.bytes == bytes)
    }

    fn make_temporary(&self) -> io::Result<(String, File)> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id());
            match openat(self.root(), name.as_str(), flags, Mode::from_raw_mode(0o600)) {
                Ok(file) => return Ok((name, File::from(file))),
                // A dead process had the same id.
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Writes the bytes of `source` as a blob file and syncs it to disk.
fn write_blob(
    mut file: File,
    source: &mut dyn Read,
    bytes_max: u64,
) -> Result<(Digest, u64), PutError> {
    file.write_all(&[0; HEADER_BYTES]).map_err(PutError::Target)?;
    let mut plain = HashingStream::new(source.take(bytes_max.saturating_add(1)));
    let mut encoder =
        encoder(HashingStream::new(io::BufWriter::new(file))).map_err(PutError::Target)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = match plain.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(PutError::Source(error)),
        };
        let read = chunk.get(..count).unwrap_or_default();
        encoder.write_all(read).map_err(PutError::Target)?;
    }
    if plain.length() > bytes_max {
        return Err(PutError::TooLarge);
    }
    let finish = || -> io::Result<()> {
        let compressed = encoder.finish()?;
        let header = BlobHeader { bytes: plain.length(), compressed: compressed.digest() };
        let mut file =
            compressed.into_inner().into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&header.to_bytes())?;
        file.sync_all()
    };
    finish().map_err(PutError::Target)?;
    Ok((plain.digest(), plain.length()))
}

/// Opens a regular file for reading; does not follow a link, and does not block on a pipe.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}
