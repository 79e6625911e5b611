//! A program whose processes end with the process that started it, whatever signal that dies of.
//!
//! Our own binary stands between both. It adopts what leaves its parents (a session or process group of its own keeps
//! nothing alive), follows the process that started it, and kills what is left when either end is reached.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, kill_process_group,
    pidfd_open, set_child_subreaper,
};

use crate::interrupt;
use crate::process::timespec;

/// The words with which our binary is started between both.
const WORDS: [&str; 2] = ["confined", "bound"];
/// The time between `SIGTERM` and `SIGKILL`, less than what whoever started us waits for us.
const GRACE: Duration = Duration::from_millis(1200);
/// How long killed processes may take to end.
const END: Duration = Duration::from_secs(2);
/// How long to wait before looking again for processes that are still being killed.
const AGAIN: Duration = Duration::from_millis(10);
/// The exit code if the program could not be started or followed.
const FAILED: i32 = 125;

/// The command that runs a program as long as this process lives; `launcher` is the path of our own binary.
#[must_use]
pub fn bound(launcher: &Path, argv: &[&OsStr]) -> Vec<OsString> {
    let own = [launcher.as_os_str().to_owned()];
    let own = own.into_iter().chain(WORDS.map(OsString::from));
    let parent = std::process::id().to_string().into();
    own.chain([parent]).chain(argv.iter().map(|word| (*word).to_owned())).collect()
}

/// Runs the program that the words after `confined bound` name, and returns its exit code. The process must have one
/// thread.
#[must_use]
pub fn run_bound(words: impl Iterator<Item = OsString>) -> i32 {
    follow(words).unwrap_or_else(|error| {
        eprint_line(&format!("windlass: the program cannot be followed: {error}"));
        FAILED
    })
}

fn eprint_line(line: &str) {
    // There is nobody else to tell.
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("{line}\n").as_bytes());
}

fn follow(mut words: impl Iterator<Item = OsString>) -> io::Result<i32> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let parent = words.next().and_then(|word| word.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let parent = parent.ok_or_else(invalid)?;
    let program = words.next().ok_or_else(invalid)?;
    set_child_subreaper(Some(getpid()))?;
    let signals = interrupt::signal_pipe()?;
    let parent_exit = pidfd_open(parent, PidfdFlags::empty())?;
    // Asked after the descriptor is open: it is that of our parent, not of a later process with its number.
    if getppid() != Some(parent) {
        return Ok(FAILED);
    }
    let mut command = Command::new(&program);
    command.args(words).stdin(Stdio::inherit()).process_group(0);
    let child = command.spawn()?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(invalid)?;
    let code = wait(child, &parent_exit, &signals);
    end_all();
    code
}

/// Waits until the program has ended, or has to.
fn wait(child: Pid, parent_exit: &OwnedFd, signals: &PipeReader) -> io::Result<i32> {
    let exit = pidfd_open(child, PidfdFlags::empty())?;
    let mut deadline: Option<Instant> = None;
    loop {
        let mut fds =
            vec![PollFd::new(&exit, PollFlags::IN), PollFd::new(parent_exit, PollFlags::IN)];
        if deadline.is_none() {
            fds.push(PollFd::new(signals, PollFlags::IN));
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match poll(&mut fds, left.map(timespec).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready =
            |at: usize| fds.get(at).is_some_and(|fd: &PollFd<'_>| !fd.revents().is_empty());
        let (has_exited, is_alone, is_asked) = (is_ready(0), is_ready(1), is_ready(2));
        // Those that were adopted are reaped, too.
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == child {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                return Ok(status.exit_status().or(signal).unwrap_or(FAILED));
            }
        }
        let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_alone || is_over || has_exited {
            return Ok(FAILED);
        }
        if is_asked {
            // It may have ended.
            let _ = kill_process_group(child, Signal::TERM);
            deadline = Instant::now().checked_add(GRACE);
        }
    }
}

/// Kills every process that descends from this one. What loses its parent becomes a child of this process.
fn end_all() {
    let began = Instant::now();
    while began.elapsed() < END {
        for child in children() {
            // It may have ended.
            let _ = kill_process(child, Signal::KILL);
        }
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        std::thread::sleep(AGAIN);
    }
}

/// The processes whose parent is this one.
fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may have any character, come the state and the parent.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        rest.split_whitespace().nth(1) == Some(own.as_str())
    };
    numbers.filter(is_child).filter_map(Pid::from_raw).collect()
}
