//! One invocation of the `git` command, with fixed settings and environment.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass_cell::{
    ChildInput, ChildStreams, Ending, Excess, Finished, Limits, OnSignal, ProcessError,
    ProcessGroup, Program, ReceivedSignal, describe_exit, one_line, received_signal,
};

use super::error::{GitCause, GitError};
use super::os;
use super::program::Helper;

/// The time limit of a read; large work trees on cold disks are slow.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// The time limit of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(600);
/// The output limit.
const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The first version that runs commands of the settings as hooks (`hook.*.command`).
const CONFIGURED_HOOKS: (u32, u32) = (2, 54);

/// Settings of every invocation: no program that the repository names runs, no preference of the user
/// changes the output, and no cache that others can write is trusted. They override what any file says,
/// whether it is included, conditional, or that of a work tree.
const OPTIONS: [&str; 35] = [
    "core.hooksPath=/dev/null",
    // Commands of the settings as hooks, by event: all that our commands could cause.
    "hook.reference-transaction.enabled=false",
    "hook.post-index-change.enabled=false",
    "hook.post-checkout.enabled=false",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=true",
    "sequence.editor=true",
    "core.askPass=true",
    "core.sshCommand=false",
    "core.alternateRefsCommand=true",
    "gpg.program=false",
    "gpg.x509.program=false",
    "gpg.ssh.program=false",
    "gpg.ssh.defaultKeyCommand=",
    // An empty one removes those of all files.
    "credential.helper=",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "init.templateDir=",
    "fetch.recurseSubmodules=false",
    "core.useReplaceRefs=false",
    "core.untrackedCache=false",
    "core.ignoreStat=false",
    "core.splitIndex=false",
    "core.quotePath=false",
    "core.safecrlf=false",
    "color.ui=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "i18n.commitEncoding=UTF-8",
    "log.showSignature=false",
    // It is a file of the work tree, which may be a pipe.
    "log.mailmap=false",
    "diff.relative=false",
    "commit.gpgSign=false",
];

/// The environment of every invocation: programs are found in folders of the system, nothing is
/// fetched over any protocol, and git never prompts.
const ENVIRONMENT: [(&str, &str); 12] = [
    ("PATH", "/usr/bin:/usr/local/bin:/bin:/usr/sbin:/usr/local/sbin:/sbin"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_PROTOCOL_FROM_USER", "0"),
    // There is none, and git does not say so.
    ("GIT_GRAFT_FILE", "/dev/null/none"),
    ("LC_ALL", "C"),
    ("LANGUAGE", ""),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
];

/// Whether an invocation may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A builder for one invocation.
pub(crate) struct Invocation<'a> {
    operation: &'static str,
    cwd: &'a Path,
    access: Access,
    arguments: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    /// Settings whose names cannot be given as arguments, since a name may have any character.
    settings: Vec<(OsString, OsString)>,
    /// Whether the repository's own settings are read.
    repository_settings: bool,
    stdin: Option<Vec<u8>>,
    bytes_max: usize,
    on_signal: OnSignal,
    /// A lock that git holds, too, until it has ended.
    lock: Option<&'a File>,
}

/// The output and exit of git.
pub(crate) struct GitOutput {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    exit: String,
    stderr: Vec<u8>,
}

