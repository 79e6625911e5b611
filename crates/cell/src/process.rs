//! A child process with its own process group, watched without being reaped.
//!
//! INVARIANT: the group is signalled only while its leader is not reaped, so that its number cannot
//! have been given to another process.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::child::CellChild;
use crate::spec::{Cell, CellCommand};

/// How long a killed process may take to exit before a thread of its own reaps it.
const REAP_MS: u64 = 2000;

/// Why a program has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// It was not started.
    #[error("{0}")]
    NotStarted(String),
    /// It was not started, since it cannot be confined.
    #[error("{0}")]
    NotConfined(String),
    /// It was started, and what became of it is not known.
    #[error("{0}")]
    Lost(String),
}

/// What a child process has as its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildInput {
    /// `/dev/null`.
    Null,
    /// A pipe.
    Pipe,
}

/// Our ends of a child's standard streams.
#[derive(Debug)]
pub struct ChildStreams {
    /// Present with [`ChildInput::Pipe`].
    pub stdin: Option<InputPipe>,
    /// The child's standard output.
    pub stdout: ChildStdout,
    /// The child's standard error.
    pub stderr: ChildStderr,
}

/// Our end of a child's standard input.
pub type InputPipe = PipeWriter;

/// Where a program is confined, and the binary that is the launcher.
#[derive(Clone, Copy, Debug)]
pub struct Confined<'a> {
    /// The path of our own binary.
    pub launcher: &'a Path,
    /// The cell.
    pub cell: &'a Cell,
}

/// A running process group, or a cell with all its processes. Dropping it kills what is left of it.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Option<Child>,
    pid: Pid,
    cell: Option<CellChild>,
    /// Reaches its end when the leader has exited.
    exit: PipeReader,
}

/// Starts a program in a process group of its own, or in a cell. Of our environment the child gets the
/// search path, home, locale and temporary directory, [`TOOLCHAIN_VARIABLES`], and `env`.
///
/// # Errors
/// [`ProcessError`].
pub fn spawn<K: AsRef<OsStr>, V: AsRef<OsStr>>(
    argv: &[impl AsRef<OsStr>],
    env: impl IntoIterator<Item = (K, V)>,
    cwd: &Path,
    input: ChildInput,
    confined: Option<Confined<'_>>,
) -> Result<(ProcessGroup, ChildStreams), ProcessError> {
    spawn_holding(argv, env, cwd, input, None, confined)
}

/// Starts a program as [`spawn`] does; without a cell and other input, its standard input is `held`.
pub(crate) fn spawn_holding<K: AsRef<OsStr>, V: AsRef<OsStr>>(
    argv: &[impl AsRef<OsStr>],
    env: impl IntoIterator<Item = (K, V)>,
    cwd: &Path,
    input: ChildInput,
    held: Option<BorrowedFd<'_>>,
    confined: Option<Confined<'_>>,
) -> Result<(ProcessGroup, ChildStreams), ProcessError> {
    let refuse = ProcessError::NotStarted;
    let Some((program, arguments)) = argv
        .split_first()
        .map(|(program, arguments)| (program.as_ref(), arguments))
        .filter(|(program, _)| !program.is_empty())
    else {
        return Err(refuse("the command is empty".to_owned()));
    };
    if !cwd.is_dir() {
        return Err(refuse(format!("there is no directory `{}`", cwd.display())));
    }
    let (reader, writer) = match input {
        ChildInput::Null => (None, None),
        ChildInput::Pipe => {
            let (reader, writer) =
                io::pipe().map_err(|error| refuse(format!("no pipe: {error}")))?;
            (Some(reader), Some(writer))
        }
    };
    let ours = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(passed_on));
    let env =
        env.into_iter().map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()));
    let Some(confined) = confined else {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(ours).envs(env).current_dir(cwd);
        let held = held.map(|held| held.try_clone_to_owned()).transpose();
        let held = held.map_err(|error| refuse(format!("no descriptor: {error}")))?;
        let stdin = reader.map(Stdio::from).or(held.map(Stdio::from));
        command.stdin(stdin.unwrap_or_else(Stdio::null));
        return start(command, writer, None);
    };
    let not_confined = |what: &str, error: &dyn std::fmt::Display| {
        ProcessError::NotConfined(format!("{what}: {error}"))
    };
    let arguments = arguments.iter().map(AsRef::as_ref);
    let program = request(std::iter::once(program).chain(arguments), ours.chain(env), cwd)?;
    let (cell, socket) = CellChild::new(confined.cell)
        .map_err(|error| not_confined("there is no control socket", &error))?;
    let mut command = Command::new(confined.launcher);
    command.args(cell.arguments()).env_clear().stdin(Stdio::from(socket));
    let (group, streams) = start(command, writer, Some(cell)).map_err(|error| match error {
        ProcessError::NotStarted(why) => ProcessError::NotConfined(why),
        ProcessError::NotConfined(_) | ProcessError::Lost(_) => error,
    })?;
    let stdin = reader.as_ref().map(|reader| reader.as_fd());
    let sent = group.cell.as_ref().map(|cell| cell.start(confined.cell, &program, stdin));
    match sent {
        // A launcher that has died already is noticed by whoever waits for it.
        Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(not_confined("the launcher does not read its request", &error))
        }
        Some(Ok(()) | Err(_)) | None => Ok((group, streams)),
    }
}

