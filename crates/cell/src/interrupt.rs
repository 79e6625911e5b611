//! Whether this process was asked to end, by Ctrl-C, a closed terminal or `SIGTERM`.
//!
//! Signals are the process's, so this is too. The first signal ends the programs that [`run`](crate::run()) runs
//! and lets Windlass record what became of them; a second one ends the process at once, and with it every cell.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::process::timespec;

static INTERRUPT: OnceLock<Interrupt> = OnceLock::new();

struct Interrupt {
    /// The first signal that came; 0 is none.
    signal: Arc<AtomicUsize>,
    /// Readable from the first signal on. It is never read, so that it wakes everybody who polls it.
    pipe: PipeReader,
    /// When the first signal was noticed.
    noticed: OnceLock<Instant>,
}

/// How long after a signal work on files may go on, so that what is nearly done is done and recorded.
const GRACE: Duration = Duration::from_secs(2);

/// A signal that asked this process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedSignal(i32);

impl ReceivedSignal {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            SIGINT => "SIGINT",
            SIGHUP => "SIGHUP",
            _ => "SIGTERM",
        }
    }

    /// The exit code of a process that ended because of it.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        u8::try_from(self.0).unwrap_or_default().saturating_add(128)
    }
}

/// Handles `SIGINT`, `SIGTERM` and `SIGHUP` from now on, except those that this process was started to ignore.
///
/// # Errors
/// The system's error.
pub fn handle_signals() -> io::Result<()> {
    if INTERRUPT.get().is_some() {
        return Ok(());
    }
    let (pipe, writer) = io::pipe()?;
    let (every, every_writer) = io::pipe()?;
    let signal = Arc::new(AtomicUsize::new(0));
    let again = Arc::new(AtomicBool::new(false));
    let ignored = ignored_signals();
    for number in [SIGINT, SIGTERM, SIGHUP] {
        if ignored & (1 << (number - 1)) != 0 {
            continue;
        }
        // Only for a third signal, if the thread below cannot end the process after the second one.
        flag::register_conditional_shutdown(number, 128 + number, Arc::clone(&again))?;
        let value = usize::try_from(number).unwrap_or_default();
        flag::register_usize(number, Arc::clone(&signal), value)?;
        signal_hook::low_level::pipe::register(number, writer.try_clone()?)?;
        // Last: who reads it knows the number of the signal.
        signal_hook::low_level::pipe::register(number, every_writer.try_clone()?)?;
    }
    let last = Arc::clone(&signal);
    let watch = move || end_at_second_signal(every, &last, &again);
    thread::Builder::new().name("signals".to_owned()).spawn(watch)?;
    // Another thread may have been quicker; then its flags are set as well.
    let _ = INTERRUPT.set(Interrupt { signal, pipe, noticed: OnceLock::new() });
    Ok(())
}

/// Makes a write beyond the limit of a file's size an error, which has a code and a hint, where it would end the process.
/// Programs that are started do not inherit it.
///
/// # Errors
/// The system's error.
pub fn survive_file_limit() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// A pipe that becomes readable when `SIGINT`, `SIGTERM` or `SIGHUP` comes, unless this process was started to ignore it.
///
/// Nothing else happens then: what runs goes on, until [`handle_signals`] is called and another signal comes.
///
/// # Errors
/// The system's error.
pub fn signal_pipe() -> io::Result<PipeReader> {
    let (pipe, writer) = io::pipe()?;
    let ignored = ignored_signals();
    for number in [SIGINT, SIGTERM, SIGHUP] {
        if ignored & (1 << (number - 1)) == 0 {
            signal_hook::low_level::pipe::register(number, writer.try_clone()?)?;
        }
    }
    Ok(pipe)
}

/// Ends the process when a second signal comes, and says so. A handler of a signal could not write.
fn end_at_second_signal(mut every: PipeReader, last: &AtomicUsize, again: &AtomicBool) {
    if every.read_exact(&mut [0; 2]).is_err() {
        return;
    }
    again.store(true, Ordering::Release);
    let signal = ReceivedSignal(i32::try_from(last.load(Ordering::Acquire)).unwrap_or(SIGTERM));
    let line = format!("windlass: {} came again, so it ends at once\n", signal.name());
    // Neither the lock of the stream nor a reader that reads nothing may keep the process from ending.
    let stderr = io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    if poll(&mut ready, Some(&timespec(Duration::ZERO))).is_ok_and(|count| count > 0) {
        // There is nobody left to tell that this failed.
        let _ = rustix::io::write(&stderr, line.as_bytes());
    }
    signal_hook::low_level::exit(i32::from(signal.exit_code()))
}

/// The signals that this process ignores, one bit for each; none if the kernel does not say.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The signal that asked this process to end, if one came.
#[must_use]
pub fn received_signal() -> Option<ReceivedSignal> {
    let number = INTERRUPT.get()?.signal.load(Ordering::Acquire);
    i32::try_from(number).ok().filter(|number| *number != 0).map(ReceivedSignal)
}

/// How much longer work on files may take, once a signal has come.
pub(crate) fn time_left() -> Option<Duration> {
    received_signal()?;
    let noticed = INTERRUPT.get()?.noticed.get_or_init(Instant::now);
    Some(GRACE.saturating_sub(noticed.elapsed()))
}

/// Becomes readable when a signal has come.
pub(crate) fn wake_up() -> Option<BorrowedFd<'static>> {
    INTERRUPT.get().map(|interrupt| interrupt.pipe.as_fd())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn a_file_that_may_not_grow_is_an_error_and_not_the_end() {
        survive_file_limit().unwrap();
        let before = getrlimit(Resource::Fsize);
        let mut file = tempfile::tempfile().unwrap();
        setrlimit(Resource::Fsize, Rlimit { current: Some(1024), ..before }).unwrap();
        let written = file.write_all(&[0; 4096]);
        setrlimit(Resource::Fsize, before).unwrap();
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
