//! Objects of snapshots in one stream, in the form of `git cat-file --batch`: for each object a line with its
//! id, kind and size, its bytes, and a line feed. Ids ascend, so that a set of objects has one stream only.

use std::io::{self, BufRead, Read, Write};

use thiserror::Error;

use super::object_reader::ObjectFormat;

/// The maximum length of the line before an object.
const HEADER_BYTES_MAX: u64 = 128;
const CHUNK_BYTES: u64 = 64 * 1024;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// The content of a file, or the target of a symbolic link.
    Blob,
    /// A folder.
    Tree,
    /// A snapshot: its folder, and what that does not hold.
    Tag,
}

impl ObjectKind {
    /// Git's name.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Tree => "tree",
            Self::Tag => "tag",
        }
    }
}

/// The line before an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHeader {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: ObjectKind,
    /// The number of its bytes.
    pub size: u64,
}

impl ObjectHeader {
    /// Writes the line.
    pub(super) fn write(&self, target: &mut dyn Write) -> io::Result<()> {
        writeln!(target, "{} {} {}", self.id, self.kind.as_str(), self.size)
    }

    /// Reads a line; accepts only the form that [`ObjectHeader::write`] writes.
    fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
        let mut words = text.split(' ');
        let (id, kind, size) = (words.next()?, words.next()?, words.next()?);
        let kind = match kind {
            "blob" => ObjectKind::Blob,
            "tree" => ObjectKind::Tree,
            "tag" => ObjectKind::Tag,
            _ => return None,
        };
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let header = Self { id: id.to_owned(), kind, size: size.parse().ok()? };
        let mut again = Vec::new();
        header.write(&mut again).ok()?;
        (id.bytes().all(is_digit) && again == line).then_some(header)
    }
}

/// The hash function of an id.
pub(super) fn format_of(id: &str) -> Option<ObjectFormat> {
    [ObjectFormat::Sha1, ObjectFormat::Sha256]
        .into_iter()
        .find(|format| format.bytes() * 2 == id.len())
}

/// A stream of objects that cannot be read.
#[derive(Debug, Error)]
pub enum ObjectStreamError {
    /// The source failed.
    #[error(transparent)]
    Io(io::Error),
    /// The bytes are not such a stream.
    #[error("{0}")]
    Invalid(String),
    /// What takes the objects failed.
    #[error(transparent)]
    Sink(io::Error),
}

impl ObjectStreamError {
    /// An error of the disk has a number of the operating system; one of the decoder has none.
    pub(super) fn read(error: io::Error) -> Self {
        if error.raw_os_error().is_some() {
            Self::Io(error)
        } else {
            Self::Invalid("it cannot be decompressed, or ends too early".to_owned())
        }
    }

    pub(super) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid(reason.into())
    }
}

/// Takes the parts of an object; the first part of each object is empty.
pub type ObjectSink<'a> = dyn FnMut(&ObjectHeader, &[u8]) -> io::Result<()> + 'a;

/// Reads a stream of objects and checks each against its id.
pub struct ObjectStream<R> {
    source: R,
    last: Option<String>,
}

impl<R: BufRead> ObjectStream<R> {
    /// Reads from the beginning.
    pub const fn new(source: R) -> Self {
        Self { source, last: None }
    }

    /// Reads the next object; `None` at the end.
    ///
    /// # Errors
    /// [`ObjectStreamError`]. A sink may have got an object that turns out not to match its id.
    pub fn next(
        &mut self,
        sink: &mut ObjectSink<'_>,
    ) -> Result<Option<ObjectHeader>, ObjectStreamError> {
        let mut line = Vec::new();
        let read = self.source.by_ref().take(HEADER_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(ObjectStreamError::read)? == 0 {
            return Ok(None);
        }
        let header = ObjectHeader::parse(&line)
            .ok_or_else(|| ObjectStreamError::invalid("the line before an object is not valid"))?;
        let format = format_of(&header.id)
            .filter(|_| {
                self.last
                    .as_ref()
                    .is_none_or(|last| last.len() == header.id.len() && *last < header.id)
            })
            .ok_or_else(|| ObjectStreamError::invalid("the ids of its objects are not in order"))?;
        let mut hasher = format.hasher(header.kind.as_str(), header.size);
        sink(&header, &[]).map_err(ObjectStreamError::Sink)?;
        let mut left = header.size;
        let mut chunk = Vec::new();
        while left > 0 {
            chunk.clear();
            let part = self.source.by_ref().take(left.min(CHUNK_BYTES)).read_to_end(&mut chunk);
            let count = part.map_err(ObjectStreamError::read)?;
            if count == 0 {
                return Err(ObjectStreamError::invalid("it ends too early"));
            }
            hasher.update(&chunk);
            sink(&header, &chunk).map_err(ObjectStreamError::Sink)?;
            left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        }
        let mut end = [0];
        self.source.read_exact(&mut end).map_err(ObjectStreamError::read)?;
        if end != *b"\n" || hasher.finish() != header.id {
            let reason = format!("the object `{}` does not match its id", header.id);
            return Err(ObjectStreamError::Invalid(reason));
        }
        self.last = Some(header.id.clone());
        Ok(Some(header))
    }
}