/// The program as the launcher is told of it.
fn request<'a>(
    argv: impl Iterator<Item = &'a OsStr>,
    env: impl Iterator<Item = (OsString, OsString)>,
    cwd: &Path,
) -> Result<CellCommand, ProcessError> {
    let text = |word: &OsStr| match word.to_str() {
        Some(text) if !text.contains('\0') => Ok(text.to_owned()),
        Some(_) => Err(ProcessError::NotStarted("an argument contains a zero byte".to_owned())),
        None => Err(ProcessError::NotStarted("an argument is not UTF-8".to_owned())),
    };
    let argv = argv.map(text).collect::<Result<Vec<_>, _>>()?;
    let mut all = std::collections::BTreeMap::new();
    for (name, value) in env {
        // A variable of ours that is not UTF-8 is not passed on.
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
            all.insert(name.to_owned(), value.to_owned());
        }
    }
    all.insert("TMPDIR".to_owned(), "/tmp".to_owned());
    Ok(CellCommand { argv, env: all.into_iter().collect(), cwd: cwd.to_owned() })
}

/// Starts a prepared command in a process group of its own.
pub(crate) fn start(
    mut command: Command,
    stdin: Option<InputPipe>,
    cell: Option<CellChild>,
) -> Result<(ProcessGroup, ChildStreams), ProcessError> {
    let lost = |what: &str| ProcessError::Lost(what.to_owned());
    let (exit, watch) =
        watcher().map_err(|error| ProcessError::NotStarted(format!("no thread: {error}")))?;
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        let program = Path::new(command.get_program());
        ProcessError::NotStarted(format!("cannot start `{}`: {error}", program.display()))
    })?;
    // The child's ends of the pipes must not stay open here.
    drop(command);
    let streams = (child.stdout.take(), child.stderr.take());
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Err(lost("the child process has no number"));
    };
    // The watcher waits for this; without it the pipe would end and the group be killed.
    let _ = watch.send(pid);
    let group = ProcessGroup { child: Some(child), pid, cell, exit };
    match streams {
        (Some(stdout), Some(stderr)) => Ok((group, ChildStreams { stdin, stdout, stderr })),
        (_, _) => Err(lost("the child process has no streams")),
    }
}

