//! The form of a stored content: a frame that readers of zstd skip, then one frame of zstd.
//!
//! The first frame says how long the plain content is and what the digest of the second frame is, so
//! a changed byte is found even where zstd itself would not mind, and nothing is unpacked beyond the
//! length that was recorded. `zstd -d` reads such a file as it is.

use std::io::{self, BufReader, Read, Write};

use sha2::{Digest as _, Sha256};
use thiserror::Error;
use windlass_kernel::Digest;

/// How hard contents are compressed.
pub const LEVEL: i32 = 3;
/// The length of the first frame.
pub const HEADER_BYTES: usize = 56;
/// A frame to skip, of 48 bytes, and what those start with.
const START: [u8; 16] = *b"\x57\x2a\x4d\x18\x30\x00\x00\x00windlas1";
/// The most memory that unpacking may take, as a power of two; level 3 needs 21.
const WINDOW_LOG_MAX: u32 = 23;

/// What is wrong with a stored content.
#[derive(Debug, Error)]
pub enum Fault {
    /// It does not start as one.
    #[error("it does not start as a stored content does")]
    Header,
    /// It cannot be unpacked.
    #[error("it cannot be unpacked")]
    Packed,
    /// It has more or fewer bytes than its start says.
    #[error("it does not have the {expected} bytes that it says it has")]
    Length {
        /// What it says.
        expected: u64,
    },
    /// Its packed form is not the one that was written.
    #[error("its packed form was changed")]
    PackedDigest,
    /// It is another content.
    #[error("it is the content `{found}`")]
    OtherContent {
        /// The digest of what it is.
        found: Digest,
    },
    /// Its file cannot be read.
    #[error("its file cannot be read: {0}")]
    Io(io::Error),
}

/// The start of a stored content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The length of the plain content.
    pub bytes: u64,
    /// The digest of the frame that follows.
    pub packed: Digest,
}

impl Header {
    /// The bytes it is written as.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let parts = [&START[..], &self.bytes.to_le_bytes(), self.packed.as_bytes()];
        for (slot, byte) in out.iter_mut().zip(parts.into_iter().flatten()) {
            *slot = *byte;
        }
        out
    }

    /// Reads it from the beginning of a stored content.
    ///
    /// # Errors
    /// [`Fault`] when there is none.
    pub fn read(source: &mut impl Read) -> Result<Self, Fault> {
        let mut start = [0; START.len()];
        let mut bytes = [0; 8];
        let mut packed = [0; 32];
        for part in [&mut start[..], &mut bytes, &mut packed] {
            source.read_exact(part).map_err(|error| {
                let ended = error.kind() == io::ErrorKind::UnexpectedEof;
                if ended { Fault::Header } else { Fault::Io(error) }
            })?;
        }
        if start != START {
            return Err(Fault::Header);
        }
        Ok(Self { bytes: u64::from_le_bytes(bytes), packed: Digest::from_bytes(packed) })
    }
}

/// Counts and hashes what passes through it.
pub struct Hashed<T> {
    inner: T,
    hasher: Sha256,
    bytes: u64,
}

impl<T> Hashed<T> {
    /// Nothing has passed yet.
    pub fn new(inner: T) -> Self {
        Self { inner, hasher: Sha256::new(), bytes: 0 }
    }

    /// How much has passed.
    pub const fn length(&self) -> u64 {
        self.bytes
    }

    /// The digest of what has passed.
    pub fn digest(&self) -> Digest {
        Digest::from_bytes(self.hasher.clone().finalize().into())
    }

    /// What it was made of.
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }
}

impl<T: Read> Read for Hashed<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.pass(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl<T: Write> Write for Hashed<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.pass(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Starts packing into `target`.
///
/// # Errors
/// Those of zstd.
pub fn packer<W: Write>(target: W) -> io::Result<zstd::stream::write::Encoder<'static, W>> {
    let mut encoder = zstd::stream::write::Encoder::new(target, LEVEL)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}

/// Starts unpacking one frame, and no more than one, in bounded memory.
///
/// # Errors
/// Those of zstd.
pub fn unpacker<R: Read>(
    source: R,
) -> io::Result<zstd::stream::read::Decoder<'static, BufReader<R>>> {
    let mut decoder = zstd::stream::read::Decoder::new(source)?.single_frame();
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// Unpacks a stored content and compares it with what it must be, while it is read.
///
/// Nothing that was read holds before [`Unpacked::next`] has said that there is no more.
pub struct Unpacked<R: Read> {
    decoder: zstd::stream::read::Decoder<'static, BufReader<Hashed<R>>>,
    header: Header,
    expected: Digest,
    hasher: Sha256,
    left: u64,
    done: bool,
}

impl<R: Read> Unpacked<R> {
    /// Starts to read the content that is named `expected`; `source` ends where it does.
    ///
    /// # Errors
    /// [`Fault`] when it does not start as a stored content.
    pub fn new(mut source: R, expected: Digest) -> Result<Self, Fault> {
        let header = Header::read(&mut source)?;
        let decoder = unpacker(Hashed::new(source)).map_err(Fault::Io)?;
        let (hasher, left) = (Sha256::new(), header.bytes);
        Ok(Self { decoder, header, expected, hasher, left, done: false })
    }

    /// The length that was recorded.
    pub const fn length(&self) -> u64 {
        self.header.bytes
    }

    /// Reads on; 0 means that all was read and holds.
    ///
    /// # Errors
    /// [`Fault`] when the content is not what it must be.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        if self.done || buffer.is_empty() {
            return Ok(0);
        }
        let count = self.decoder.read(buffer).map_err(fault_of)?;
        let (expected, read) = (self.header.bytes, u64::try_from(count).unwrap_or(u64::MAX));
        self.left = self.left.checked_sub(read).ok_or(Fault::Length { expected })?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        if count == 0 {
            self.finish()?;
            self.done = true;
        }
        Ok(count)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        if self.left != 0 {
            return Err(Fault::Length { expected: self.header.bytes });
        }
        // What follows the frame belongs to the packed form too.
        let source = self.decoder.get_mut();
        io::copy(&mut source.get_mut().by_ref().take(1), &mut io::sink()).map_err(Fault::Io)?;
        if source.get_ref().digest() != self.header.packed {
            return Err(Fault::PackedDigest);
        }
        let found = Digest::from_bytes(self.hasher.clone().finalize().into());
        if found == self.expected { Ok(()) } else { Err(Fault::OtherContent { found }) }
    }
}

/// What zstd says of bad input has no kind of its own; a failing disk has an error number.
fn fault_of(error: io::Error) -> Fault {
    if error.raw_os_error().is_some() { Fault::Io(error) } else { Fault::Packed }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.next(buffer).map_err(|fault| {
            if let Fault::Io(error) = fault {
                return error;
            }
            io::Error::new(io::ErrorKind::InvalidData, fault)
        })
    }
}