impl<'a> Invocation<'a> {
    pub fn new(operation: &'static str, cwd: &'a Path, access: Access) -> Self {
        let mut arguments = Vec::new();
        for option in OPTIONS {
            arguments.extend(["-c".into(), option.into()]);
        }
        arguments.extend(["--no-pager".into(), "--literal-pathspecs".into()]);
        let mut env: Vec<(OsString, OsString)> =
            ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into())).collect();
        if access == Access::Read {
            env.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
        }
        // The directory of the user's settings, such as the list of ignored files.
        if let Some(folder) = std::env::var_os("XDG_CONFIG_HOME") {
            env.push(("XDG_CONFIG_HOME".into(), folder));
        }
        Self {
            operation,
            cwd,
            access,
            arguments,
            env,
            settings: Vec::new(),
            repository_settings: true,
            stdin: None,
            bytes_max: OUTPUT_BYTES_MAX,
            on_signal: OnSignal::Continue,
            lock: None,
        }
    }

    /// Lets git hold a lock, too: if this process is killed, who waits for the lock waits for git.
    pub const fn holding(mut self, lock: &'a File) -> Self {
        self.lock = Some(lock);
        self
    }

    /// Says that it reads files of any size and changes nothing that counts yet: a signal that asks Windlass to
    /// end ends it soon.
    pub const fn reading_files(mut self) -> Self {
        self.on_signal = OnSignal::EndSoon;
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    pub fn arg(self, argument: impl AsRef<OsStr>) -> Self {
        self.args([argument])
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Lets it speak these protocols, with these settings instead of those that keep it from it. Call it before
    /// anything else: options come before the command.
    pub fn speaking(mut self, protocols: &str, settings: &[OsString]) -> Self {
        let ssh = OsStr::new("core.sshCommand=false");
        let mut options = std::mem::take(&mut self.arguments).into_iter();
        while let Some(option) = options.next() {
            match options.next() {
                Some(setting) if option == "-c" && setting == ssh => {}
                Some(value) => self.arguments.extend([option, value]),
                None => self.arguments.push(option),
            }
        }
        for setting in settings {
            self.arguments.extend(["-c".into(), setting.clone()]);
        }
        self.env.retain(|(name, _)| name != "GIT_ALLOW_PROTOCOL");
        self.env("GIT_ALLOW_PROTOCOL", protocols)
    }

    /// Overrides settings of the repository and the user.
    pub fn settings(mut self, settings: &[(OsString, OsString)]) -> Self {
        self.settings.extend_from_slice(settings);
        self
    }

    /// Says that the git directory is one of ours, and that no settings of the user or the system are
    /// read.
    pub fn private(mut self) -> Self {
        self.repository_settings = false;
        self.env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Runs git and returns its output, whatever its exit code.
    pub fn run(self) -> Result<GitOutput, GitError> {
        let finished = self.finish()?;
        self.check(finished)
    }

    /// Runs git, which must succeed, and returns its standard output.
    pub fn output(self) -> Result<Vec<u8>, GitError> {
        let (operation, cwd) = (self.operation, self.cwd);
        let output = self.run()?;
        if output.code == Some(0) { Ok(output.stdout) } else { Err(output.failure(operation, cwd)) }
    }

    /// Runs git, which must succeed and write one line.
    pub fn line(self) -> Result<String, GitError> {
        let operation = self.operation;
        let bytes = self.output()?;
        single_line(&bytes).ok_or_else(|| GitError::unexpected(operation, &bytes))
    }

    /// Runs git, which must succeed, and returns at most `bytes_max` bytes of its standard output, and
    /// whether there was more.
    pub fn output_prefix(mut self, bytes_max: usize) -> Result<(Vec<u8>, bool), GitError> {
        let (operation, cwd) = (self.operation, self.cwd);
        self.bytes_max = bytes_max;
        let finished = self.finish()?;
        let mut bytes = match (finished.ending, finished.status) {
            (Ending::TooLarge("stdout"), _) => finished.stdout,
            (
                Ending::TooLarge(_)
                | Ending::Limit(_)
                | Ending::TimedOut
                | Ending::Interrupted
                | Ending::Exited,
                _,
            ) => {
                let output = self.check(finished)?;
                if output.code != Some(0) {
                    return Err(output.failure(operation, cwd));
                }
                return Ok((output.stdout, false));
            }
        };
        bytes.truncate(bytes_max);
        Ok((bytes, true))
    }

    /// Starts git and leaves it running, for a batch command.
    pub fn spawn(&self) -> Result<(ProcessGroup, ChildStreams), GitError> {
        let helper = self.helper()?;
        let env = self.full_env(&helper)?;
        windlass_cell::spawn(&self.argv(&helper), env, self.cwd, ChildInput::Pipe, None).map_err(
            |error| GitError::new(self.operation, GitCause::Missing(one_line(&error.to_string()))),
        )
    }

    fn helper(&self) -> Result<Arc<Helper>, GitError> {
        let fail = |why: String| GitError::new(self.operation, GitCause::Helper(one_line(&why)));
        Helper::current().map_err(fail)
    }

    fn argv<'b>(&'b self, helper: &'b Helper) -> Vec<&'b OsStr> {
        let mut argv = vec![helper.program.as_os_str()];
        argv.extend(self.arguments.iter().map(OsString::as_os_str));
        argv
    }

    fn full_env(&self, helper: &Helper) -> Result<Vec<(OsString, OsString)>, GitError> {
        let mut settings = self.settings.clone();
        if self.repository_settings && helper.version >= CONFIGURED_HOOKS {
            settings.extend(self.configured_hooks(helper)?);
        }
        let mut env = self.env.clone();
        env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
        for (number, (name, value)) in settings.into_iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{number}").into(), name));
            env.push((format!("GIT_CONFIG_VALUE_{number}").into(), value));
        }
        Ok(env)
    }

    /// Settings that disable every command that the settings define as a hook.
    fn configured_hooks(&self, helper: &Helper) -> Result<Vec<(OsString, OsString)>, GitError> {
        let arguments = ["config", "-z", "--name-only", "--get-regexp", "^hook\\..*\\.command$"];
        let mut argv = vec![helper.program.as_os_str()];
        argv.extend(arguments.map(OsStr::new));
        let finished = self.finish_with(argv, &self.env, None)?;
        let output = self.check(finished)?;
        let mut settings = Vec::new();
        for name in output.stdout.split(|byte| *byte == 0) {
            let Some(start) = name.strip_suffix(b"command") else { continue };
            for (end, value) in [(&b"command"[..], "true"), (b"enabled", "false")] {
                let name = [start, end].concat();
                settings.push((os(&name).to_owned(), value.into()));
            }
        }
        Ok(settings)
    }

    const fn limits(&self) -> Limits {
        Limits {
            timeout: match self.access {
                Access::Read => READ_TIMEOUT,
                Access::Write => WRITE_TIMEOUT,
            },
            output_bytes_max: self.bytes_max,
        }
    }

    fn finish(&self) -> Result<Finished, GitError> {
        let helper = self.helper()?;
        let env = self.full_env(&helper)?;
        self.finish_with(self.argv(&helper), &env, self.stdin.as_deref())
    }

    fn finish_with(
        &self,
        argv: Vec<&OsStr>,
        env: &[(OsString, OsString)],
        stdin: Option<&[u8]>,
    ) -> Result<Finished, GitError> {
        let fail = |cause| GitError::new(self.operation, cause);
        let program = Program {
            argv,
            stdin,
            env: env.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect(),
            cwd: self.cwd,
            limits: self.limits(),
            confined: None,
            excess: Excess::End,
            on_signal: self.on_signal,
        };
        let finished = match self.lock {
            Some(lock) => windlass_cell::run_holding(&program, lock),
            None => windlass_cell::run(&program),
        };
        finished.map_err(|error| match error {
            ProcessError::NotStarted(why) | ProcessError::NotConfined(why) => {
                fail(GitCause::Missing(one_line(&why)))
            }
            ProcessError::Lost(why) => fail(GitCause::Unexpected(one_line(&why))),
        })
    }

    fn check(&self, finished: Finished) -> Result<GitOutput, GitError> {
        let (fail, limits) = (|cause| GitError::new(self.operation, cause), self.limits());
        match (finished.ending, finished.status) {
            (Ending::TimedOut, _) => Err(fail(GitCause::Timeout(limits.timeout.as_millis()))),
            (Ending::TooLarge(_) | Ending::Limit(_), _) => {
                Err(fail(GitCause::TooLarge(limits.output_bytes_max)))
            }
            (Ending::Interrupted, _) => {
                let signal = received_signal().map_or("a signal", ReceivedSignal::name);
                Err(fail(GitCause::Interrupted(signal)))
            }
            (Ending::Exited, None) => {
                Err(fail(GitCause::Unexpected("its exit was lost".to_owned())))
            }
            (Ending::Exited, Some(status)) => Ok(GitOutput {
                code: status.code(),
                stdout: finished.stdout,
                exit: describe_exit(status),
                stderr: finished.stderr,
            }),
        }
    }
}

impl GitOutput {
    /// The error that a failed exit means.
    pub fn failure(&self, operation: &'static str, cwd: &Path) -> GitError {
        let text = String::from_utf8_lossy(&self.stderr);
        let line = text
            .lines()
            .find(|line| line.starts_with("fatal:") || line.starts_with("error:"))
            .or_else(|| text.lines().next())
            .unwrap_or("no reason given");
        let cause = if line.contains("not a git repository") {
            GitCause::NotARepository(cwd.to_owned())
        } else if line.contains("must be run in a work tree")
            || line.contains("safe.bareRepository")
        {
            GitCause::NoWorkTree(cwd.to_owned())
        } else if line.contains(".lock'") && line.contains("File exists") {
            GitCause::Locked(one_line(line))
        } else {
            GitCause::Exit { how: self.exit.clone(), line: one_line(line) }
        };
        GitError::new(operation, cause)
    }
}

/// The text of output that is exactly one line.
pub(crate) fn single_line(bytes: &[u8]) -> Option<String> {
    let line = bytes.strip_suffix(b"\n")?;
    let text = std::str::from_utf8(line).ok()?;
    (!text.is_empty() && !text.contains('\n')).then(|| text.to_owned())
}