/// Variables that name the directories of toolchains: without them a compiler outside its usual
/// directory is not found. None of them holds a secret.
pub const TOOLCHAIN_VARIABLES: [&str; 26] = [
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "BUN_INSTALL",
    "CARGO_HOME",
    "CONDA_PREFIX",
    "DENO_DIR",
    "GEM_HOME",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GRADLE_USER_HOME",
    "JAVA_HOME",
    "MISE_DATA_DIR",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SDKMAN_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Whether a variable of ours is passed on to a child.
fn passed_on(name: &str) -> bool {
    matches!(name, "PATH" | "HOME" | "LANG" | "TMPDIR" | "USER")
        || name.starts_with("LC_")
        || TOOLCHAIN_VARIABLES.contains(&name)
}

/// Starts the thread that closes the pipe once the process it is given has exited.
fn watcher() -> io::Result<(PipeReader, mpsc::Sender<Pid>)> {
    let (reader, writer) = io::pipe()?;
    let (sender, receiver) = mpsc::channel::<Pid>();
    thread::Builder::new().name("windlass-wait".to_owned()).spawn(move || {
        if let Ok(pid) = receiver.recv() {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        }
        drop(writer);
    })?;
    Ok((reader, sender))
}

impl ProcessGroup {
    /// Becomes readable when the leader has exited.
    #[must_use]
    pub const fn exit(&self) -> &PipeReader {
        &self.exit
    }

    /// Why the command never ran, of a cell that has ended.
    #[must_use]
    pub fn failure(&self) -> Option<ProcessError> {
        self.cell.as_ref().and_then(CellChild::failure)
    }

    /// The cell in which the processes are, if they are in one.
    pub const fn cell(&mut self) -> Option<&mut CellChild> {
        self.cell.as_mut()
    }

    /// The cell, while it may still report.
    pub(crate) fn reporting_cell(&self) -> Option<&CellChild> {
        self.cell.as_ref().filter(|cell| !cell.has_ended())
    }

    /// Waits until a program in a cell is started; returns the socket on which it expects the broker.
    ///
    /// # Errors
    /// [`ProcessError`] if it is not started in `time`.
    pub fn wait_started(&mut self, time: Duration) -> Result<Option<TcpListener>, ProcessError> {
        let Some(cell) = &mut self.cell else { return Ok(None) };
        let deadline = Instant::now() + time;
        let failed = |why: String| ProcessError::NotConfined(why);
        loop {
            cell.update().map_err(|error| failed(format!("the launcher's report: {error}")))?;
            if cell.started()? {
                return Ok(cell.take_listener());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&*cell, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(0) => return Err(failed("the cell was not made in time".to_owned())),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(format!("cannot follow the launcher: {error}"))),
            }
        }
    }

    /// Asks every process to end; in a cell, those of the program's own process group.
    pub fn terminate(&self) {
        match &self.cell {
            Some(cell) => cell.terminate(),
            None => self.signal(Signal::TERM),
        }
    }

    /// Sends a signal to every process of the group.
    fn signal(&self, signal: Signal) {
        if self.child.is_some() {
            // It may all be gone already.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Waits until the leader has exited, at most for `time`, without reaping it; returns whether it
    /// has.
    #[must_use]
    pub fn wait(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            let mut fds = [PollFd::new(&self.exit, PollFlags::IN)];
            match poll(
                &mut fds,
                Some(&timespec(deadline.saturating_duration_since(Instant::now()))),
            ) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Kills what is left of the group, reaps the leader and returns its exit status; `None` when it
    /// does not exit.
    pub fn finish(&mut self) -> Option<ExitStatus> {
        if let Some(cell) = &self.cell {
            // The launcher exits when all processes of the cell are gone.
            cell.end();
            let _ = self.wait(Duration::from_millis(REAP_MS));
        }
        self.signal(Signal::KILL);
        let exited = self.wait(Duration::from_millis(REAP_MS));
        let mut child = self.child.take()?;
        if exited {
            let status = child.wait().ok();
            let Some(cell) = &mut self.cell else { return status };
            // The launcher's own status says nothing about the command.
            let _ = cell.update();
            return cell.status(status);
        }
        // Stuck in the kernel: a thread reaps it, so that the caller does not wait.
        let _ = thread::Builder::new().name("windlass-reap".to_owned()).spawn(move || child.wait());
        None
    }

    /// Sends `SIGTERM`, waits for the leader at most for `grace`, then kills what is left.
    pub fn stop(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.terminate();
        let _ = self.wait(grace);
        self.finish()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.finish();
        }
    }
}

/// Returns how a process ended, as a phrase: `exited with status 1`.
#[must_use]
pub fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Converts a duration to the kernel's form.
pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::from(i32::MAX), tv_nsec: 0 })
}

#[cfg(test)]
mod tests {
    use super::passed_on;

    #[test]
    fn toolchain_variables_are_passed_on_and_secrets_are_not() {
        for name in ["PATH", "LC_ALL", "RUSTUP_HOME", "JAVA_HOME", "VIRTUAL_ENV"] {
            assert!(passed_on(name), "{name}");
        }
        let kept = ["CARGO_REGISTRY_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "rustup_home"];
        for name in kept.into_iter().chain(["LD_PRELOAD", "BASH_ENV", "RUSTFLAGS", "CARGO", ""]) {
            assert!(!passed_on(name), "{name}");
        }
    }
}
