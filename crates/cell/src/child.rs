//! Windlass's side of a cell.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::net::{RecvFlags, Shutdown, shutdown};

use crate::control::{self, Inbox};
use crate::process::ProcessError;
use crate::spec::{Cell, CellCommand, Level, LimitKind, Maker, Report, Request};

/// The control socket of one cell, and what came through it. Dropping it ends the cell with all its
/// processes.
#[derive(Debug)]
pub struct CellChild {
    stage: &'static str,
    level: Level,
    socket: OwnedFd,
    inbox: Inbox,
    started: bool,
    not_started: Option<ProcessError>,
    listener: Option<TcpListener>,
    limit: Option<LimitKind>,
    status: Option<ExitStatus>,
}

impl CellChild {
    /// Makes the control socket and returns the end that must be the launcher's standard input.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(cell: &Cell) -> io::Result<(Self, OwnedFd)> {
        let stage = match (cell.level, &cell.maker) {
            (Level::Full, Maker::Own) => "full",
            (Level::Full, Maker::Bwrap { .. }) => "bwrap",
            (Level::Landlock, _) => "landlock",
        };
        Self::of_stage(stage, cell.level)
    }

    /// The same for a launcher that only tries whether it can make namespaces.
    pub(crate) fn probe() -> io::Result<(Self, OwnedFd)> {
        Self::of_stage("probe", Level::Full)
    }

    fn of_stage(stage: &'static str, level: Level) -> io::Result<(Self, OwnedFd)> {
        let (socket, theirs) = control::pair()?;
        let child = Self {
            stage,
            level,
            socket,
            inbox: Inbox::default(),
            started: false,
            not_started: None,
            listener: None,
            limit: None,
            status: None,
        };
        Ok((child, theirs))
    }

    /// The arguments of the launcher.
    #[must_use]
    pub const fn arguments(&self) -> [&'static str; 2] {
        ["confined", self.stage]
    }

    /// Tells the launcher what to run and where.
    ///
    /// # Errors
    /// The system's error, also when the launcher has died.
    pub fn start(
        &self,
        cell: &Cell,
        command: &CellCommand,
        stdin: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        if let (Level::Full, Maker::Bwrap { .. }) = (cell.level, &cell.maker) {
            // For the launcher; the request is for the stage that `bwrap` starts.
            control::send(self.socket.as_fd(), cell, None)?;
        }
        let request =
            Request { cell: cell.clone(), command: command.clone(), has_stdin: stdin.is_some() };
        control::send(self.socket.as_fd(), &request, stdin)
    }

    /// Asks for `SIGTERM` to be sent to the command. A cell that has ended ignores it.
    pub fn terminate(&self) {
        drop(control::send_terminate(self.socket.as_fd()));
    }

    /// Ends the cell with all its processes. Its last reports can still be read.
    pub fn end(&self) {
        // A cell that has ended already has closed its side.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Reads the reports that have come; does not wait.
    ///
    /// # Errors
    /// The system's error, or a report that cannot be read.
    pub fn update(&mut self) -> io::Result<()> {
        loop {
            while let Some(report) = self.inbox.take::<Report>()? {
                self.add(report)?;
            }
            if self.inbox.ended || !self.inbox.read(self.socket.as_fd(), RecvFlags::DONTWAIT)? {
                return Ok(());
            }
        }
    }

    fn add(&mut self, report: Report) -> io::Result<()> {
        match report {
            Report::Refused(why) => self.not_started = Some(ProcessError::NotConfined(why)),
            Report::Started => self.started = true,
            Report::NoProgram(why) => self.not_started = Some(ProcessError::NotStarted(why)),
            Report::Listening(_) => {
                let socket = self.inbox.take_descriptor();
                let socket = socket.ok_or_else(|| io::Error::other("the socket did not come"))?;
                self.listener = Some(TcpListener::from(socket));
            }
            Report::Limit(limit) => self.limit = Some(limit),
            Report::Exited { code, signal } => {
                let raw = code.map_or_else(|| signal.unwrap_or(0), |code| code << 8);
                self.status = Some(ExitStatus::from_raw(raw));
            }
        }
        Ok(())
    }

    /// Whether the cell has closed its end of the socket.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.inbox.ended
    }

    /// Whether the program was started, or an error if it will not be.
    pub(crate) fn started(&self) -> Result<bool, ProcessError> {
        match (self.not_started.clone(), self.started, self.inbox.ended) {
            (Some(error), ..) => Err(error),
            (None, true, _) => Ok(true),
            (None, false, false) => Ok(false),
            (None, false, true) => self.failure().map_or(Ok(false), Err),
        }
    }

    /// Takes the socket on which the broker is to listen, once it has come.
    pub const fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    /// The limit because of which the cell was ended.
    #[must_use]
    pub const fn limit(&self) -> Option<LimitKind> {
        self.limit
    }

    /// The exit status of the command, if it has exited, from that of the launcher.
    #[must_use]
    pub const fn status(&self, launcher: Option<ExitStatus>) -> Option<ExitStatus> {
        match self.level {
            Level::Full => self.status,
            // The launcher became the command.
            Level::Landlock => launcher,
        }
    }

    /// Why the command never ran, of a cell that has ended.
    #[must_use]
    pub fn failure(&self) -> Option<ProcessError> {
        let silent = || ProcessError::NotConfined("the launcher reported nothing".to_owned());
        self.not_started.clone().or_else(|| (!self.started).then(silent))
    }
}

impl AsFd for CellChild {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
