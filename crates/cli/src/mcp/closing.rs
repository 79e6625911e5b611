//! The end of a server: its clients are gone, or a signal came.

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Tells the calls that wait for a person that the server ends.
#[derive(Debug, Default)]
pub struct Closing {
    closing: Mutex<bool>,
    changed: Condvar,
}

impl Closing {
    /// The server ends.
    pub fn begin(&self) {
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits at most this long for the end; returns whether it has come.
    pub fn wait(&self, at_most: Duration) -> bool {
        let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |closing: &mut bool| !*closing;
        let waited = self.changed.wait_timeout_while(closing, at_most, open);
        let (closing, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *closing
    }
}

/// Standard input, which ends with the first signal, too.
pub struct Input {
    stdin: File,
    signal: PipeReader,
    closing: Arc<Closing>,
}

impl Input {
    /// Takes over standard input.
    pub fn new(signal: PipeReader, closing: Arc<Closing>) -> io::Result<Self> {
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { stdin, signal, closing })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready =
                [PollFd::new(&self.stdin, PollFlags::IN), PollFd::new(&self.signal, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [input, signal] = ready.map(|one| !one.revents().is_empty());
            if signal {
                after_signal(&self.closing);
                return Ok(0);
            }
            if input {
                let count = self.stdin.read(buffer)?;
                if count == 0 {
                    self.closing.begin();
                }
                return Ok(count);
            }
        }
    }
}

/// Waits for a signal.
pub fn wait_for_signal(mut signal: PipeReader, closing: &Closing) {
    // An error of the pipe would leave no way to end cleanly, so it ends now.
    let _ = signal.read(&mut [0]);
    after_signal(closing);
}

/// Calls in progress are finished; the next signal ends them.
fn after_signal(closing: &Closing) {
    closing.begin();
    // Without it the next signal does nothing; the calls have their own time limits.
    let _ = windlass_cell::handle_signals();
}
