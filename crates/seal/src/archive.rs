//! A tar file of which every byte is decided by its members: sorted names, no times, no owners.
//!
//! Any reader of tar takes such a file. Ours takes no other: a header is read and then written again,
//! and must be the same, so there is no place in which a change would not be seen, and nothing but
//! regular files with plain names.

use std::io::{self, Read, Seek, SeekFrom, Write};

use thiserror::Error;

const BLOCK: u64 = 512;
/// The longest name.
pub(crate) const NAME_BYTES_MAX: usize = 99;
/// The largest member: what 11 octal digits can say.
pub(crate) const SIZE_MAX: u64 = (1 << 33) - 1;

/// Where a member lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// Why a file is not such an archive.
#[derive(Debug, Error)]
pub(crate) enum ArchiveError {
    /// Something stands where it may not.
    #[error("at byte {at}: {what}")]
    Form { at: u64, what: &'static str },
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Whether a name is one that a member may have: folders and a file, each plain.
pub(crate) fn is_name(name: &str) -> bool {
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

/// The one header for a name and a size.
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

/// What is missing to a whole block.
const fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK
}

/// Writes members one after the other, whose sizes are known once they are written.
pub(crate) struct Writer<W: Write + Seek> {
    target: W,
    last: String,
    at: u64,
}

impl<W: Write + Seek> Writer<W> {
    pub(crate) const fn new(target: W) -> Self {
        Self { target, last: String::new(), at: 0 }
    }

    /// Writes a member with whatever `fill` writes.
    pub(crate) fn member<T, E: From<io::Error>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut W) -> Result<T, E>,
    ) -> Result<T, E> {
        if !is_name(name) || *name <= *self.last {
            let what = format!("`{name}` cannot be the next member's name");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what).into());
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

    /// Writes the end.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.target.write_all(&[0; 1024])?;
        self.target.flush()?;
        Ok(self.target)
    }
}

/// Finds all members of a file that must be an archive of ours to the byte, contents aside.
///
/// Returns those that were found before the first thing that is wrong, and that thing.
pub(crate) fn index<R: Read + Seek>(
    source: &mut R,
    members_max: usize,
) -> Result<(Vec<Place>, Option<ArchiveError>), io::Error> {
    let mut places = Vec::new();
    match walk(source, members_max, &mut places) {
        Ok(()) => Ok((places, None)),
        Err(ArchiveError::Io(error)) => Err(error),
        Err(error) => Ok((places, Some(error))),
    }
}

fn walk<R: Read + Seek>(
    source: &mut R,
    members_max: usize,
    places: &mut Vec<Place>,
) -> Result<(), ArchiveError> {
    let length = source.seek(SeekFrom::End(0))?;
    let mut at = 0;
    loop {
        let form = |what| ArchiveError::Form { at, what };
        let Some(left) = length.checked_sub(at + BLOCK) else {
            return Err(form("the file ends too early"));
        };
        source.seek(SeekFrom::Start(at))?;
        let mut block = [0; 512];
        source.read_exact(&mut block)?;
        if block == [0; 512] {
            source.read_exact(&mut block).map_err(|_| form("the file ends too early"))?;
            let ends = block == [0; 512] && left == BLOCK;
            return if ends { Ok(()) } else { Err(form("something follows the end")) };
        }
        let (name, size) = read_header(&block).ok_or(form("it is not a header of ours"))?;
        if places.last().is_some_and(|place: &Place| *place.name >= *name) {
            return Err(form("the names are not in order"));
        }
        if places.len() >= members_max {
            return Err(form("there are too many members"));
        }
        if size + padding(size) > left {
            return Err(form("the member is longer than the file"));
        }
        let offset = at + BLOCK;
        source.seek(SeekFrom::Start(offset + size))?;
        let mut pad = Vec::new();
        source.by_ref().take(padding(size)).read_to_end(&mut pad)?;
        places.push(Place { name, offset, size });
        if pad.iter().any(|byte| *byte != 0) {
            return Err(form("something stands behind the member"));
        }
        at = offset + size + padding(size);
    }
}

fn read_header(block: &[u8; 512]) -> Option<(String, u64)> {
    let name = block.get(..NAME_BYTES_MAX)?.split(|byte| *byte == 0).next()?;
    let name = std::str::from_utf8(name).ok()?;
    let size = std::str::from_utf8(block.get(124..135)?).ok()?;
    let size = u64::from_str_radix(size, 8).ok()?;
    (is_name(name) && header(name, size) == *block).then(|| (name.to_owned(), size))
}
