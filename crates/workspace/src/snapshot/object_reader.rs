//! Reads objects of any size, one after the other, through one `git cat-file --batch`.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use windlass_cell::{ChildStreams, ProcessGroup, one_line};

use super::{SnapshotError, Snapshots};
use crate::GitError;
use crate::git::{Access, GitCause, Invocation};

const OPERATION: &str = "read the objects";
/// How long git may take to write the next bytes.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
const CHUNK_BYTES: usize = 64 * 1024;
/// The limit of the line before an object.
const HEADER_BYTES_MAX: usize = 1024;

/// The hash function of a repository's object ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            _ => None,
        }
    }

    /// The length of an id in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Starts the hash of an object of this kind and size.
    pub fn hasher(self, kind: &str, size: u64) -> ObjectHasher {
        let mut context = Context::new(match self {
            Self::Sha1 => &SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &SHA256,
        });
        context.update(format!("{kind} {size}\0").as_bytes());
        ObjectHasher(context)
    }
}

/// Computes the id of an object while it is read.
pub(super) struct ObjectHasher(Context);

impl ObjectHasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> String {
        hex(self.0.finish().as_ref())
    }
}

/// Bytes as lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The result of reading an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ObjectRead {
    /// It matches its id and was written to the sink.
    Intact {
        /// `blob`, `tree`, `commit` or `tag`.
        kind: String,
    },
    /// It is missing, or does not match its id.
    Damaged,
}

/// Why an object could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// Git failed.
    Git(GitError),
    /// The sink failed.
    Sink(io::Error),
}

impl ReadError {
    /// The error of a snapshot operation on this path.
    pub fn at(self, operation: &'static str, path: &Path) -> SnapshotError {
        match self {
            Self::Git(error) => error.into(),
            Self::Sink(error) => SnapshotError::file(operation, path, &error),
        }
    }
}

/// One `git cat-file --batch`, started when it is first needed and again when it died.
pub(super) struct ObjectReader<'a> {
    pub snapshots: &'a Snapshots,
    process: Option<BatchProcess>,
}

struct BatchProcess {
    /// Kills git when it is dropped.
    _group: ProcessGroup,
    streams: ChildStreams,
    buffer: Vec<u8>,
    /// How much of the buffer has been consumed.
    consumed: usize,
}

impl<'a> ObjectReader<'a> {
    pub const fn new(snapshots: &'a Snapshots) -> Self {
        Self { snapshots, process: None }
    }

    /// Reads an object into a sink and checks that it matches its id.
    pub fn copy(
        &mut self,
        id: &str,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<ObjectRead, ReadError> {
        let format = self.snapshots.format();
        let mut process = match self.process.take() {
            Some(process) => process,
            None => BatchProcess::start(self.snapshots).map_err(ReadError::Git)?,
        };
        match process.copy(id, format, sink) {
            Ok(read) => {
                self.process = Some(process);
                Ok(read)
            }
            // Git exits at an object that it cannot unpack. The next object gets a new process.
            Err(BatchStop::Ended) => Ok(ObjectRead::Damaged),
            Err(BatchStop::Failed(error)) => Err(error),
        }
    }

    /// Reads an object of a limited size into memory.
    pub fn bytes(&mut self, id: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.small(id, bytes_max)?.map(|(_, bytes)| bytes))
    }

