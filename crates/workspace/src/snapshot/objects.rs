//! Objects read one after the other through one running git, whatever their size.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use windlass_connect::{ChildStreams, ProcessGroup, one_line};

use super::Snapshots;
use crate::GitError;
use crate::git::{GitCause, Invocation, Kind};

const OPERATION: &str = "read the objects";
/// How long git may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(120);
const CHUNK_BYTES: usize = 64 * 1024;
/// Of the line that comes before an object.
const HEADER_BYTES_MAX: usize = 1024;

/// How a repository names its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Sha1,
    Sha256,
}

impl Format {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            _ => None,
        }
    }

    /// The length of a name in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Begins the name of an object of this kind and size.
    pub fn begin(self, kind: &str, size: u64) -> Naming {
        let mut context = Context::new(match self {
            Self::Sha1 => &SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &SHA256,
        });
        context.update(format!("{kind} {size}\0").as_bytes());
        Naming(context)
    }
}

/// The name of an object that is being read.
pub(super) struct Naming(Context);

impl Naming {
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

/// What came of asking for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// It is what its name says and went to the sink, all of it.
    Whole {
        /// `blob`, `tree`, `commit` or `tag`.
        kind: String,
    },
    /// It is not there, or is not what its name says.
    Bad,
}

/// What can go wrong on the way.
#[derive(Debug)]
pub(super) enum Trouble {
    /// With git.
    Git(GitError),
    /// Where the object was to go.
    Sink(io::Error),
}

/// One `git cat-file --batch`, started when it is first needed and again when it died.
pub(super) struct Objects<'a> {
    snapshots: &'a Snapshots,
    running: Option<Running>,
}

struct Running {
    /// Kills git when it is dropped.
    _group: ProcessGroup,
    streams: ChildStreams,
    buffer: Vec<u8>,
    /// How much of the buffer has been taken.
    taken: usize,
}

impl<'a> Objects<'a> {
    pub const fn new(snapshots: &'a Snapshots) -> Self {
        Self { snapshots, running: None }
    }

    /// Reads an object into a sink and checks that it is what its name says.
    pub fn copy(
        &mut self,
        id: &str,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Got, Trouble> {
        let format = self.snapshots.format();
        let mut running = match self.running.take() {
            Some(running) => running,
            None => Running::start(self.snapshots).map_err(Trouble::Git)?,
        };
        match running.copy(id, format, sink) {
            Ok(got) => {
                self.running = Some(running);
                Ok(got)
            }
            // It ends when it meets an object that it cannot unpack. The next one gets a new git.
            Err(Stop::Ended) => Ok(Got::Bad),
            Err(Stop::Trouble(trouble)) => Err(trouble),
        }
    }

    /// Reads an object of a limited size into memory.
    pub fn bytes(&mut self, id: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, Trouble> {
        let mut bytes = Vec::new();
        let got = self.copy(id, &mut |chunk| {
            if bytes.len() + chunk.len() > bytes_max {
                return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
            }
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok((got != Got::Bad).then_some(bytes))
    }
}

enum Stop {
    Ended,
    Trouble(Trouble),
}

impl From<GitCause> for Stop {
    fn from(cause: GitCause) -> Self {
        Self::Trouble(Trouble::Git(GitError::new(OPERATION, cause)))
    }
}

impl Running {
    fn start(snapshots: &Snapshots) -> Result<Self, GitError> {
        let git: Invocation<'_> = snapshots.objects_git(OPERATION, Kind::Read);
        let (group, streams) = git.args(["cat-file", "--batch"]).spawn()?;
        Ok(Self { _group: group, streams, buffer: Vec::new(), taken: 0 })
    }

    fn copy(
        &mut self,
        id: &str,
        format: Format,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Got, Stop> {
        let asked = self.streams.stdin.as_mut().ok_or(Stop::Ended)?;
        asked.write_all(format!("{id}\n").as_bytes()).map_err(|_| Stop::Ended)?;
        let header = self.header()?;
        let mut words = header.split(' ');
        let (name, kind, size) = (words.next(), words.next(), words.next());
        if (name, kind, size) == (Some(id), Some("missing"), None) {
            return Ok(Got::Bad);
        }
        let (Some(_), Some(kind), Some(size)) =
            (name.filter(|name| *name == id), kind, size.and_then(|size| size.parse().ok()))
        else {
            return Err(GitCause::Unexpected(one_line(&header)).into());
        };
        let mut naming = format.begin(kind, size);
        let mut left = size;
        while left > 0 {
            let chunk = self.chunk(left)?;
            naming.update(&chunk);
            sink(&chunk).map_err(|error| Stop::Trouble(Trouble::Sink(error)))?;
            left = left.saturating_sub(chunk.len() as u64);
        }
        self.chunk(1)?;
        Ok(if naming.finish() == id { Got::Whole { kind: kind.to_owned() } } else { Got::Bad })
    }

    fn header(&mut self) -> Result<String, Stop> {
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

    /// Takes some of what git says, at least one byte and at most `bytes_max`.
    fn chunk(&mut self, bytes_max: u64) -> Result<Vec<u8>, Stop> {
        if self.taken >= self.buffer.len() {
            self.fill()?;
        }
        let rest = self.buffer.get(self.taken..).unwrap_or_default();
        let count = usize::try_from(bytes_max).unwrap_or(usize::MAX).min(rest.len());
        let chunk = rest.get(..count).unwrap_or_default().to_vec();
        self.taken += count;
        Ok(chunk)
    }

    /// Waits for what git says next; what it complains about is thrown away, so that it never waits
    /// for us to read it.
    fn fill(&mut self) -> Result<(), Stop> {
        let deadline = Instant::now() + SILENCE_MAX;
        let unexpected = |error: io::Error| Stop::from(GitCause::Unexpected(error.to_string()));
        let mut complaints = true;
        loop {
            let (says, complains) = {
                let mut fds =
                    vec![PollFd::from_borrowed_fd(self.streams.stdout.as_fd(), PollFlags::IN)];
                if complaints {
                    let stderr = self.streams.stderr.as_fd();
                    fds.push(PollFd::from_borrowed_fd(stderr, PollFlags::IN));
                }
                let time = deadline.saturating_duration_since(Instant::now());
                match poll(&mut fds, Timespec::try_from(time).ok().as_ref()) {
                    Ok(0) => return Err(GitCause::Timeout(SILENCE_MAX.as_millis()).into()),
                    Ok(_) => {}
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => return Err(unexpected(error.into())),
                }
                let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
                (ready(0), ready(1))
            };
            if complains {
                let mut dropped = [0; 4096];
                complaints = self.streams.stderr.read(&mut dropped).map_err(unexpected)? > 0;
            }
            if says {
                self.buffer.resize(CHUNK_BYTES, 0);
                let count = self.streams.stdout.read(&mut self.buffer).map_err(unexpected)?;
                self.buffer.truncate(count);
                self.taken = 0;
                return if count == 0 { Err(Stop::Ended) } else { Ok(()) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_gits() {
        let name = |format: Format, bytes: &[u8]| {
            let mut naming = format.begin("blob", bytes.len() as u64);
            naming.update(bytes);
            naming.finish()
        };
        assert_eq!(name(Format::Sha1, b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(name(Format::Sha1, b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(
            name(Format::Sha256, b""),
            "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
        );
    }
}
