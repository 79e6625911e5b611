//! Deterministic tar archives: every byte follows from the members. Names are sorted; there are no
//! times and no owners.
//!
//! Any tar reader accepts such a file. This reader accepts no other: it writes each header again and
//! compares the bytes, so every change is detected, and only regular files with plain names pass.

use std::io::{self, Read, Seek, SeekFrom, Write};

use thiserror::Error;

const BLOCK: u64 = 512;
/// The maximum length of a name.
pub(crate) const NAME_BYTES_MAX: usize = 99;
/// The maximum size of a member: 11 octal digits.
pub(crate) const SIZE_MAX: u64 = (1 << 33) - 1;

/// The position of a member in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveMember {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// The file is not such an archive.
#[derive(Debug, Error)]
pub(crate) enum ArchiveError {
    /// The bytes at this offset are not valid.
    #[error("at byte {offset}: {reason}")]
    Invalid { offset: u64, reason: &'static str },
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Whether a member may have this name: a plain file name, optionally below one folder.
pub(crate) fn is_valid_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.split('/').count() <= 2
        && name.split('/').all(|part| {
            !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(
                |byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-'),
            )
        })
}

/// Returns the only valid header for a name and a size.
fn header(name: &str, size: u64) -> [u8; 512] {
    let mut block = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| {
        for (slot, byte) in block.iter_mut().skip(at).zip(bytes) {
            *slot = *byte;
        }
    };
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(329, b"0000000\0");
    put(337, b"0000000\0");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    for (slot, byte) in block.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").bytes()) {
        *slot = byte;
    }
    block
}

/// The number of bytes that fill the last block.
const fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK
}

/// Writes members whose sizes are known only after they are written.
pub(crate) struct ArchiveWriter<W: Write + Seek> {
    target: W,
    last: String,
    at: u64,
}

impl<W: Write + Seek> ArchiveWriter<W> {
    pub(crate) const fn new(target: W) -> Self {
        Self { target, last: String::new(), at: 0 }
    }

    /// Writes a member with the bytes that `fill` writes.
    pub(crate) fn member<T, E: From<io::Error>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut W) -> Result<T, E>,
    ) -> Result<T, E> {
        if !is_valid_name(name) || *name <= *self.last {
            let message = format!("`{name}` is not valid as the name of the next member");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message).into());
        }
        name.clone_into(&mut self.last);
        self.target.write_all(&[0; 512])?;
        let filled = fill(&mut self.target)?;
        let end = self.target.stream_position()?;
        let size = end.saturating_sub(self.at + BLOCK);
        if size > SIZE_MAX {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge).into());
        }
        self.target.seek(SeekFrom::Start(self.at))?;
        self.target.write_all(&header(name, size))?;
        self.target.seek(SeekFrom::Start(end))?;
        io::copy(&mut io::repeat(0).take(padding(size)), &mut self.target)?;
        self.at = end + padding(size);
        Ok(filled)
    }

    /// Writes the end of the archive.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.target.write_all(&[0; 1024])?;
        self.target.flush()?;
        Ok(self.target)
    }
}

/// Lists the members of a file and checks every byte of it except their contents.
///
/// Returns the members before the first error, and that error.
pub(crate) fn index<R: Read + Seek>(
    source: &mut R,
    members_max: usize,
) -> Result<(Vec<ArchiveMember>, Option<ArchiveError>), io::Error> {
    let mut members = Vec::new();
    match walk(source, members_max, &mut members) {
        Ok(()) => Ok((members, None)),
        Err(ArchiveError::Io(error)) => Err(error),
        Err(error) => Ok((members, Some(error))),
    }
}

fn walk<R: Read + Seek>(
    source: &mut R,
    members_max: usize,
    members: &mut Vec<ArchiveMember>,
) -> Result<(), ArchiveError> {
    let length = source.seek(SeekFrom::End(0))?;
    let mut at = 0;
    loop {
        let invalid = |reason| ArchiveError::Invalid { offset: at, reason };
        let Some(left) = length.checked_sub(at + BLOCK) else {
            return Err(invalid("the file ends too early"));
        };
        source.seek(SeekFrom::Start(at))?;
        let mut block = [0; 512];
        source.read_exact(&mut block)?;
        if block == [0; 512] {
            source.read_exact(&mut block).map_err(|_| invalid("the file ends too early"))?;
            let ends = block == [0; 512] && left == BLOCK;
            return if ends { Ok(()) } else { Err(invalid("more data follows the end")) };
        }
        let (name, size) = read_header(&block).ok_or(invalid("the header is not valid"))?;
        if members.last().is_some_and(|member: &ArchiveMember| *member.name >= *name) {
            return Err(invalid("the names are not in order"));
        }
        if members.len() >= members_max {
            return Err(invalid("there are too many members"));
        }
        if size + padding(size) > left {
            return Err(invalid("the member extends beyond the end of the file"));
        }
        let offset = at + BLOCK;
        source.seek(SeekFrom::Start(offset + size))?;
        let mut pad = Vec::new();
        source.by_ref().take(padding(size)).read_to_end(&mut pad)?;
        members.push(ArchiveMember { name, offset, size });
        if pad.iter().any(|byte| *byte != 0) {
            return Err(invalid("the padding after the member is not zero"));
        }
        at = offset + size + padding(size);
    }
}

fn read_header(block: &[u8; 512]) -> Option<(String, u64)> {
    let name = block.get(..NAME_BYTES_MAX)?.split(|byte| *byte == 0).next()?;
    let name = std::str::from_utf8(name).ok()?;
    let size = std::str::from_utf8(block.get(124..135)?).ok()?;
    let size = u64::from_str_radix(size, 8).ok()?;
    (is_valid_name(name) && header(name, size) == *block).then(|| (name.to_owned(), size))
}