    /// Reads an object of a limited size into memory, with its kind.
    pub fn small(
        &mut self,
        id: &str,
        bytes_max: usize,
    ) -> Result<Option<(String, Vec<u8>)>, ReadError> {
        let mut bytes = Vec::new();
        let read = self.copy(id, &mut |chunk| {
            if bytes.len() + chunk.len() > bytes_max {
                return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
            }
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(match read {
            ObjectRead::Intact { kind } => Some((kind, bytes)),
            ObjectRead::Damaged => None,
        })
    }
}

enum BatchStop {
    Ended,
    Failed(ReadError),
}

impl From<GitCause> for BatchStop {
    fn from(cause: GitCause) -> Self {
        Self::Failed(ReadError::Git(GitError::new(OPERATION, cause)))
    }
}

impl BatchProcess {
    fn start(snapshots: &Snapshots) -> Result<Self, GitError> {
        let git: Invocation<'_> = snapshots.objects_git(OPERATION, Access::Read);
        let (group, streams) = git.args(["cat-file", "--batch"]).spawn()?;
        Ok(Self { _group: group, streams, buffer: Vec::new(), consumed: 0 })
    }

    fn copy(
        &mut self,
        id: &str,
        format: ObjectFormat,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<ObjectRead, BatchStop> {
        let stdin = self.streams.stdin.as_mut().ok_or(BatchStop::Ended)?;
        stdin.write_all(format!("{id}\n").as_bytes()).map_err(|_| BatchStop::Ended)?;
        let header = self.header()?;
        let mut words = header.split(' ');
        let (name, kind, size) = (words.next(), words.next(), words.next());
        if (name, kind, size) == (Some(id), Some("missing"), None) {
            return Ok(ObjectRead::Damaged);
        }
        let (Some(_), Some(kind), Some(size)) =
            (name.filter(|name| *name == id), kind, size.and_then(|size| size.parse().ok()))
        else {
            return Err(GitCause::Unexpected(one_line(&header)).into());
        };
        let mut hasher = format.hasher(kind, size);
        let mut left = size;
        while left > 0 {
            let chunk = self.chunk(left)?;
            hasher.update(&chunk);
            sink(&chunk).map_err(|error| BatchStop::Failed(ReadError::Sink(error)))?;
            left = left.saturating_sub(chunk.len() as u64);
        }
        self.chunk(1)?;
        Ok(if hasher.finish() == id {
            ObjectRead::Intact { kind: kind.to_owned() }
        } else {
            ObjectRead::Damaged
        })
    }

    fn header(&mut self) -> Result<String, BatchStop> {
        let mut line = Vec::new();
        loop {
            let byte = self.chunk(1)?;
            match byte.first() {
                Some(b'\n') => break,
                Some(byte) if line.len() < HEADER_BYTES_MAX => line.push(*byte),
                Some(_) | None => {
                    return Err(GitCause::Unexpected("a line without end".to_owned()).into());
                }
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Reads the next bytes of git's output: at least one and at most `bytes_max`.
    fn chunk(&mut self, bytes_max: u64) -> Result<Vec<u8>, BatchStop> {
        if self.consumed >= self.buffer.len() {
            self.fill()?;
        }
        let rest = self.buffer.get(self.consumed..).unwrap_or_default();
        let count = usize::try_from(bytes_max).unwrap_or(usize::MAX).min(rest.len());
        let chunk = rest.get(..count).unwrap_or_default().to_vec();
        self.consumed += count;
        Ok(chunk)
    }

    /// Waits for git's next output. Its error stream is read and discarded, so that git never blocks on
    /// it.
    fn fill(&mut self) -> Result<(), BatchStop> {
        let deadline = Instant::now() + READ_TIMEOUT;
        let unexpected =
            |error: io::Error| BatchStop::from(GitCause::Unexpected(error.to_string()));
        let mut stderr_open = true;
        loop {
            let (stdout_ready, stderr_ready) = {
                let mut fds =
                    vec![PollFd::from_borrowed_fd(self.streams.stdout.as_fd(), PollFlags::IN)];
                if stderr_open {
                    let stderr = self.streams.stderr.as_fd();
                    fds.push(PollFd::from_borrowed_fd(stderr, PollFlags::IN));
                }
                let time = deadline.saturating_duration_since(Instant::now());
                match poll(&mut fds, Timespec::try_from(time).ok().as_ref()) {
                    Ok(0) => return Err(GitCause::Timeout(READ_TIMEOUT.as_millis()).into()),
                    Ok(_) => {}
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => return Err(unexpected(error.into())),
                }
                let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
                (ready(0), ready(1))
            };
            if stderr_ready {
                let mut discarded = [0; 4096];
                stderr_open = self.streams.stderr.read(&mut discarded).map_err(unexpected)? > 0;
            }
            if stdout_ready {
                self.buffer.resize(CHUNK_BYTES, 0);
                let count = self.streams.stdout.read(&mut self.buffer).map_err(unexpected)?;
                self.buffer.truncate(count);
                self.consumed = 0;
                return if count == 0 { Err(BatchStop::Ended) } else { Ok(()) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_match_those_of_git() {
        let id = |format: ObjectFormat, bytes: &[u8]| {
            let mut hasher = format.hasher("blob", bytes.len() as u64);
            hasher.update(bytes);
            hasher.finish()
        };
        assert_eq!(id(ObjectFormat::Sha1, b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(id(ObjectFormat::Sha1, b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(
            id(ObjectFormat::Sha256, b""),
            "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
        );
    }
}
