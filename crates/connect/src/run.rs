//! Runs a program to its end: one thread polls its streams and its exit.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{ChildStdin, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::Signal;
use sha2::{Digest as _, Sha256};
use windlass_kernel::Digest;

use crate::process::{self, Group, Input};
use crate::trouble::Trouble;
use crate::{Certainty, Limits};

/// Between the request to end and the kill.
const GRACE: Duration = Duration::from_secs(2);
/// How long streams may stay open after the program's exit, in the hands of its children.
const LINGER: Duration = Duration::from_millis(500);
const CHUNK_BYTES: usize = 64 * 1024;

/// What a program is run with.
pub(crate) struct Run<'a> {
    pub argv: Vec<&'a OsStr>,
    pub stdin: Option<&'a [u8]>,
    pub env: Vec<(&'a OsStr, &'a OsStr)>,
    pub cwd: &'a Path,
    pub limits: Limits,
    /// What becomes of the standard output.
    pub output: Output,
    /// How much longer the error stream may be.
    pub stderr_more: usize,
}

/// What becomes of a program's standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Kept,
    /// Only its digest is kept: it may be larger than memory.
    Hashed,
}

/// Why the waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited,
    TimedOut,
    TooLarge(&'static str),
}

/// A program that was started and is gone.
pub(crate) struct Finished {
    pub end: End,
    pub status: Option<ExitStatus>,
    /// Empty when the output was hashed.
    pub stdout: Vec<u8>,
    pub stdout_digest: Option<Digest>,
    pub stderr: Vec<u8>,
}

/// Runs the program and waits for it.
pub(crate) fn run(run: &Run<'_>) -> Result<Finished, Trouble> {
    let input = if run.stdin.is_some() { Input::Pipe } else { Input::Nothing };
    let (mut group, streams) = process::spawn(&run.argv, run.env.iter().copied(), run.cwd, input)?;
    let sink = match run.output {
        Output::Kept => Sink::Kept(Vec::new()),
        Output::Hashed => Sink::Hashed(Box::default()),
    };
    let bytes_max = run.limits.output_bytes_max;
    let mut pump = Pump {
        stdin: streams.stdin,
        unread: run.stdin.unwrap_or_default(),
        stdout: Capture::new("stdout", streams.stdout, bytes_max, sink),
        stderr: Capture::new(
            "stderr",
            streams.stderr,
            bytes_max.saturating_add(run.stderr_more),
            Sink::Kept(Vec::new()),
        ),
    };
    let end = match pump.run(&group, run.limits.timeout) {
        Ok(end) => end,
        Err(error) => {
            drop(group);
            let message = format!("cannot follow the command: {error}");
            return Err(Trouble::internal(Certainty::Unknown, message));
        }
    };
    let status = group.finish();
    // What was written before the kill may still be on its way.
    pump.stdout.drain();
    pump.stderr.drain();
    let too_large = [&pump.stdout, &pump.stderr].into_iter().find(|capture| capture.too_large());
    let end = match (end, too_large) {
        (End::Exited, Some(capture)) => End::TooLarge(capture.name),
        (end, _) => end,
    };
    let (stdout, stdout_digest) = pump.stdout.sink.into_parts();
    let (stderr, _) = pump.stderr.sink.into_parts();
    Ok(Finished { end, status, stdout, stdout_digest, stderr })
}

/// A program's three streams, none of which ever blocks us.
struct Pump<'a> {
    stdin: Option<ChildStdin>,
    unread: &'a [u8],
    stdout: Capture,
    stderr: Capture,
}

