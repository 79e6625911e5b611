//! The file format of a blob: a skippable zstd frame with a header, then one frame of zstd.
//!
//! The header has the length of the plain bytes and the digest of the second frame, so a changed byte
//! is found even where zstd itself would not notice, and nothing is decompressed beyond the recorded
//! length. `zstd -d` reads such a file as it is.

use std::io::{self, BufReader, Read, Write};

use sha2::{Digest as _, Sha256};
use thiserror::Error;
use windlass_kernel::Digest;

/// The compression level.
const LEVEL: i32 = 3;
/// The length of the header frame.
pub const HEADER_BYTES: usize = 56;
/// The start of a skippable frame of 48 bytes, and our magic number.
const MAGIC: [u8; 16] = *b"\x57\x2a\x4d\x18\x30\x00\x00\x00windlas1";
/// The largest window for decompression, as a power of two; level 3 needs 21.
const WINDOW_LOG_MAX: u32 = 23;

/// Why a blob file is damaged.
#[derive(Debug, Error)]
pub enum FormatError {
    /// The header is missing or malformed.
    #[error("its header is missing or malformed")]
    BlobHeader,
    /// It cannot be decompressed.
    #[error("it cannot be decompressed")]
    Compressed,
    /// It has more or fewer bytes than its header says.
    #[error("it does not have the {expected} bytes that its header says")]
    Length {
        /// The length in the header.
        expected: u64,
    },
    /// Its compressed bytes are not those that were written.
    #[error("its compressed bytes were changed")]
    CompressedDigest,
    /// It is another blob.
    #[error("it is the blob `{found}`")]
    OtherBlob {
        /// The digest of the bytes that were read.
        found: Digest,
    },
    /// Its file cannot be read.
    #[error("its file cannot be read: {0}")]
    Io(io::Error),
}

/// The header of a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobHeader {
    /// The length of the plain bytes.
    pub bytes: u64,
    /// The digest of the compressed frame that follows.
    pub compressed: Digest,
}

impl BlobHeader {
    /// Encodes the header.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let parts = [&MAGIC[..], &self.bytes.to_le_bytes(), self.compressed.as_bytes()];
        for (slot, byte) in out.iter_mut().zip(parts.into_iter().flatten()) {
            *slot = *byte;
        }
        out
    }

    /// Reads the header from the beginning of a blob file.
    ///
    /// # Errors
    /// [`FormatError`] when it is missing or malformed.
    pub fn read(source: &mut impl Read) -> Result<Self, FormatError> {
        let mut start = [0; MAGIC.len()];
        let mut bytes = [0; 8];
        let mut compressed = [0; 32];
        for part in [&mut start[..], &mut bytes, &mut compressed] {
            source.read_exact(part).map_err(|error| {
                let ended = error.kind() == io::ErrorKind::UnexpectedEof;
                if ended { FormatError::BlobHeader } else { FormatError::Io(error) }
            })?;
        }
        if start != MAGIC {
            return Err(FormatError::BlobHeader);
        }
        Ok(Self { bytes: u64::from_le_bytes(bytes), compressed: Digest::from_bytes(compressed) })
    }
}

/// A reader or writer that counts and hashes the bytes that pass through it.
pub struct HashingStream<T> {
    inner: T,
    hasher: Sha256,
    bytes: u64,
}

impl<T> HashingStream<T> {
    /// Wraps a reader or writer.
    pub fn new(inner: T) -> Self {
        Self { inner, hasher: Sha256::new(), bytes: 0 }
    }

    /// The number of bytes so far.
    pub const fn length(&self) -> u64 {
        self.bytes
    }

    /// The digest of the bytes so far.
    pub fn digest(&self) -> Digest {
        Digest::from_bytes(self.hasher.clone().finalize().into())
    }

    /// Returns the wrapped reader or writer.
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn count(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }
}

impl<T: Read> Read for HashingStream<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl<T: Write> Write for HashingStream<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.count(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Makes a zstd encoder that writes to `target`.
///
/// # Errors
/// Those of zstd.
pub fn encoder<W: Write>(target: W) -> io::Result<zstd::stream::write::Encoder<'static, W>> {
    let mut encoder = zstd::stream::write::Encoder::new(target, LEVEL)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}

/// Makes a zstd decoder of exactly one frame, in bounded memory.
///
/// # Errors
/// Those of zstd.
pub fn decoder<R: Read>(
    source: R,
) -> io::Result<zstd::stream::read::Decoder<'static, BufReader<R>>> {
    let mut decoder = zstd::stream::read::Decoder::new(source)?.single_frame();
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// Decompresses a blob file and checks its digests while it is read.
///
/// The bytes are verified only when [`BlobDecoder::next`] has returned 0.
pub struct BlobDecoder<R: Read> {
    decoder: zstd::stream::read::Decoder<'static, BufReader<HashingStream<R>>>,
    header: BlobHeader,
    expected: Digest,
    hasher: Sha256,
    left: u64,
    done: bool,
}

impl<R: Read> BlobDecoder<R> {
    /// Starts to read the blob with the digest `expected`; `source` ends with the blob file.
    ///
    /// # Errors
    /// [`FormatError`] when the header is missing or malformed.
    pub fn new(mut source: R, expected: Digest) -> Result<Self, FormatError> {
        let header = BlobHeader::read(&mut source)?;
        let decoder = decoder(HashingStream::new(source)).map_err(FormatError::Io)?;
        let (hasher, left) = (Sha256::new(), header.bytes);
        Ok(Self { decoder, header, expected, hasher, left, done: false })
    }

    /// The length in the header.
    pub const fn length(&self) -> u64 {
        self.header.bytes
    }

    /// Reads the next bytes; 0 means that all were read and are verified.
    ///
    /// # Errors
    /// [`FormatError`] when the blob is damaged.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<usize, FormatError> {
        if self.done || buffer.is_empty() {
            return Ok(0);
        }
        let count = self.decoder.read(buffer).map_err(format_error)?;
        let (expected, read) = (self.header.bytes, u64::try_from(count).unwrap_or(u64::MAX));
        self.left = self.left.checked_sub(read).ok_or(FormatError::Length { expected })?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        if count == 0 {
            self.finish()?;
            self.done = true;
        }
        Ok(count)
    }

    fn finish(&mut self) -> Result<(), FormatError> {
        if self.left != 0 {
            return Err(FormatError::Length { expected: self.header.bytes });
        }
        // Bytes after the frame are part of the digest too.
        let source = self.decoder.get_mut();
        io::copy(&mut source.get_mut().by_ref().take(1), &mut io::sink())
            .map_err(FormatError::Io)?;
        if source.get_ref().digest() != self.header.compressed {
            return Err(FormatError::CompressedDigest);
        }
        let found = Digest::from_bytes(self.hasher.clone().finalize().into());
        if found == self.expected { Ok(()) } else { Err(FormatError::OtherBlob { found }) }
    }
}

/// An error of zstd about its input has no number of the operating system; one of the disk has.
fn format_error(error: io::Error) -> FormatError {
    if error.raw_os_error().is_some() { FormatError::Io(error) } else { FormatError::Compressed }
}
