//! Runs a program to its end: one thread polls its streams and its exit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::ioctl_fionbio;

use crate::interrupt;
use crate::one_line::one_line;
use crate::process::{self, ChildInput, Confined, InputPipe, ProcessError, ProcessGroup};
use crate::spec::LimitKind;

/// The time between `SIGTERM` and `SIGKILL`.
const GRACE: Duration = Duration::from_secs(2);
/// How long child processes may keep the streams open after the program has exited.
const LINGER: Duration = Duration::from_millis(500);
const CHUNK_BYTES: usize = 64 * 1024;

/// The limits of a program that is run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start to the end.
    pub timeout: Duration,
    /// Of each of its two output streams.
    pub output_bytes_max: usize,
}

/// A program to run, with its input and limits.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// The program and its arguments.
    pub argv: Vec<&'a OsStr>,
    /// The standard input; none is `/dev/null`.
    pub stdin: Option<&'a [u8]>,
    /// Added to the variables that [`spawn`](crate::spawn) passes on.
    pub env: Vec<(&'a OsStr, &'a OsStr)>,
    /// The working directory.
    pub cwd: &'a Path,
    /// The time limit, and the size limit of each of the two output streams.
    pub limits: Limits,
    /// The cell in which it runs; none is no confinement.
    pub confined: Option<Confined<'a>>,
    /// What happens to what it prints beyond its limit.
    pub excess: Excess,
    /// What happens to it when a signal asks Windlass to end.
    pub on_signal: OnSignal,
}

/// What happens to a program that prints more than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// It is ended.
    End,
    /// It goes on; what is beyond the limit is read, counted and dropped.
    Drop,
}

/// What happens to a program when a signal asks Windlass to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSignal {
    /// It is ended at once.
    End,
    /// It is ended if it does not end soon by itself: what is nearly done is done and recorded.
    EndSoon,
    /// It goes on: its work must not be left half done.
    Continue,
}

impl OnSignal {
    /// How long the program may go on; `None` as long as no signal has come that concerns it.
    fn time_left(self) -> Option<Duration> {
        match self {
            Self::End => interrupt::received_signal().map(|_| Duration::ZERO),
            Self::EndSoon => interrupt::time_left(),
            Self::Continue => None,
        }
    }
}

/// Why [`run`] stopped waiting for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited.
    Exited,
    /// Its time was up, and it was killed.
    TimedOut,
    /// It wrote more than its limit to this stream, `stdout` or `stderr`, and was killed.
    TooLarge(&'static str),
    /// It reached this limit of its cell, and was killed.
    Limit(LimitKind),
    /// Windlass was asked to end, and the program was killed.
    Interrupted,
}

/// A program that was started and has ended.
#[derive(Debug)]
pub struct Finished {
    /// Why it ended.
    pub ending: Ending,
    /// Its exit status, unless it could not be reaped.
    pub status: Option<ExitStatus>,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
    /// How much of the standard output was dropped.
    pub stdout_dropped: u64,
    /// How much of the standard error was dropped.
    pub stderr_dropped: u64,
}

/// Runs a program and waits for it; kills what is left of its process group or cell.
///
/// # Errors
/// [`ProcessError`] when it could not be started, confined or followed.
pub fn run(program: &Program<'_>) -> Result<Finished, ProcessError> {
    run_with(program, &mut drop, None)
}

/// Runs a program without a cell as [`run`] does; it holds the lock of this file, too, until all of its processes have
/// ended. Who waits for the lock waits for them, also if this process was killed.
///
/// # Errors
/// [`ProcessError`] when it could not be started or followed.
pub fn run_holding(program: &Program<'_>, lock: &File) -> Result<Finished, ProcessError> {
    run_with(program, &mut drop, Some(lock))
}

/// Runs a program as [`run`] does, and passes on the socket on which its cell expects the broker.
///
/// # Errors
/// [`ProcessError`] when it could not be started, confined or followed.
pub fn run_with_broker(
    program: &Program<'_>,
    broker: &mut dyn FnMut(TcpListener),
) -> Result<Finished, ProcessError> {
    run_with(program, broker, None)
}

