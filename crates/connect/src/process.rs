//! A child process with its own process group, watched without being reaped.
//!
//! INVARIANT: the group is signalled only while its leader is not reaped, so that its number cannot
//! have been given to another process.

use std::ffi::OsStr;
use std::io::{self, PipeReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How long a killed process may take to exit before a thread of its own reaps it.
const REAP_MS: u64 = 2000;

/// Why a program has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// It was not started.
    #[error("{0}")]
    NotStarted(String),
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
    pub stdin: Option<ChildStdin>,
    /// The child's standard output.
    pub stdout: ChildStdout,
    /// The child's standard error.
    pub stderr: ChildStderr,
}

/// A running process group. Dropping it kills what is left of it.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Option<Child>,
    pid: Pid,
    /// Reaches its end when the leader has exited.
    exit: PipeReader,
}

/// Starts a program in a process group of its own. Of our environment the child gets the search path,
/// home, locale and temporary directory, [`TOOLCHAIN_VARIABLES`], and `env`.
///
/// # Errors
/// [`ProcessError`].
pub fn spawn<K: AsRef<OsStr>, V: AsRef<OsStr>>(
    argv: &[impl AsRef<OsStr>],
    env: impl IntoIterator<Item = (K, V)>,
    cwd: &Path,
    input: ChildInput,
) -> Result<(ProcessGroup, ChildStreams), ProcessError> {
    let refuse = ProcessError::NotStarted;
    let lost = |what: &str| ProcessError::Lost(what.to_owned());
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
    let (exit, watch) = watcher().map_err(|error| refuse(format!("no thread: {error}")))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(passed_on)))
        .envs(env)
        .current_dir(cwd)
        .process_group(0)
        .stdin(match input {
            ChildInput::Null => Stdio::null(),
            ChildInput::Pipe => Stdio::piped(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        refuse(format!("cannot start `{}`: {error}", Path::new(program).display()))
    })?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Err(lost("the child process has no number"));
    };
    // The watcher waits for this; without it the pipe would end and the group be killed.
    let _ = watch.send(pid);
    let group = ProcessGroup { child: Some(child), pid, exit };
    match streams {
        (stdin, Some(stdout), Some(stderr)) => Ok((group, ChildStreams { stdin, stdout, stderr })),
        _ => Err(lost("the child process has no streams")),
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

    /// Sends a signal to every process of the group.
    pub fn signal(&self, signal: Signal) {
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
        self.signal(Signal::KILL);
        let exited = self.wait(Duration::from_millis(REAP_MS));
        let mut child = self.child.take()?;
        if exited {
            return child.wait().ok();
        }
        // Stuck in the kernel: a thread reaps it, so that the caller does not wait.
        let _ = thread::Builder::new().name("windlass-reap".to_owned()).spawn(move || child.wait());
        None
    }

    /// Sends `SIGTERM`, waits for the leader at most for `grace`, then kills what is left.
    pub fn stop(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
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