impl Pump<'_> {
    /// Moves bytes until the program is done or out of time; the caller kills what is left.
    fn run(&mut self, group: &Group, timeout: Duration) -> io::Result<End> {
        if let Some(stdin) = &self.stdin {
            ioctl_fionbio(stdin, true)?;
        }
        self.stdout.start()?;
        self.stderr.start()?;
        let mut end = End::Exited;
        let mut exited = false;
        let mut deadline = Instant::now().checked_add(timeout);
        loop {
            if self.unread.is_empty() {
                self.stdin = None;
            }
            if exited && self.stdout.ended() && self.stderr.ended() {
                return Ok(end);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                // Out of time after the exit means that a child of the program keeps a stream open.
                if exited || end == End::TimedOut {
                    return Ok(end);
                }
                end = End::TimedOut;
                group.signal(Signal::TERM);
                deadline = Instant::now().checked_add(GRACE);
                continue;
            }
            if self.step(group, exited, deadline)? && !exited {
                exited = true;
                let linger = Instant::now().checked_add(LINGER);
                deadline = deadline.zip(linger).map(|(a, b)| a.min(b)).or(linger);
            }
            for capture in [&self.stdout, &self.stderr] {
                if capture.too_large() {
                    return Ok(if end == End::TimedOut {
                        end
                    } else {
                        End::TooLarge(capture.name)
                    });
                }
            }
        }
    }

    /// Waits for the next thing to do and does it; tells whether the program has exited.
    fn step(&mut self, group: &Group, exited: bool, deadline: Option<Instant>) -> io::Result<bool> {
        let (stdin, stdout, stderr, exit) = {
            let mut fds = Vec::with_capacity(4);
            let stdin = slot(&mut fds, self.stdin.as_ref().map(AsFd::as_fd), PollFlags::OUT);
            let stdout = slot(&mut fds, self.stdout.fd(), PollFlags::IN);
            let stderr = slot(&mut fds, self.stderr.fd(), PollFlags::IN);
            // Once it has ended, the pipe would be ready for ever.
            let exit = slot(&mut fds, (!exited).then(|| group.exit().as_fd()), PollFlags::IN);
            let time = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match poll(&mut fds, time.map(process::timespec).as_ref()) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            let ready = |slot: Option<usize>| {
                slot.and_then(|at| fds.get(at)).is_some_and(|fd| !fd.revents().is_empty())
            };
            (ready(stdin), ready(stdout), ready(stderr), ready(exit))
        };
        if stdin {
            self.feed();
        }
        if stdout {
            self.stdout.read();
        }
        if stderr {
            self.stderr.read();
        }
        Ok(exit)
    }

    /// Writes what the program takes; one that stops reading is left alone.
    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(self.unread) {
            Ok(written) => self.unread = self.unread.get(written..).unwrap_or_default(),
            Err(error) if retry(&error) => {}
            Err(_) => self.unread = &[],
        }
    }
}

/// Adds what is to be waited for and returns its place.
fn slot<'a>(
    fds: &mut Vec<PollFd<'a>>,
    fd: Option<BorrowedFd<'a>>,
    flags: PollFlags,
) -> Option<usize> {
    fds.push(PollFd::from_borrowed_fd(fd?, flags));
    Some(fds.len() - 1)
}

/// One output stream, taken up to a limit.
struct Capture {
    name: &'static str,
    stream: Option<Box<dyn Stream>>,
    sink: Sink,
    bytes: usize,
    bytes_max: usize,
}

/// Where a stream's bytes go.
enum Sink {
    Kept(Vec<u8>),
    Hashed(Box<Sha256>),
}

impl Sink {
    fn take(&mut self, bytes: &[u8]) {
        match self {
            Self::Kept(kept) => kept.extend_from_slice(bytes),
            Self::Hashed(hasher) => hasher.update(bytes),
        }
    }

    fn into_parts(self) -> (Vec<u8>, Option<Digest>) {
        match self {
            Self::Kept(bytes) => (bytes, None),
            Self::Hashed(hasher) => {
                (Vec::new(), Some(Digest::from_bytes(hasher.finalize().into())))
            }
        }
    }
}

trait Stream: Read + AsFd + Send {}
impl<S: Read + AsFd + Send> Stream for S {}

impl Capture {
    fn new(
        name: &'static str,
        stream: impl Stream + 'static,
        bytes_max: usize,
        sink: Sink,
    ) -> Self {
        Self { name, stream: Some(Box::new(stream)), sink, bytes: 0, bytes_max }
    }

    fn start(&self) -> io::Result<()> {
        match self.fd() {
            Some(fd) => Ok(ioctl_fionbio(fd, true)?),
            None => Ok(()),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(|stream| stream.as_fd())
    }

    const fn ended(&self) -> bool {
        self.stream.is_none()
    }

    const fn too_large(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Reads once; tells whether there may be more at once.
    fn read(&mut self) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let mut chunk = [0; CHUNK_BYTES];
        // One byte beyond the limit is enough to know.
        let room = self.bytes_max.saturating_add(1).saturating_sub(self.bytes);
        let into = chunk.get_mut(..room.min(CHUNK_BYTES)).unwrap_or_default();
        match stream.read(into) {
            Ok(0) => self.stream = None,
            Ok(count) => {
                self.bytes = self.bytes.saturating_add(count);
                self.sink.take(into.get(..count).unwrap_or_default());
                return !self.too_large();
            }
            Err(error) if retry(&error) => {}
            Err(_) => self.stream = None,
        }
        false
    }

    fn drain(&mut self) {
        while self.read() {}
    }
}

fn retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