fn run_with(
    program: &Program<'_>,
    broker: &mut dyn FnMut(TcpListener),
    lock: Option<&File>,
) -> Result<Finished, ProcessError> {
    let input = if program.stdin.is_some() { ChildInput::Pipe } else { ChildInput::Null };
    let (mut group, streams) = process::spawn_holding(
        &program.argv,
        program.env.iter().copied(),
        program.cwd,
        input,
        lock.map(AsFd::as_fd),
        program.confined,
    )?;
    let (bytes_max, excess) = (program.limits.output_bytes_max, program.excess);
    let mut pump = Pump {
        stdin: streams.stdin,
        unread: program.stdin.unwrap_or_default(),
        stdout: Capture::new("stdout", streams.stdout, bytes_max, excess),
        stderr: Capture::new("stderr", streams.stderr, bytes_max, excess),
        broker,
        on_signal: program.on_signal,
    };
    let ending = pump
        .run(&mut group, program.limits.timeout)
        .map_err(|error| ProcessError::Lost(format!("cannot follow the command: {error}")))?;
    let status = group.finish();
    // What was written before the kill may still be on its way.
    pump.stdout.drain();
    pump.stderr.drain();
    if let Some(error) = group.failure() {
        return Err(with_reason(error, &pump.stderr.bytes));
    }
    let limit = group.cell().and_then(|cell| cell.limit());
    let too_large = [&pump.stdout, &pump.stderr].into_iter().find(|capture| capture.too_large());
    let ending = match (ending, limit, too_large) {
        (Ending::Exited, Some(limit), _) => Ending::Limit(limit),
        (Ending::Exited, None, Some(capture)) => Ending::TooLarge(capture.name),
        (ending, _, _) => ending,
    };
    Ok(Finished {
        ending,
        status,
        stdout: pump.stdout.bytes,
        stderr: pump.stderr.bytes,
        stdout_dropped: pump.stdout.dropped,
        stderr_dropped: pump.stderr.dropped,
    })
}

/// A cell that could not be made, with what its maker printed: nothing else ran that could print.
fn with_reason(error: ProcessError, printed: &[u8]) -> ProcessError {
    match error {
        ProcessError::NotConfined(why) if !printed.is_empty() => {
            let printed = one_line(&String::from_utf8_lossy(printed));
            ProcessError::NotConfined(format!("{why}: {printed}"))
        }
        ProcessError::NotConfined(_) | ProcessError::NotStarted(_) | ProcessError::Lost(_) => error,
    }
}

/// A program's three streams, all non-blocking.
struct Pump<'a> {
    stdin: Option<InputPipe>,
    unread: &'a [u8],
    stdout: Capture,
    stderr: Capture,
    broker: &'a mut dyn FnMut(TcpListener),
    on_signal: OnSignal,
}

