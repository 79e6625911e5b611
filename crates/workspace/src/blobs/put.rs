//! Putting: whole or not at all, and only what is not there yet.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use windlass_kernel::Digest;

use super::error::BlobError;
use super::folder::{Blobs, Place, TEMPORARY};
use super::format::{HEADER_BYTES, Hashed, Header, packer};

/// How much is read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Counts temporary files, so that threads do not meet in one.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// What became of a content that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub digest: Digest,
    /// The length of the plain content.
    pub bytes: u64,
    /// Whether it was written now; otherwise it was there already.
    pub fresh: bool,
}

/// Why a content could not be taken: its source or our folder.
enum Trouble {
    Source(io::Error),
    Target(io::Error),
    TooLarge,
}

impl Blobs {
    /// Puts what a reader gives, at most `bytes_max` bytes.
    ///
    /// When it returns, the content outlasts a loss of power.
    ///
    /// # Errors
    /// [`BlobError`]; then nothing was put.
    pub fn put(&self, source: &mut dyn Read, bytes_max: u64) -> Result<Stored, BlobError> {
        self.put_from(source, bytes_max).map_err(|trouble| {
            let source = Path::new("the content's source");
            self.error(source, bytes_max, trouble)
        })
    }

    /// Puts bytes.
    ///
    /// # Errors
    /// As [`Blobs::put`].
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<Stored, BlobError> {
        let digest = Digest::of(bytes);
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if self.has(&digest, length) {
            return Ok(Stored { digest, bytes: length, fresh: false });
        }
        self.put(&mut &*bytes, length)
    }

    /// Puts what a regular file holds, at most `bytes_max` bytes; a symbolic link at its name is not
    /// followed.
    ///
    /// # Errors
    /// As [`Blobs::put`]; [`BlobError::Unreadable`] when it is not a regular file.
    pub fn put_file(&self, path: &Path, bytes_max: u64) -> Result<Stored, BlobError> {
        let put = || -> Result<Stored, Trouble> {
            let mut file = open_regular(path).map_err(Trouble::Source)?;
            // Most files of a snapshot are there already; reading is cheaper than packing.
            let mut hashed = Hashed::new((&mut file).take(bytes_max.saturating_add(1)));
            io::copy(&mut hashed, &mut io::sink()).map_err(Trouble::Source)?;
            let (digest, bytes) = (hashed.digest(), hashed.length());
            if bytes > bytes_max {
                return Err(Trouble::TooLarge);
            }
            if self.has(&digest, bytes) {
                return Ok(Stored { digest, bytes, fresh: false });
            }
            // If the file changes meanwhile, what is put now is what counts.
            file.seek(SeekFrom::Start(0)).map_err(Trouble::Source)?;
            self.put_from(&mut file, bytes_max)
        };
        put().map_err(|trouble| self.error(path, bytes_max, trouble))
    }

    fn error(&self, source: &Path, bytes_max: u64, trouble: Trouble) -> BlobError {
        match trouble {
            Trouble::Source(error) => BlobError::unreadable(source, error),
            Trouble::Target(error) => BlobError::unwritable(self.path(), error),
            Trouble::TooLarge => BlobError::TooLarge { bytes_max },
        }
    }

    fn put_from(&self, source: &mut dyn Read, bytes_max: u64) -> Result<Stored, Trouble> {
        // Held until the file has its final name: nobody sweeps it away meanwhile.
        let lock = self.lock_file().map_err(Trouble::Target)?;
        lock.lock_shared().map_err(Trouble::Target)?;
        let (name, file) = self.make_temporary().map_err(Trouble::Target)?;
        let stored = pack(file, source, bytes_max).and_then(|(digest, bytes)| {
            let fresh = !self.has(&digest, bytes);
            if fresh {
                self.place(&name, &digest).map_err(Trouble::Target)?;
            }
            Ok(Stored { digest, bytes, fresh })
        });
        if !matches!(stored, Ok(Stored { fresh: true, .. })) {
            // What cannot be removed now is swept later.
            let _ = unlinkat(self.root(), name.as_str(), AtFlags::empty());
        }
        stored
    }

    /// Gives a finished file its final name. Whoever else has given the same content the same name
    /// meanwhile is replaced by an equal.
    fn place(&self, name: &str, digest: &Digest) -> io::Result<()> {
        let place = Place::of(digest);
        let folder = self.lasting_folder(&place.folder)?;
        renameat(self.root(), name, &folder, place.file.as_str())?;
        folder.sync_all()
    }

    /// Whether the content is there, as far as its start says; what is not even that is replaced.
    fn has(&self, digest: &Digest, bytes: u64) -> bool {
        let Ok(Some(mut file)) = self.open_file(digest) else { return false };
        let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        regular && Header::read(&mut file).is_ok_and(|header| header.bytes == bytes)
    }

    fn make_temporary(&self) -> io::Result<(String, File)> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY}{}-{number}", std::process::id());
            match openat(self.root(), name.as_str(), flags, Mode::from_raw_mode(0o600)) {
                Ok(file) => return Ok((name, File::from(file))),
                // A dead process had the same number.
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Writes the stored form of what `source` gives, to the disk.
fn pack(mut file: File, source: &mut dyn Read, bytes_max: u64) -> Result<(Digest, u64), Trouble> {
    file.write_all(&[0; HEADER_BYTES]).map_err(Trouble::Target)?;
    let mut plain = Hashed::new(source.take(bytes_max.saturating_add(1)));
    let mut encoder = packer(Hashed::new(io::BufWriter::new(file))).map_err(Trouble::Target)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = match plain.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Trouble::Source(error)),
        };
        let read = chunk.get(..count).unwrap_or_default();
        encoder.write_all(read).map_err(Trouble::Target)?;
    }
    if plain.length() > bytes_max {
        return Err(Trouble::TooLarge);
    }
    let finish = || -> io::Result<()> {
        let packed = encoder.finish()?;
        let header = Header { bytes: plain.length(), packed: packed.digest() };
        let mut file = packed.into_inner().into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&header.to_bytes())?;
        file.sync_all()
    };
    finish().map_err(Trouble::Target)?;
    Ok((plain.digest(), plain.length()))
}

/// Opens a regular file for reading; never a link, and never waiting for what is none.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}
