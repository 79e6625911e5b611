//! Windlass's side of a cell.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::RecvFlags;

use crate::control::{self, Inbox};
use crate::spec::{Cell, Level, LimitKind, Program, Report, Request};

/// What a cell reports.
#[derive(Debug)]
pub enum CellEvent {
    /// The cell could not be made, for this reason; nothing ran.
    Refused(String),
    /// The program starts now.
    Started,
    /// The program could not be started, for this reason.
    NoProgram(String),
    /// The socket on which the broker is to listen.
    Listening(TcpListener),
    /// The program and its children were ended because of this limit.
    Limit(LimitKind),
    /// The program exited.
    Exited {
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
}

/// The control socket of one cell. Dropping it ends the cell with all its processes.
#[derive(Debug)]
pub struct CellChild {
    socket: OwnedFd,
    inbox: Inbox,
}

impl CellChild {
    /// Makes the control socket and returns the end that must be the launcher's standard input.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = control::pair()?;
        Ok((Self { socket: ours, inbox: Inbox::default() }, theirs))
    }

    /// The arguments of the launcher.
    #[must_use]
    pub const fn arguments(level: Level) -> [&'static str; 2] {
        match level {
            Level::Full => ["confined", "full"],
            Level::Landlock => ["confined", "landlock"],
        }
    }

    /// Tells the launcher what to run and where.
    ///
    /// # Errors
    /// The system's error, also when the launcher has died.
    pub fn start(
        &self,
        cell: &Cell,
        program: &Program,
        stdin: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let request =
            Request { cell: cell.clone(), program: program.clone(), has_stdin: stdin.is_some() };
        control::send(self.socket.as_fd(), &request, stdin)
    }

    /// Asks for `SIGTERM` to be sent to the program. A cell that has ended ignores it.
    pub fn terminate(&self) {
        drop(control::send_terminate(self.socket.as_fd()));
    }

    /// Returns the next report that has come; does not wait.
    ///
    /// # Errors
    /// The system's error, or a report that cannot be read.
    pub fn next_event(&mut self) -> io::Result<Option<CellEvent>> {
        loop {
            if let Some(report) = self.inbox.take::<Report>()? {
                return self.event(report).map(Some);
            }
            if self.inbox.ended || !self.inbox.read(self.socket.as_fd(), RecvFlags::DONTWAIT)? {
                return Ok(None);
            }
        }
    }

    /// Whether the cell has closed its end.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.inbox.ended
    }

    fn event(&mut self, report: Report) -> io::Result<CellEvent> {
        Ok(match report {
            Report::Refused(reason) => CellEvent::Refused(reason),
            Report::Started => CellEvent::Started,
            Report::NoProgram(reason) => CellEvent::NoProgram(reason),
            Report::Listening(_) => {
                let socket = self.inbox.take_descriptor();
                let socket = socket.ok_or_else(|| io::Error::other("the socket did not come"))?;
                CellEvent::Listening(TcpListener::from(socket))
            }
            Report::Limit(limit) => CellEvent::Limit(limit),
            Report::Exited { code, signal } => CellEvent::Exited { code, signal },
        })
    }
}

impl AsFd for CellChild {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