impl Pump<'_> {
    /// Moves bytes until the program is done or out of time; the caller kills what is left.
    fn run(&mut self, group: &mut ProcessGroup, timeout: Duration) -> io::Result<Ending> {
        if let Some(stdin) = &self.stdin {
            ioctl_fionbio(stdin, true)?;
        }
        self.stdout.start()?;
        self.stderr.start()?;
        let mut ending = Ending::Exited;
        let mut exited = false;
        let mut deadline = Instant::now().checked_add(timeout);
        loop {
            if self.unread.is_empty() {
                self.stdin = None;
            }
            if exited && self.stdout.ended() && self.stderr.ended() {
                return Ok(ending);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                // Out of time after the exit means that a child of the program keeps a stream open.
                if exited || ending != Ending::Exited {
                    return Ok(ending);
                }
                ending = Ending::TimedOut;
                group.terminate();
                deadline = Instant::now().checked_add(GRACE);
                continue;
            }
            if !exited && self.on_signal.time_left() == Some(Duration::ZERO) {
                self.on_signal = OnSignal::Continue;
                ending = Ending::Interrupted;
                group.terminate();
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
                    let too_large = Ending::TooLarge(capture.name);
                    return Ok(if ending == Ending::Exited { too_large } else { ending });
                }
            }
        }
    }

    /// Waits until a stream is ready and handles it; returns whether the program has exited.
    fn step(
        &mut self,
        group: &mut ProcessGroup,
        exited: bool,
        deadline: Option<Instant>,
    ) -> io::Result<bool> {
        let (stdin, stdout, stderr, exit, cell) = {
            let mut fds = Vec::with_capacity(6);
            let stdin = slot(&mut fds, self.stdin.as_ref().map(AsFd::as_fd), PollFlags::OUT);
            let stdout = slot(&mut fds, self.stdout.fd(), PollFlags::IN);
            let stderr = slot(&mut fds, self.stderr.fd(), PollFlags::IN);
            // Once it has ended, the pipe would be ready for ever.
            let exit = slot(&mut fds, (!exited).then(|| group.exit().as_fd()), PollFlags::IN);
            let cell = slot(&mut fds, group.reporting_cell().map(AsFd::as_fd), PollFlags::IN);
            let left = self.on_signal.time_left().filter(|_| !exited);
            // Once a signal has come, its pipe is ready for ever.
            let waits = !exited && self.on_signal != OnSignal::Continue && left.is_none();
            let _ = slot(&mut fds, waits.then(interrupt::wake_up).flatten(), PollFlags::IN);
            let time = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let time = time.into_iter().chain(left).min();
            match poll(&mut fds, time.map(process::timespec).as_ref()) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            let ready = |slot: Option<usize>| {
                slot.and_then(|at| fds.get(at)).is_some_and(|fd| !fd.revents().is_empty())
            };
            (ready(stdin), ready(stdout), ready(stderr), ready(exit), ready(cell))
        };
        if let Some(cell) = group.cell().filter(|_| cell) {
            cell.update()?;
            if let Some(listener) = cell.take_listener() {
                (self.broker)(listener);
            }
        }
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

    /// Writes as much input as the program accepts; a program that stops reading gets no more.
    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(self.unread) {
            Ok(written) => self.unread = self.unread.get(written..).unwrap_or_default(),
            Err(error) if retry(&error) => {}
            Err(_) => self.unread = &[],
        }
    }
}

/// Adds a descriptor to poll and returns its index.
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
    bytes: Vec<u8>,
    bytes_max: usize,
    excess: Excess,
    dropped: u64,
}

trait Stream: Read + AsFd + Send {}
impl<S: Read + AsFd + Send> Stream for S {}

impl Capture {
    fn new(
        name: &'static str,
        stream: impl Stream + 'static,
        bytes_max: usize,
        excess: Excess,
    ) -> Self {
        let stream: Option<Box<dyn Stream>> = Some(Box::new(stream));
        Self { name, stream, bytes: Vec::new(), bytes_max, excess, dropped: 0 }
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
        self.bytes.len() > self.bytes_max
    }

    /// Reads once; returns whether there may be more.
    fn read(&mut self) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let mut chunk = [0; CHUNK_BYTES];
        let room = self.bytes_max.saturating_sub(self.bytes.len());
        let most = match self.excess {
            // One byte beyond the limit is enough to know.
            Excess::End => room.saturating_add(1).min(CHUNK_BYTES),
            Excess::Drop => CHUNK_BYTES,
        };
        match stream.read(chunk.get_mut(..most).unwrap_or_default()) {
            Ok(0) => self.stream = None,
            Ok(count) => {
                let taken = match self.excess {
                    Excess::End => count,
                    Excess::Drop => count.min(room),
                };
                self.bytes.extend_from_slice(chunk.get(..taken).unwrap_or_default());
                self.dropped += u64::try_from(count - taken).unwrap_or_default();
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
